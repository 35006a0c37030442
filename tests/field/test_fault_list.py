"""`--fault list`: each example is a fault that happens, and that is found by what it says."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from npudbg.cli import main
from npudbg.commands.pipeline import Job, judge_run
from npudbg.commands.teaching import CASES, load
from npudbg.device.faults.catalogue import KEYS, KINDS
from npudbg.device.faults.spec import parse
from npudbg.session.errors import UserError
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory

NAMES = {
    "weight-bit-flip": "fc.weight",
    "nan-weight": "fc.weight",
    "corrupted-scale": "fc.weight",
    "missing-flush": "image",
    "torn-line": "image",
    "missing-invalidate": "scores",
    "late-writeback": "scores",
    "hang": "/block1/pw",
    "no-recovery": "/block1/pw",
    "deadlock": "/block2/conv",
}


def board(kind):
    base = targets.load("generic-a57")
    dma = msgspec.structs.replace(
        base.dma, base_alignment=None, iommu=not kind.startswith("truncated")
    )
    return msgspec.structs.replace(
        base, memory=Memory(sram_bytes=16_384), dma=dma, operators=type(base.operators)()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_each_example_happens_and_is_found(kind, tmp_path):
    graph, arrays = load(CASES["clean"])
    name = NAMES.get(kind, "block1/pw")
    fault = KINDS[kind].example.replace("NAME", name)
    job = Job(
        model="clean",
        faults=(fault,),
        save=str(tmp_path / "s.npudbg"),
        host_addresses={"image": 0x2000_0020} if kind == "torn-line" else {},
    )
    judged = judge_run(job, graph, board(kind), arrays)
    found = {f.code for f in judged.findings if f.severity in ("error", "warning")}
    assert found & set(KINDS[kind].found.split()), (fault, sorted(found))


def given(kind, key, value):
    """Return the example of a kind with one key set."""
    spec = KINDS[kind].example.replace("NAME", NAMES.get(kind, "block1/pw"))
    rest = [p for p in spec.partition(":")[2].split(",") if p and not p.startswith(f"{key}=")]
    return f"{kind}:{','.join([*rest, f'{key}={value}'])}"


NUMBERS = [
    (kind.name, key)
    for kind in KINDS.values()
    for key in (*kind.needs, *kind.takes)
    if key not in ("tensor", "node", "way", "space", "how")
]


@pytest.mark.parametrize(("kind", "key"), NUMBERS)
@pytest.mark.parametrize("value", ["-1", str(1 << 63), str(1 << 100), "nan", "inf"])
def test_numbers_that_cannot_be_are_one_line(kind, key, value):
    if (kind, key) == ("corrupted-scale", "factor") and value.isdigit():
        pytest.skip("a damaged scale may be any finite number")
    with pytest.raises(UserError, match=key):
        parse(given(kind, key, value))


@pytest.mark.parametrize(("kind", "key"), NUMBERS)
def test_the_largest_number_of_each_key_runs_or_is_refused(kind, key, tmp_path):
    most = {"bits": 64, "retries": 20, "factor": 1e6}.get(key, 1 << 62)
    graph, arrays = load(CASES["clean"])
    job = Job(
        model="clean",
        faults=(given(kind, key, most),),
        save=str(tmp_path / "s.npudbg"),
        host_addresses={"image": 0x2000_0020} if kind == "torn-line" else {},
    )
    with contextlib.suppress(UserError):
        judge_run(job, graph, board(kind), arrays)


def test_every_key_is_explained_and_used():
    used = {key for kind in KINDS.values() for key in (*kind.needs, *kind.takes)}
    assert used == set(KEYS)


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_list_keeps_to_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["run", "--fault", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= min(int(columns), 100) for line in lines)
    for kind in KINDS:
        assert any(line.startswith(kind) for line in lines)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("bit-flip:addr=0xffffffffff,after=20", "SRAM lies from 0x0 to 0x3fff"),
        ("short-dma:tensor=block1/pw,bytes=99999999", "all of them move"),
        ("length-overflow:tensor=block1/pw,bits=30", "give fewer with bits="),
    ],
)
def test_a_fault_without_effect_is_refused(fault, says, tmp_path):
    graph, arrays = load(CASES["clean"])
    job = Job(model="clean", faults=(fault,), save=str(tmp_path / "s.npudbg"))
    with pytest.raises(UserError, match=says):
        judge_run(job, graph, board("bit-flip"), arrays)
    assert not list(tmp_path.iterdir())
