"""Teaching cases: small models and inputs whose faults really happen on the device.

Nothing here says what is wrong: a case is only a model, its inputs and the
options of a run.  What the device makes of it, and what the rules find, is
theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.graph.ir import Graph

    Array = npt.NDArray[Any]
    Made = tuple[Any, dict[str, Array]]

_OPSET = 17
_IR_VERSION = 9


@dataclass(frozen=True, slots=True)
class TeachingCase:
    """One case.

    Attributes:
        name: What the user types.
        title: One line: the situation, not the answer.
        make: Returns a ModelProto and the inputs by name.
        options: Fields of :class:`~npudbg.commands.pipeline.Job`; a function makes its value.
    """

    name: str
    title: str
    make: Callable[[], Made]
    options: Mapping[str, Any] = field(default_factory=dict)


def load(case: TeachingCase) -> tuple[Graph, dict[str, Array]]:
    """Return a case's model, loaded and checked, and its inputs."""
    from npudbg.graph.loader import from_proto

    proto, arrays = case.make()
    return from_proto(proto, name=f"{case.name}.onnx"), arrays


def _graph(nodes: list[Any], arrays: dict[str, Array], outputs: list[str], weights: Any) -> Any:
    import onnx
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "demo",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )


def _cnn() -> tuple[Any, Any]:
    """Return nodes and weights of a small image classifier (1x3x40x40 to 10 classes)."""
    import numpy as np
    from onnx import helper

    rng = np.random.default_rng(2024)
    nodes: list[Any] = []
    weights: dict[str, Array] = {}

    def conv(x: str, y: str, shape: tuple[int, ...], **attributes: Any) -> None:
        fan = int(np.prod(shape[1:]))
        weights[f"{y}.weight"] = (rng.standard_normal(shape) / np.sqrt(fan)).astype("f4")
        weights[f"{y}.bias"] = (rng.standard_normal(shape[0]) * 0.1).astype("f4")
        nodes.append(
            helper.make_node(
                "Conv", [x, f"{y}.weight", f"{y}.bias"], [y], name=f"/{y}", **attributes
            )
        )

    def norm(x: str, y: str, channels: int) -> None:
        names = [f"{y}.{part}" for part in ("scale", "shift", "mean", "var")]
        values = (
            1 + 0.1 * rng.standard_normal(channels),
            0.1 * rng.standard_normal(channels),
            0.1 * rng.standard_normal(channels),
            1 + 0.1 * rng.random(channels),
        )
        weights.update({n: v.astype("f4") for n, v in zip(names, values, strict=True)})
        nodes.append(helper.make_node("BatchNormalization", [x, *names], [y], name=f"/{y}"))

    conv("image", "stem/conv", (16, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    norm("stem/conv", "stem/bn", 16)
    nodes.append(helper.make_node("HardSwish", ["stem/bn"], ["stem/act"], name="/stem/act"))
    conv("stem/act", "block1/dw", (16, 1, 3, 3), pads=[1, 1, 1, 1], group=16)
    norm("block1/dw", "block1/bn", 16)
    nodes.append(helper.make_node("Relu", ["block1/bn"], ["block1/act"], name="/block1/act"))
    conv("block1/act", "block1/pw", (32, 16, 1, 1))
    nodes.append(
        helper.make_node(
            "MaxPool", ["block1/pw"], ["pool"], name="/pool", kernel_shape=[2, 2], strides=[2, 2]
        )
    )
    conv("pool", "block2/conv", (32, 32, 3, 3), pads=[1, 1, 1, 1])
    norm("block2/conv", "block2/bn", 32)
    nodes += [
        helper.make_node("Add", ["pool", "block2/bn"], ["block2/add"], name="/block2/add"),
        helper.make_node("GlobalAveragePool", ["block2/add"], ["gap"], name="/gap"),
        helper.make_node("Flatten", ["gap"], ["features"], name="/flatten"),
    ]
    weights["fc.weight"] = (rng.standard_normal((10, 32)) / 6).astype("f4")
    weights["fc.bias"] = np.zeros(10, "f4")
    nodes += [
        helper.make_node(
            "Gemm", ["features", "fc.weight", "fc.bias"], ["logits"], name="/fc", transB=1
        ),
        helper.make_node("Softmax", ["logits"], ["scores"], name="/scores"),
    ]
    return nodes, weights


def _image() -> Array:
    """Return a decoded photograph-like image, HWC uint8: smooth shapes and some noise."""
    import numpy as np

    rng = np.random.default_rng(11)
    y, x = np.mgrid[0:40, 0:40] / 40.0
    base = np.stack([0.55 + 0.3 * np.sin(6 * x), 0.5 + 0.3 * y, 0.4 + 0.3 * np.cos(5 * y * x)], -1)
    return np.clip(255 * (base + 0.05 * rng.standard_normal(base.shape)), 0, 255).astype("u1")


MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def _normalised() -> Array:
    import numpy as np

    scaled = (_image() / 255.0 - np.array(MEAN)) / np.array(STD)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None]).astype("f4")


def _clean() -> Made:
    arrays = {"image": _normalised()}
    nodes, weights = _cnn()
    return _graph(nodes, arrays, ["scores"], weights), arrays


def _f_order() -> Made:
    """The batch axis was added and channels moved with views; nothing was copied."""
    import numpy as np

    proto, arrays = _clean()
    return proto, {"image": np.asfortranarray(arrays["image"])}


def _unnormalised() -> Made:
    import numpy as np

    proto, _ = _clean()
    raw = np.ascontiguousarray(_image().transpose(2, 0, 1)[None]).astype("f4")
    return proto, {"image": raw}


def _overflow() -> Made:
    """A residual stream that grows, and a normalisation that subtracts at its end."""
    import numpy as np
    from onnx import helper

    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 16, 64)).astype("f4")
    nodes, weights = [], {}
    name = "tokens"
    for i in range(6):
        weights[f"layer{i}.weight"] = (rng.standard_normal((64, 64)) * 1.1).astype("f4")
        nodes += [
            helper.make_node(
                "MatMul", [name, f"layer{i}.weight"], [f"l{i}/proj"], name=f"/l{i}/proj"
            ),
            helper.make_node("Add", [name, f"l{i}/proj"], [f"l{i}/out"], name=f"/l{i}/residual"),
        ]
        name = f"l{i}/out"
    weights["ln.scale"], weights["ln.shift"] = np.ones(64, "f4"), np.zeros(64, "f4")
    nodes.append(
        helper.make_node(
            "LayerNormalization", [name, "ln.scale", "ln.shift"], ["embedding"], name="/ln"
        )
    )
    arrays = {"tokens": x}
    return _graph(nodes, arrays, ["embedding"], weights), arrays


def _pair() -> Made:
    """Two feature maps whose buffers lie one behind the other."""
    import numpy as np
    from onnx import helper

    rng = np.random.default_rng(8)
    left = rng.standard_normal((1, 3, 9, 9)).astype("f4")
    right = rng.standard_normal((1, 3, 9, 9)).astype("f4")
    arrays = {"left": left, "right": right}
    nodes = [
        helper.make_node("Sub", ["left", "right"], ["difference"], name="/sub"),
        helper.make_node("Abs", ["difference"], ["distance"], name="/abs"),
    ]
    return _graph(nodes, arrays, ["distance"], {}), arrays


def _unsupported() -> Made:
    """A residual network with an Einsum in its head."""
    import numpy as np
    from onnx import helper

    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 32, 48)).astype("f4")
    weights = {
        "mix.weight": (rng.standard_normal((48, 48)) / 7).astype("f4"),
        "head.weight": (rng.standard_normal((48, 10)) / 7).astype("f4"),
    }
    nodes = [
        helper.make_node("MatMul", ["tokens", "mix.weight"], ["mix"], name="/mix"),
        helper.make_node("Relu", ["mix"], ["act"], name="/act"),
        helper.make_node(
            "Einsum", ["act", "head.weight"], ["scores"], name="/head/Einsum",
            equation="bij,jk->bik",
        ),
    ]  # fmt: skip
    arrays = {"tokens": x}
    return _graph(nodes, arrays, ["scores"], weights), arrays


def _preprocessing() -> dict[str, Any]:
    from npudbg.layers.case import Preprocessing

    return {"image": Preprocessing(layout="NCHW", mean=MEAN, std=STD, scale=1 / 255)}


CASES: dict[str, TeachingCase] = {
    case.name: case
    for case in (
        TeachingCase(
            "fp16-overflow",
            "the embedding is NaN on the board and fine on the PC",
            _overflow,
            {"precision": "fp16"},
        ),
        TeachingCase("clean", "a small classifier and a normalised image", _clean),
        TeachingCase("f-order", "the scores are wrong, and no one complains", _f_order),
        TeachingCase(
            "misaligned-dma",
            "NaN on one board only, from a buffer that malloc gave",
            _clean,
            {"target": "generic-a57", "host_addresses": {"image": 0x12345000}},
        ),
        TeachingCase(
            "unnormalised",
            "every image gets the same class",
            _unnormalised,
            {"preprocessing": _preprocessing},
        ),
        TeachingCase(
            "unsupported-operator",
            "the model runs, and is slower than on the CPU",
            _unsupported,
            {"target": "generic-a57"},
        ),
        TeachingCase(
            "serial-chain",
            "eight frames a second where forty were promised",
            _clean,
            {"fused": False},
        ),
        TeachingCase(
            "torn-line",
            "the second input is wrong now and then, at its first pixels",
            _pair,
            # 3 x 9 x 9 float32 are 972 bytes: 12 bytes of the last line are the other's.
            {
                "target": "rk3588",
                "host_addresses": {"left": 0x2000_0000, "right": 0x2000_03CC},
                "faults": ("torn-line:tensor=right",),
            },
        ),
        TeachingCase(
            "never-started",
            "the first job never ends",
            _clean,
            {"faults": ("hang:node=/stem/conv",)},
        ),
        TeachingCase(
            "missing-device",
            "the driver retries for ever and the host's core is at 100 %",
            _clean,
            {"target": "rk3588", "faults": ("missing-device",)},
        ),
    )
}
