"""One ONNX node at a time in ONNX Runtime: the arithmetic behind kernels.

A node runs in a session of its own whose every operand is an input, so what is
computed is a function of the bytes handed over and of nothing else.  Run that
way, node by node, results are bit-equal to an unoptimised run of the model.
Sessions are built when first needed and reused for nodes of equal signature.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from npudbg.session.errors import UserError

_MAX_SESSIONS = 512
_MAX_BAKED = 4096

Value = Any
"""A tensor (``ndarray``), a sequence (``list``), a map (``dict``) or None (empty optional)."""

_PLAIN = frozenset("?bBhHiIlLqQefdFD")


class NodeError(UserError):
    """ONNX Runtime cannot build or run a node; the message is its own, on one line."""


@dataclass(frozen=True, slots=True)
class _Built:
    """A session, and which operands (by position) are fed to it."""

    session: ort.InferenceSession
    fed: tuple[int, ...]


class NodeRunner:
    """Runs single nodes; keeps their sessions.

    Args:
        opset: Operator set version by domain.
        ir_version: IR version for the one-node models.
        functions: Model-local FunctionProtos.
    """

    def __init__(
        self,
        opset: Mapping[str, int],
        ir_version: int = 8,
        functions: Sequence[Any] = (),
    ) -> None:
        """Remember what every one-node model shares."""
        self._opset = [helper.make_opsetid(d, v) for d, v in opset.items()]
        if not any(o.domain == "" for o in self._opset):
            self._opset.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
        self._ir_version = max(ir_version, 3)
        self._functions = list(functions)
        self._sessions: OrderedDict[bytes, _Built] = OrderedDict()
        self._particular: dict[bytes, NodeError] = {}
        self._options = _session_options()

    def run(
        self,
        node: onnx.NodeProto,
        operands: Mapping[str, Value],
        types: Mapping[str, onnx.TypeProto] | None = None,
    ) -> tuple[list[Value], list[str]]:
        """Run one node.

        Args:
            node: The node; operands are fed under its own input names.
            operands: By name, each input that is not omitted and each outer value
                that its subgraphs read.
            types: ONNX types of operands that are not plain tensors.

        Returns:
            Its outputs (None for an omitted one) and ONNX Runtime's type text of each.

        Raises:
            NodeError: ONNX Runtime refuses it.
        """
        types = types or {}
        wanted = [name for name in node.output if name]
        protos = {n: types.get(n) or type_of(v) for n, v in operands.items()}
        try:
            session, results = self._run(node, protos, wanted, operands)
        except NodeError as error:
            key = _key(node, protos)
            if key in self._particular:
                raise
            # Some operators only notice when they run that they want shapes or constants.
            self._sessions.pop(key, None)
            self._particular[key] = error
            session, results = self._run(node, protos, wanted, operands)
        kinds = [o.type for o in session.get_outputs()]
        by_name = dict(zip(wanted, zip(results, kinds, strict=True), strict=True))
        pairs = [by_name[name] if name else (None, "") for name in node.output]
        return [p[0] for p in pairs], [p[1] for p in pairs]

    def _run(
        self,
        node: onnx.NodeProto,
        protos: Mapping[str, onnx.TypeProto],
        wanted: Sequence[str],
        operands: Mapping[str, Value],
    ) -> tuple[ort.InferenceSession, list[Value]]:
        built = self._session(node, protos, wanted, operands)
        # Equal signature, other names: feed and fetch by position.
        values = list(operands.values())
        names = [i.name for i in built.session.get_inputs()]
        feeds = dict(zip(names, (values[i] for i in built.fed), strict=True))
        try:
            return built.session, _call(built.session, feeds)
        except Exception as error:
            raise NodeError(_one_line(error)) from None

    def _session(
        self,
        node: onnx.NodeProto,
        protos: Mapping[str, onnx.TypeProto],
        wanted: Sequence[str],
        operands: Mapping[str, Value],
    ) -> _Built:
        """Return a session with open shapes; where an operator needs more, with all known."""
        key = _key(node, protos)
        built = self._sessions.get(key)
        if built is None and key not in self._particular:
            try:
                built = self._build(node, protos, wanted)
            except NodeError as error:
                self._particular[key] = error
        if built is None:
            shaped = {n: _with_shape(p, operands[n]) for n, p in protos.items()}
            first_input = node.input[0] if node.input else ""
            small = {
                n: v
                for n, v in operands.items()
                if n != first_input and isinstance(v, np.ndarray) and v.size <= _MAX_BAKED
            }
            first = self._particular[key]
            key += _key(node, shaped) + b"".join(v.tobytes() for v in small.values())
            built = self._sessions.get(key)
            for constants in () if built is not None else (small, {}):
                try:
                    built = self._build(node, shaped, wanted, constants)
                    break
                except NodeError:
                    continue
            if built is None:
                raise first
        self._sessions[key] = built
        self._sessions.move_to_end(key)
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return built

    def _build(
        self,
        node: onnx.NodeProto,
        protos: Mapping[str, onnx.TypeProto],
        wanted: Sequence[str],
        constants: Mapping[str, Value] | None = None,
    ) -> _Built:
        constants = constants or {}
        graph = onnx.GraphProto(name="node")
        inner = {n: v for n, v in constants.items() if n not in node.input}
        graph.node.append(_with_constants(node, inner) if inner else node)
        for name, proto in protos.items():
            if name in inner:
                continue
            if name in constants:
                graph.initializer.append(numpy_helper.from_array(constants[name], name))
            else:
                graph.input.append(onnx.ValueInfoProto(name=name, type=proto))
        for name in wanted:
            graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(ir_version=self._ir_version, graph=graph)
        model.opset_import.extend(self._opset)
        model.functions.extend(self._functions)
        try:
            session = ort.InferenceSession(
                model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise NodeError(_one_line(error)) from None
        return _Built(session, tuple(i for i, n in enumerate(protos) if n not in constants))


def _with_constants(node: onnx.NodeProto, values: Mapping[str, Value]) -> onnx.NodeProto:
    """Return the node with outer constants moved into its bodies, where inference sees them."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    constants = [
        helper.make_node("Constant", [], [n], value=numpy_helper.from_array(v))
        for n, v in values.items()
    ]
    for attribute in copy.attribute:
        for body in (attribute.g, *attribute.graphs):
            if body.node:
                nodes = list(body.node)
                del body.node[:]
                body.node.extend([*constants, *nodes])
    return copy


def _session_options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Hundreds of small sessions with spinning threads each starve one another
    # (5,251 ms instead of 104 ms measured on one model): one thread, the other
    # core scans and writes.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    return options


def _call(session: ort.InferenceSession, feeds: Mapping[str, Value]) -> list[Value]:
    if any(_needs_ortvalue(v) for v in feeds.values()) or any(
        "bfloat16" in o.type or "float8" in o.type or "int4" in o.type or "float4" in o.type
        for o in session.get_outputs()
    ):
        return _call_extension(session, feeds)
    return list(session.run(None, dict(feeds)))


def _needs_ortvalue(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "V"


def _call_extension(session: ort.InferenceSession, feeds: Mapping[str, Value]) -> list[Value]:
    """Run with operands or results of types that NumPy itself does not have."""
    values = {}
    for name, value in feeds.items():
        if _needs_ortvalue(value):
            element = helper.np_dtype_to_tensor_dtype(value.dtype)
            raw = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
            values[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, element)
        else:
            values[name] = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
    results = []
    for value in session.run_with_ort_values(None, values):
        results.append(_from_ortvalue(value))
    return results


def _from_ortvalue(value: ort.OrtValue) -> Value:
    if not value.is_tensor():
        return value.numpy()
    dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
    if dtype.kind != "V":
        return value.numpy()
    import ctypes

    count = int(np.prod(value.shape(), dtype=np.int64))
    if dtype.name in ("int4", "uint4", "float4_e2m1fn", "int2", "uint2"):
        raise NodeError(f"{dtype.name} results cannot be read back from ONNX Runtime")
    size = count * dtype.itemsize
    raw = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(raw, dtype).reshape(value.shape())


def type_of(value: Value) -> onnx.TypeProto:
    """Return the ONNX type of a value (rank and shape left open).

    Raises:
        NodeError: It has none that can be told from the value (an empty sequence).
    """
    proto = onnx.TypeProto()
    if isinstance(value, np.ndarray):
        proto.tensor_type.elem_type = element_type(value.dtype)
        proto.tensor_type.shape.SetInParent()
        for _ in range(value.ndim):
            proto.tensor_type.shape.dim.add()
        return proto
    if isinstance(value, list) and value:
        inner = type_of(value[0])
        if inner.HasField("tensor_type"):
            inner.tensor_type.ClearField("shape")
        proto.sequence_type.elem_type.CopyFrom(inner)
        return proto
    if isinstance(value, (str, bytes)):
        proto.tensor_type.elem_type = TensorProto.STRING
        return proto
    raise NodeError(f"the ONNX type of a {type(value).__name__} is not known")


def element_type(dtype: np.dtype[Any]) -> int:
    """Return the ONNX element type of a dtype."""
    if dtype.kind in "OUST":
        return int(TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(dtype.newbyteorder("=")))


def _with_shape(proto: onnx.TypeProto, value: Value) -> onnx.TypeProto:
    if not proto.HasField("tensor_type") or not isinstance(value, np.ndarray):
        return proto
    shaped = onnx.TypeProto()
    shaped.tensor_type.elem_type = proto.tensor_type.elem_type
    shaped.tensor_type.shape.dim.extend(
        onnx.TensorShapeProto.Dimension(dim_value=n) for n in value.shape
    )
    if not value.ndim:
        shaped.tensor_type.shape.SetInParent()
    return shaped


def parse_type(text: str) -> onnx.TypeProto | None:
    """Return the TypeProto of ONNX Runtime's type text, e.g. ``seq(tensor(float))``."""
    text = text.strip()
    proto = onnx.TypeProto()
    head, _, rest = text.partition("(")
    inner = rest[:-1]
    if head == "tensor":
        element = _ELEMENTS.get(inner)
        if element is None:
            return None
        proto.tensor_type.elem_type = element
        return proto
    if head in ("seq", "optional"):
        part = parse_type(inner)
        if part is None:
            return None
        (proto.sequence_type if head == "seq" else proto.optional_type).elem_type.CopyFrom(part)
        return proto
    return None


_ELEMENTS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "complex64": TensorProto.COMPLEX64,
    "complex128": TensorProto.COMPLEX128,
}


def _key(node: onnx.NodeProto, protos: Mapping[str, onnx.TypeProto]) -> bytes:
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        body: bytes = node.SerializeToString()
        return body + b"".join(n.encode() + p.SerializeToString() for n, p in protos.items())
    slots = {name: str(i) for i, name in enumerate(protos)}
    parts = [
        node.domain.encode(),
        node.op_type.encode(),
        ",".join(slots.get(n, "") for n in node.input).encode(),
        ",".join("x" if n else "" for n in node.output).encode(),
        *(a.SerializeToString() for a in node.attribute),
        *(p.SerializeToString() for p in protos.values()),
    ]
    return b"\0".join(parts)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
