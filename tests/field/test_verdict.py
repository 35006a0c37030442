"""The verdict: earliest layer, best claim, chain from cause to symptom, what was ruled out."""

from __future__ import annotations

import numpy as np
from cases import case, contract_model, host, target

from npudbg.layers.findings import finding, judge
from npudbg.layers.verdict import verdict
from npudbg.session.records import Subject

X = Subject(kind="tensor", name="x", tensor=0)


def found(code, text="text", subject=X, **fields):
    return finding(code, subject, text, **fields)


def test_nothing_at_fault_says_what_was_checked():
    x = np.arange(1, 17, dtype="f4")
    known = contract_model(x=("<f4", (16,)))
    clean = case(host(x, address=0x10000), model=known, on=target(dma={"base_alignment": 64}))
    answer = verdict(judge(clean, 1) + judge(clean, 2), case=clean)
    assert (answer.layer, answer.code, answer.finding) == (0, "", None)
    assert answer.summary == "nothing at fault"
    host_line, input_line, trace, output = answer.ruled_out
    assert host_line == (
        "host: 1 tensor C-contiguous, native byte order, aligned to 65536 (the target wants 64)"
    )
    assert input_line.startswith("input: 1 tensor of 1 fit")
    assert trace.startswith("trace:") and output.startswith("output:")


def test_from_a_view_to_the_devices_copy():
    x = np.asfortranarray(np.arange(1, 17, dtype="f4").reshape(4, 4))
    view = case(host(x), model=contract_model(x=("<f4", (4, 4))))
    command = Subject(kind="command", name="x", seq=3)
    all_found = [
        *judge(view, 1),
        *judge(view, 2),
        found("T301", "command 3: 12 of 16 elements differ", command),
    ]
    answer = verdict(all_found, case=view)
    assert (answer.layer, answer.code, answer.finding) == (1, "H101", 0)
    assert [link.split(":")[0] for link in answer.chain] == ["host", "trace"]
    assert [line.split(":")[0] for line in answer.ruled_out] == ["input", "output"]


def test_the_earliest_layer_and_in_it_the_best_claim():
    some = case(host(np.ones((4, 2), "f4")))
    several = [
        found("O402", "symptom"),
        found("O401", "origin"),
        found("I240", "guess", certainty="suspected", severity="error"),
        found("I220", "proof"),
        found("H132", "only a warning"),
    ]
    answer = verdict(several, case=some)
    assert (answer.layer, answer.finding, answer.summary) == (2, 3, "proof")
    later = verdict(several[:2], case=some)
    assert (later.layer, later.code) == (4, "O401")
    assert later.chain == ("output: origin", "output: symptom")


def test_a_cause_is_called_suspected_unless_proven():
    guess = found("I240", "pixels", certainty="suspected", severity="error")
    answer = verdict([guess], case=case())
    assert answer.summary == "suspected: pixels"
    assert answer.chain == ("input (suspected): pixels",)


def test_b06_b09_a_fault_of_the_device_leads_back_to_the_alignment():
    board = target(tensor={"base_alignment": 32})
    some = case(host(np.arange(1, 9, dtype="f4"), address=0x1004), on=board)
    (warning,) = judge(some, 1)
    assert warning.severity == "warning" and warning.evidence["remainder"] == 4
    hung = found("T310", "command 7 never ended", Subject(kind="command", name="/conv", seq=7))
    answer = verdict([warning, hung], case=some, status="hung")
    assert (answer.layer, answer.code, answer.finding) == (3, "T310", 1)
    assert answer.chain[0].startswith("host (suspected cause): x: base address 0x1004 mod 32 = 4")
    assert answer.chain[1] == "trace: command 7 never ended"
    assert answer.chain[-1] == "the run never ended"


def test_a_wrong_transfer_goes_before_the_copy_that_it_spoiled():
    pair = [found("T301", "differs"), found("T302", "began elsewhere")]
    answer = verdict(pair, case=case())
    assert answer.code == "T302" and len(answer.chain) == 2


def test_a_refused_input_says_that_nothing_was_run():
    answer = verdict([found("I220", "float64")], case=case(), status="not-run")
    assert answer.chain[-1].startswith("the run was not started")
    assert answer.ruled_out == ()


def test_errors_outside_the_layers_decide_nothing_but_are_counted():
    outside = finding("I240", X, "w")
    import msgspec

    outside = msgspec.structs.replace(outside, layer=0)
    answer = verdict([outside], case=case())
    assert answer.layer == 0 and "1 error outside the four layers" in answer.summary
