"""Layer 2 on the field's own cases: value ranges and quantisation at the entrance."""

from __future__ import annotations

import numpy as np
import pytest
from cases import (
    F,
    case,
    codes,
    conv_model,
    host,
    layer,
    model,
    only,
)
from onnx import TensorProto, helper

from npudbg.layers.case import Preprocessing
from npudbg.layers.findings import judge

I64, U8 = TensorProto.INT64, TensorProto.UINT8
RNG = np.random.default_rng(0)


# -- ranges ----------------------------------------------------------------------------------

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SAID = {"x": Preprocessing(mean=MEAN, std=STD, scale=255.0)}


def photo():
    """A photograph-like NCHW image of whole pixels."""
    y, x = np.mgrid[0:32, 0:32] / 32
    base = np.stack([0.55 + 0.3 * np.sin(6 * x), 0.5 + 0.3 * y, 0.4 + 0.3 * np.cos(5 * y * x)])
    noise = 0.05 * np.random.default_rng(1).standard_normal(base.shape)
    return np.clip(np.round(255 * (base + noise)), 0, 255).astype("f4")[None]


def standard(pixels, mean=MEAN, std=STD, factor=1 / 255):
    m, s = (np.array(v).reshape(1, 3, 1, 1) for v in (mean, std))
    return ((pixels * factor - m) / s).astype("f4")


def values_of(x, said=None, graph=None):
    graph = graph or conv_model([1, 3, 32, 32])
    return layer(2, x, graph=graph, preprocessing=said or {})


def test_unnormalised():
    found = only(values_of(photo(), SAID), "I240")
    assert (found.severity, found.certainty) == ("error", "proven")
    assert found.evidence["expected"][0] == pytest.approx([-2.118, 2.249], abs=1e-3)
    assert found.evidence["max"][0] == photo()[0, 0].max()
    assert "(x/255 - mean) / std" in found.fix
    assert values_of(standard(photo()), SAID) == []
    for same in (
        Preprocessing(mean=MEAN, std=STD),
        Preprocessing(mean=MEAN, std=STD, scale=1 / 255),
    ):
        assert values_of(standard(photo()), {"x": same}) == []
        assert codes(values_of(photo(), {"x": same})) == ["I240"]


def test_unnormalised_is_only_suspected_when_nothing_was_stated():
    found = only(values_of(photo()), "I240")
    assert (found.severity, found.certainty) == ("warning", "suspected")
    assert values_of(photo() / 255) == []
    assert values_of(standard(photo())) == []
    # A model that begins with its own normalisation wants pixels.
    own = conv_model([1, 3, 32, 32], before=[("Sub", 127.5), ("Mul", 1 / 127.5)])
    assert values_of(photo(), graph=own) == []


def test_normalised_twice():
    found = only(values_of(standard(standard(photo())), SAID), "I241")
    assert "twice" in found.message and found.certainty == "suspected"
    shifted = only(values_of(standard(standard(photo()), factor=1), SAID), "I241")
    assert (shifted.severity, shifted.certainty) == ("error", "proven")
    assert only(values_of(photo() / 255 / 255), "I241").certainty == "suspected"


def test_scaled_but_not_shifted():
    found = only(values_of(photo() / 255, SAID), "I242")
    assert "mean and std not applied" in found.message and found.severity == "warning"


def test_statistics_in_pixels():
    said = {"x": Preprocessing(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375))}
    assert values_of(standard(photo()), said) == []
    assert codes(values_of(photo(), said)) == ["I240"]
    one = {"x": Preprocessing(mean=(0.5,), std=(0.5,))}
    assert values_of(standard(photo(), (0.5,) * 3, (0.5,) * 3), one) == []


def test_channels_normalised_in_reverse():
    wrong = standard(photo()[:, ::-1], MEAN[::-1], STD[::-1])
    found = only(values_of(np.ascontiguousarray(wrong), SAID), "I243")
    assert found.evidence["whole_pixels_reversed"] == 1 and found.evidence["whole_pixels"] < 0.5
    assert found.severity == "warning"


def test_channel_means_in_reverse_are_a_hint():
    noise = np.random.default_rng(2).integers(-60, 61, (1, 3, 32, 32))
    bgr = np.array([103.53, 116.28, 123.675]).reshape(1, 3, 1, 1).round() + noise
    found = only(values_of(standard(bgr), SAID), "I243")
    assert (found.severity, found.certainty) == ("info", "suspected")
    assert found.evidence["mean_pixels"] == pytest.approx([103.5, 116.3, 123.7], abs=5)
    assert values_of(np.ascontiguousarray(standard(bgr[:, ::-1])), SAID) == []


def test_synthesised_values_are_not_judged():
    made = case(host(photo()), graph=conv_model([1, 3, 32, 32]), preprocessing=SAID,
                synthesised=frozenset({"x"}))  # fmt: skip
    assert judge(made, 2) == []


def test_count_of_statistics():
    graph = conv_model([1, 1, 32, 32], channels=1)
    found = only(values_of(photo()[:, :1] / 255, SAID, graph), "I244")
    assert (found.evidence["given"], found.evidence["channels"]) == (3, 1)


# -- quantisation at the entrance ------------------------------------------------------------


def qdq(scale, zero):
    return model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="/quant"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ],
        {"x": (F, [1, 100])},
        {"s": np.float32(scale), "z": np.int8(zero)},
    )


def test_input_beyond_its_quantisation():
    x = np.linspace(-4, 4, 100, dtype="f4").reshape(1, 100)
    graph = qdq(2 / 127, 0)
    found = only(layer(2, x, graph=graph), "I250")
    step = np.float32(2 / 127)
    want = ((x > step * 127.5) | (x < -step * 128.5)).sum()
    assert found.evidence["clipped"] == want and found.severity == "warning"
    assert found.evidence["range"] == pytest.approx([-128 * 2 / 127, 2.0])
    assert found.related[0].name == "/quant"
    assert only(layer(2, x * 10, graph=graph), "I250").severity == "error"
    assert layer(2, x / 2, graph=graph) == []


def test_input_that_uses_a_few_levels():
    x = np.linspace(0, 0.004, 100, dtype="f4").reshape(1, 100)
    found = only(layer(2, x, graph=qdq(1 / 255, -128)), "I251")
    assert found.evidence["levels"] == 2
    assert layer(2, x * 250, graph=qdq(1 / 255, -128)) == []
