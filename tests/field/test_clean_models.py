"""Real models with ordinary inputs: layers 1 and 2 find nothing to complain about."""

from __future__ import annotations

import public_models
import pytest
from cases import GENERIC, case, host
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.graph.feeds import synthesize
from npudbg.graph.loader import load
from npudbg.graph.shapes import bind
from npudbg.layers.findings import judge
from npudbg.layers.verdict import verdict
from npudbg.session.records import ValueContract

DIMS = {
    "ppocr_det": {"x.2": 320, "x.3": 320},
    "ppocr_rec": {"x.2": 48, "x.3": 320},
    "ppocr_cls": {"x.1": 3, "x.2": 48, "x.3": 192},
    "silero_vad": {"input.1": 512, "state.1": 1},
    "silero_vad_half": {"input.1": 512, "state.1": 1},
}


@pytest.mark.models
@pytest.mark.parametrize("name", public_models.MODELS)
@pytest.mark.parametrize("from_a_file", [False, True])
def test_real_models_are_clean(name, from_a_file, model_path):
    graph = load(model_path(name))
    dims = DIMS.get(name, {})
    shapes = bind(graph, {}, dims).shapes
    hosts = [
        host(synthesize(c, shapes[c.name], seed=3), c.name, number=n, loaded=from_a_file)
        for n, c in enumerate(graph.inputs)
    ]
    # Values count as the user's own, so that the rules on values judge them too.
    given_ = case(*hosts, graph=graph, on=GENERIC, dims=dims, unread=frozenset())
    found = judge(given_, 1) + judge(given_, 2)
    assert [f.message for f in found if f.severity != "info"] == []
    assert verdict(found, case=given_).layer == 0


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["<f4", "<f2", "<f8", "|u1", "|i1", "<i4", "<i8", "|b1", "bfloat16"]),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(0, 100),
)
def test_whatever_is_synthesised_is_clean(dtype, shape, seed):
    contract = ValueContract(name="x", dtype=dtype, shape=tuple(shape))
    array = synthesize(contract, tuple(shape), seed)
    from cases import contract_model

    given_ = case(
        host(array), model=contract_model(x=(dtype, tuple(shape))), synthesised=frozenset({"x"})
    )
    assert judge(given_, 1) + judge(given_, 2) == []
