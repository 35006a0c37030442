"""Cases for the rules of layers 1 and 2, made as a program or npudbg itself would make them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npudbg.agent.describe import describe, dtype_name
from npudbg.graph.loader import from_proto
from npudbg.layers.case import Case, HostTensor
from npudbg.layers.findings import judge
from npudbg.session.records import ModelRecord, TensorRecord, ValueContract
from npudbg.targets.profile import Cache, Compute, Dma, Memory, Operators, Target, Tensor

F = TensorProto.FLOAT
_RNG = np.random.default_rng(0)
GENERIC = Target(name="generic", title="no demand")


def normal(*shape):
    """Standard normal float32 values."""
    return _RNG.standard_normal(shape).astype("f4")


def target(**tables) -> Target:
    kinds = {
        "dma": Dma,
        "tensor": Tensor,
        "cache": Cache,
        "compute": Compute,
        "memory": Memory,
        "operators": Operators,
    }
    made = {key: kinds[key](**value) for key, value in tables.items() if key in kinds}
    rest = {key: value for key, value in tables.items() if key not in kinds}
    return Target(name="board", title="a board", **made, **rest)


def host(array, name="x", *, number=0, address=None, loaded=False, dtype=None) -> HostTensor:
    """A tensor of a process; ``address`` declares where it lies; ``loaded`` = read from a file."""
    facts = describe(array, name)
    record = TensorRecord(
        id=number,
        name=name,
        role="input",
        shape=array.shape,
        dtype=dtype or dtype_name(array.dtype),
        strides=array.strides,
        address=facts["address"] if address is None else address,
        address_origin="measured" if address is None else "declared",
        offset=0 if loaded else facts["offset"],
        base_nbytes=array.nbytes if loaded else facts["base_nbytes"],
        owner="npudbg" if loaded else facts["owner"],
        origin="measured",
    )
    return HostTensor(record, facts, array)


def contract_model(**inputs) -> ModelRecord:
    """A model of which only the contract is known: ``x=("<f4", (1, 3))``."""
    values = [ValueContract(name=n, dtype=d, shape=s) for n, (d, s) in inputs.items()]
    return ModelRecord(name="m", inputs=tuple(values), opset={"": 17})


def model(nodes, inputs, weights=None, *, outputs=("y",), opset=17, domains=()):
    """A Graph: ``inputs`` maps names to (TensorProto type, shape)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    proto = helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", opset),
            *(helper.make_opsetid(d, 1) for d in domains),
        ],
        ir_version=9,
    )
    return from_proto(proto, name="m.onnx")


def conv_model(shape, channels=3, *, nhwc=False, kernel=(3, 3), before=()):
    """x -> [nodes] -> [Transpose] -> Conv -> y; ``before`` are (op, weights) on the input."""
    weights = {"w": np.ones((4, channels, *kernel), np.float32)}
    nodes, at = [], "x"
    for number, (op, value) in enumerate(before):
        weights[f"c{number}"] = np.asarray(value, np.float32)
        nodes.append(helper.make_node(op, [at, f"c{number}"], [f"t{number}"]))
        at = f"t{number}"
    if nhwc:
        nodes.append(helper.make_node("Transpose", [at], ["nchw"], perm=[0, 3, 1, 2], name="/turn"))
        at = "nchw"
    nodes.append(helper.make_node("Conv", [at, "w"], ["y"], name="/conv"))
    return model(nodes, {"x": (TensorProto.FLOAT, shape)}, weights)


def case(*inputs, graph=None, on=GENERIC, **fields) -> Case:
    hosts = tuple(
        h if isinstance(h, HostTensor) else host(h, number=n) for n, h in enumerate(inputs)
    )
    if graph is not None:
        fields.setdefault("model", graph.record())
    return Case(target=on, graph=graph, inputs=hosts, **fields)


def layer(number, *inputs, **fields):
    return judge(case(*inputs, **fields), number)


def codes(found, severity=None):
    return [f.code for f in found if severity is None or f.severity == severity]


def only(found, code):
    """The one finding, which must be of that code."""
    assert codes(found) == [code], [f.message for f in found]
    return found[0]


def aligned(nbytes, alignment, offset=0):
    """Bytes at an address that leaves ``offset`` modulo ``alignment``."""
    base = np.zeros(nbytes + 2 * alignment, np.uint8)
    start = -base.ctypes.data % alignment + offset
    return base[start : start + nbytes]


def save(proto_graph, path):
    onnx.save(proto_graph.model, path)
    return path
