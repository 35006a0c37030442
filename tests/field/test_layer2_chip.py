"""Layer 2 on the field's own cases: the chip's limits, operators and runtime."""

from __future__ import annotations

import numpy as np
import pytest
from cases import (
    F,
    codes,
    contract_model,
    conv_model,
    host,
    layer,
    model,
    normal,
    only,
    target,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from npudbg.layers.einsum import as_matmul
from npudbg.layers.expected import fits, missing_axes

I64, U8 = TensorProto.INT64, TensorProto.UINT8
RNG = np.random.default_rng(0)


# -- limits and preferences ------------------------------------------------------------------


def test_preferred_multiples():
    cube = target(tensor={"size_multiple": 16, "channel_multiple": 16})
    found = only(layer(2, normal(1, 3, 300, 300), graph=conv_model([1, 3, 300, 300]), on=cube),
                 "I255")  # fmt: skip
    assert found.evidence["padded"] == [1, 3, 304, 304] and found.severity == "info"
    small = only(layer(2, normal(1, 3, 20, 32), graph=conv_model([1, 3, 20, 32]), on=cube), "I255")
    assert small.severity == "warning" and small.evidence["waste"] == pytest.approx(0.6)
    assert layer(2, normal(1, 3, 224, 224), graph=conv_model([1, 3, 224, 224]), on=cube) == []


def test_batch_one_stride():
    fast = target(tensor={"batch1_stride": True})
    graph = conv_model([1, 3, 8, 8])
    view = normal(2, 3, 8, 8)[::2]
    assert view.flags.c_contiguous
    found = only(layer(2, view, graph=graph, on=fast), "I256")
    assert (found.evidence["stride"], found.evidence["expected"]) == (1536, 768)
    assert layer(2, view, graph=graph) == []
    assert layer(2, view.copy(), graph=graph, on=fast) == []
    assert layer(1, view, on=fast) == []  # it is contiguous


def test_rank_and_dimension_limits():
    npu = target(tensor={"max_rank": 4, "max_dim": 8192})
    five = contract_model(x=("<f4", (1, 1, 1, 2, 3)))
    found = only(layer(2, normal(1, 1, 1, 2, 3), model=five, on=npu), "I257")
    assert found.evidence["max_rank"] == 4 and found.severity == "error"
    audio = contract_model(x=("<f4", (1, "T")))
    found = only(layer(2, normal(1, 16000), model=audio, on=npu), "I258")
    assert found.evidence == {"axes": [1], "size": 16000, "max_dim": 8192, "shape": [1, 16000]}
    assert layer(2, normal(1, 8192), model=audio, on=npu) == []
    wide = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="/fc")],
        {"x": (F, [1, 2])},
        {"w": normal(2, 9000)},
    )
    found = only(layer(2, normal(1, 2), graph=wide, on=npu), "I258")
    assert found.subject.kind == "node" and found.subject.name == "/fc"


@pytest.mark.parametrize(("opset", "bad"), [(10, True), (11, False), (17, False), (19, True)])
def test_opset_range(opset, bad):
    graph = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, [1, 3])}, opset=opset)
    atc = target(operators={"opset_min": 11, "opset_max": 18})
    found = layer(2, normal(1, 3), graph=graph, on=atc)
    assert codes(found) == (["I263"] if bad else [])
    if bad:
        assert found[0].evidence["opset"] == opset and found[0].subject.kind == "model"
    assert layer(2, normal(1, 3), graph=graph) == []


# -- operators -------------------------------------------------------------------------------


def einsum(equation="bij,jk->bik", count=1):
    nodes, at = [], "x"
    for n in range(count):
        out = "y" if n == count - 1 else f"h{n}"
        nodes.append(
            helper.make_node("Einsum", [at, "w"], [out], name=f"/{n}/Einsum", equation=equation)
        )
        at = out
    return model(nodes, {"x": (F, [1, 4, 4])}, {"w": normal(4, 4)})


def test_b23_unsupported_operator():
    npu = target(operators={"unsupported": ("Einsum",)})
    found = only(layer(2, normal(1, 4, 4), graph=einsum(), on=npu), "I260")
    assert (found.severity, found.subject.kind) == ("error", "node")
    assert (found.subject.name, found.subject.node) == ("/0/Einsum", 0)
    assert found.fix == "rewrite as MatMul: bij,jk->bik is MatMul(A, B)"
    assert "runs on the CPU" in found.message
    # One finding an operator, however often it stands there.
    many = only(layer(2, normal(1, 4, 4), graph=einsum(count=3), on=npu), "I260")
    assert many.evidence["count"] == 3 and len(many.related) == 2
    only_matmul = target(operators={"mode": "only", "supported": ("MatMul",)})
    assert codes(layer(2, normal(1, 4, 4), graph=einsum(), on=only_matmul)) == ["I260"]
    # A target without that demand, and the model rewritten.
    assert codes(layer(2, normal(1, 4, 4), graph=einsum()), "error") == []
    rewritten = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (F, [1, 4, 4])}, {"w": normal(4, 4)}
    )
    for on in (npu, only_matmul):
        assert layer(2, normal(1, 4, 4), graph=rewritten, on=on) == []


def test_operator_without_a_kernel_is_a_note():
    found = only(
        layer(
            2,
            normal(4, 4),
            graph=model([helper.make_node("NonZero", ["x"], ["y"])], {"x": (F, [4, 4])}),
        ),
        "I261",
    )
    assert found.severity == "info" and found.origin == "estimated"


def sequence_model():
    branch = [
        helper.make_graph(
            [helper.make_node("Identity", ["x"], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", F, None)],
        )
        for name in ("then", "else")
    ]
    return model(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node(
                "If", ["c"], ["y"], name="/if", then_branch=branch[0], else_branch=branch[1]
            ),
            helper.make_node("SequenceEmpty", [], ["s"], name="/seq"),
            helper.make_node("SequenceInsert", ["s", "r"], ["s2"], name="/insert"),
        ],
        {"x": (F, [1, 4]), "c": (TensorProto.BOOL, [])},
    )


def test_b24_control_flow_and_sequences():
    inputs = [host(normal(1, 4)), host(np.array(True), "c", number=1)]
    npu = target(operators={"mode": "only", "supported": ("Relu", "Identity")})
    found = only(layer(2, *inputs, graph=sequence_model(), on=npu), "I262")
    assert found.severity == "error" and found.subject.name == "/if"
    assert "3 control-flow/sequence ops unsupported" in found.message
    assert "If, SequenceEmpty, SequenceInsert; first at node 1" in found.message
    assert found.evidence["operators"] == {"If": 1, "SequenceEmpty": 1, "SequenceInsert": 1}
    static = target(tensor={"static_shapes": True})
    assert only(layer(2, *inputs, graph=sequence_model(), on=static), "I262").severity == "warning"
    assert only(layer(2, *inputs, graph=sequence_model()), "I262").severity == "info"
    plain = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F, [1, 4])})
    assert layer(2, normal(1, 4), graph=plain, on=npu) == []


def test_constant_of_shape_can_be_folded():
    fill = helper.make_node(
        "ConstantOfShape", ["shape"], ["ones"], name="/full",
        value=numpy_helper.from_array(np.ones(1, "f4")),
    )  # fmt: skip
    graph = model(
        [fill, helper.make_node("Add", ["x", "ones"], ["y"])],
        {"x": (F, [1, 4])},
        {"shape": np.array([1, 4])},
    )
    npu = target(operators={"unsupported": ("ConstantOfShape",)})
    found = only(layer(2, normal(1, 4), graph=graph, on=npu), "I265")
    assert found.severity == "warning" and found.subject.name == "/full" and "fold" in found.fix
    assert layer(2, normal(1, 4), graph=graph) == []


def test_bicubic_resize():
    def resize(mode):
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, name="/up")
        return model([node], {"x": (F, [1, 3, 4, 4])}, {"s": np.array([1, 1, 2, 2], "f4")})

    npu = target(operators={"unsupported": ("Gelu",)})
    found = only(layer(2, normal(1, 3, 4, 4), graph=resize("cubic"), on=npu), "I266")
    assert found.certainty == "suspected" and "linear" in found.fix
    assert layer(2, normal(1, 3, 4, 4), graph=resize("linear"), on=npu) == []
    assert layer(2, normal(1, 3, 4, 4), graph=resize("cubic")) == []


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("bij,jk->bik", "MatMul(A, B)"),
        ("bij,bjk->bik", "MatMul(A, B)"),
        ("ij,kj->ik", "MatMul(A, Transpose(B, perm=[1,0]))"),
        ("bhqd,bhkd->bhqk", "MatMul(A, Transpose(B, perm=[0,1,3,2]))"),
        ("ij,jk->ki", "Transpose(MatMul(A, B), perm=[1,0])"),
        ("ij,jk", "MatMul(A, B)"),
        ("ij,ij->ij", None),
        ("ii->i", None),
        ("bij,bij->b", None),
        ("...ij,jk->...ik", None),
        ("abc,cbd->ad", None),
    ],
)
def test_einsum_as_matmul(equation, text):
    assert as_matmul(equation) == text


@settings(max_examples=150, deadline=None)
@given(st.permutations("bmk"), st.permutations("bkn"), st.permutations("bmn"))
def test_einsum_rewrites_compute_the_same(a, b, out):
    equation = f"{''.join(a)},{''.join(b)}->{''.join(out)}"
    text = as_matmul(equation)
    assert text is not None
    sizes = {"b": 2, "m": 3, "k": 4, "n": 5}
    x, y = (normal(*(sizes[c] for c in operand)) for operand in (a, b))
    made = _run(text, x, y)
    np.testing.assert_allclose(made, np.einsum(equation, x, y), rtol=1e-4, atol=1e-5)


def _run(text, a, b):
    """Compute what the rewrite says."""

    def perm(part):
        return [int(n) for n in part[part.index("[") + 1 : part.index("]")].split(",")]

    outer = None
    if text.startswith("Transpose("):
        text, _, tail = text.removeprefix("Transpose(").rpartition("), perm=")
        outer, text = perm(tail), text + ")"
    left, _, right = (
        text.removeprefix("MatMul(")
        .removesuffix(")")
        .rpartition(", Transpose(B" if "Transpose(B" in text else ", B")
    )
    x = a.transpose(perm(left)) if "perm" in left else a
    y = b.transpose(perm(right)) if "perm" in right else b
    result = np.matmul(x, y)
    return result if outer is None else result.transpose(outer)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.data(),
)
def test_a_dropped_axis_is_found(expected, data):
    axis = data.draw(st.integers(0, len(expected) - 1))
    shape = [n for i, n in enumerate(expected) if i != axis]
    found = missing_axes(shape, tuple(expected))
    assert found is not None
    axes, order = found
    moved = [shape[a] for a in order]
    assert fits(moved, tuple(n for i, n in enumerate(expected) if i not in axes))
    assert list(order) == sorted(order)  # it fits as it is: no transpose is proposed


# -- the runtime's manifest ------------------------------------------------------------------


def test_b13_data_format_as_list():
    found = only(layer(2, manifest={"data_format": ["nchw"]}), "I281")
    assert "must be one string for this runtime, got list" in found.message
    assert found.fix == 'data_format = "nchw"' and found.severity == "error"
    assert layer(2, manifest={"data_format": "nchw"}) == []
    on_pc = {"data_format": ["nchw"], "runtime": {"api": "toolkit"}}
    assert layer(2, manifest=on_pc) == []


def test_b48_stale_cache():
    stale = {"cache": {"ep_version": "1.8.71"}, "runtime": {"ep_version": "1.8.72"}}
    found = only(layer(2, manifest=stale), "I282")
    assert found.message == ("cache EP version 1.8.71, runtime 1.8.72: results not trustworthy")
    assert found.severity == "warning"
    same = {"cache": {"ep_version": "1.8.72"}, "runtime": {"ep_version": "1.8.72"}}
    assert layer(2, manifest=same) == []


def test_b51_context_binary():
    wrong = {
        "context": {"sdk_version": "2.40", "arch": "v79"},
        "runtime": {"sdk_version": "2.38", "arch": "v75"},
    }
    found = only(layer(2, manifest=wrong), "I283")
    assert found.message == "context binary: SDK 2.40 > runtime 2.38, arch v79 != v75"
    older = {
        "context": {"sdk_version": "2.9", "arch": "V75"},
        "runtime": {"sdk_version": "2.38", "arch": "v75"},
    }
    assert layer(2, manifest=older) == []


@pytest.mark.parametrize("junk", [{"cache": 3, "runtime": []}, {"context": {}, "runtime": {}}, {}])
def test_manifests_of_another_kind_are_silent(junk):
    assert layer(2, manifest=junk) == []
