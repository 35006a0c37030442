"""What layer 2 says of tensors inside the model, once a run has given them shapes."""

from __future__ import annotations

import numpy as np
import pytest
from cases import F, conv_model, model, normal, target
from onnx import helper

from npudbg.commands.pipeline import Job, judge_run
from npudbg.layers import catalogue
from npudbg.layers.findings import rules


def run(graph, on, **arrays):
    judged = judge_run(Job(model="m.onnx"), graph, on, arrays)
    judged.path.unlink()
    assert judged.status == "complete"
    return {f.code: f for f in judged.findings}


def test_working_set_beyond_sram():
    graph, x = conv_model([1, 3, 32, 32]), normal(1, 3, 32, 32)
    found = run(graph, target(memory={"sram_bytes": 16384}), x=x)["I259"]
    need = 4 * (3 * 32 * 32 + 4 * 3 * 3 * 3 + 4 * 30 * 30)  # input, weight, result
    assert found.evidence["bytes"] == need and found.evidence["tiles"] > 1
    assert (found.severity, found.layer, found.subject.name) == ("info", 2, "/conv")
    assert "I259" not in run(graph, target(memory={"sram_bytes": 1 << 20}), x=x)


@pytest.mark.parametrize(("limit", "code"), [("max_rank", "I257"), ("max_dim", "I258")])
def test_limits_of_inner_tensors(limit, code):
    nodes = [
        helper.make_node("Reshape", ["x", "five"], ["r"], name="/split"),
        helper.make_node("Relu", ["r"], ["a"]),
        helper.make_node("Reshape", ["a", "flat"], ["y"], name="/flat"),
    ]
    shapes = {"five": np.array([1, 2, 2, 4, 4]), "flat": np.array([1, 64])}
    graph = model(nodes, {"x": (F, [1, 4, 4, 4])}, shapes)
    bound = {"max_rank": 4, "max_dim": 63}[limit]
    found = run(graph, target(tensor={limit: bound}), x=normal(1, 4, 4, 4))[code]
    assert found.severity == "warning"  # such a node may run on the host
    assert found.subject.name == ("/split" if limit == "max_rank" else "/flat")
    assert code not in run(graph, target(tensor={limit: bound + 1}), x=normal(1, 4, 4, 4))


def test_every_code_of_the_layers_is_explained_and_given_by_a_rule():
    given = {code for layer in (1, 2, 3, 4) for r in rules(layer) for code in r.codes}
    told = {e.code: e for e in catalogue.entries()}
    assert given <= set(told)
    assert {code for code in told if code[0] in "HI"} <= given
    for code in given:
        entry = told[code]
        assert {"H": 1, "I": 2}.get(code[0], entry.layer) == entry.layer
        for text in (entry.meaning, entry.why, entry.confirm, entry.mend):
            assert len(text) > 15
