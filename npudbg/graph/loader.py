"""ONNX in: a file, hostile until proven otherwise, becomes a checked Graph."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npudbg.graph import attributes, infer, sniff, wire
from npudbg.graph.bodies import captured_by, check_depth
from npudbg.graph.check import check_fed, check_names
from npudbg.graph.external import Folder
from npudbg.graph.files import open_regular, show
from npudbg.graph.hazards import check_hazards
from npudbg.graph.inline import inline_external
from npudbg.graph.ir import Graph, Initializer, Node, Types
from npudbg.graph.operators import Operators, plain_domain, read_opsets
from npudbg.graph.tensors import initializer, sparse_initializer
from npudbg.graph.types import contract
from npudbg.graph.utf8 import check_text
from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAX_BYTES = (1 << 31) - 1
"""Protobuf's own limit for a message."""
_MODEL_FIELDS = {1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26}
_GRAPH_FIELD = 7


def load(path: str | Path, *, dims: Mapping[str, int] | None = None) -> Graph:
    """Read and check an ONNX model file.

    Args:
        path: The file.
        dims: Symbolic axes to bind wherever types are inferred
            (:attr:`Graph.value_types`), by symbol.

    Raises:
        UserError: Not there, not ONNX, cut, or a graph that cannot run; one line.
    """
    path = Path(path)
    file, size = open_regular(path, "an ONNX model")
    where = show(path)
    with file:
        try:
            head = file.read(sniff.HEAD)
            if size > MAX_BYTES and sniff.identify(head, path) is None:
                raise UserError(
                    f"{where}: {size:,} bytes, and an ONNX file cannot exceed {MAX_BYTES:,}; save "
                    "the weights as external data (onnx.save with save_as_external_data=True)"
                )
            _refuse_other(head, path, where)
            file.seek(0)
            data = file.read(size)
        except OSError as error:
            raise UserError(f"{where}: cannot be read ({safe(error.strerror)})") from None
    # The hash lets go of the interpreter lock: it runs beside the parsing.
    digest = hashlib.sha256()
    hashing = threading.Thread(target=digest.update, args=(data,), daemon=True)
    hashing.start()
    try:
        model = _parse(data, where)
    finally:
        hashing.join()
    size = len(data)
    del data, head, hashing
    try:
        return from_proto(
            model, path=path, name=path.name, sha256=digest.hexdigest(), nbytes=size, dims=dims
        )
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(where) else f"{where}: {text}") from None


def from_proto(
    model: Any,
    *,
    path: Path | None = None,
    name: str = "",
    sha256: str = "",
    nbytes: int = 0,
    dims: Mapping[str, int] | None = None,
) -> Graph:
    """Check a ModelProto and return it as a Graph.

    External data of bodies and attributes are brought into ``model`` itself.

    Raises:
        UserError: The graph cannot run; one line that names node and tensor.
    """
    import onnx

    if not model.HasField("graph"):
        raise UserError("no graph inside; not an ONNX model, or one that was cut")
    if model.ir_version > onnx.IR_VERSION:
        raise UserError(
            f"IR version {model.ir_version} is newer than the installed onnx knows "
            f"({onnx.IR_VERSION}); update onnx"
        )
    proto = model.graph
    check_depth(proto.node)
    for function in model.functions:
        check_depth(function.node)
    check_text(model)
    for nodes in (proto.node, *(f.node for f in model.functions)):
        check_hazards(nodes)
    opset = read_opsets(model.opset_import)
    if "" not in opset and (not opset or model.ir_version < 3):
        opset[""] = 1  # what files from before opset imports mean
    order = check_names(proto)
    known = Operators(opset, model.functions)
    known.check(proto.node)
    for function in model.functions:
        Operators({**opset, **read_opsets(function.opset_import)}, model.functions).check(
            function.node
        )
    folder = Folder(path)
    inline_external(model, folder)
    constants = _constants(proto, folder)
    contracts = [contract(v) for v in proto.input]
    check_fed([c.name for c in contracts], "input")
    outputs = tuple(contract(v) for v in proto.output)
    check_fed([c.name for c in outputs], "output")
    bound = dict(dims or {})

    def inferred(shapes: Mapping[str, tuple[int, ...]]) -> Types:
        types = infer.value_types(model, {**_known_shapes(contracts, bound), **shapes})
        for constant in constants.values():
            types.setdefault(constant.name, _constant_contract(constant))
        return types

    tool = " ".join(t for t in (model.producer_name, model.producer_version) if t)
    return Graph(
        name=name or proto.name or "model",
        path=str(path) if path is not None else "",
        sha256=sha256,
        nbytes=nbytes,
        tool=tool,
        ir_version=int(model.ir_version),
        opset=opset,
        inputs=tuple(c for c in contracts if c.name not in constants),
        outputs=outputs,
        defaults=tuple(contract(v, optional=True) for v in proto.input if v.name in constants),
        nodes=tuple(
            _node(proto.node[at], index, at, known, folder) for index, at in enumerate(order)
        ),
        initializers=constants,
        functions=tuple(model.functions),
        model=model,
        _infer=inferred,
    )


def _node(proto: Any, index: int, at: int, known: Operators, folder: Folder) -> Node:
    return Node(
        index=index,
        name=proto.name,
        op_type=proto.op_type,
        domain=plain_domain(proto.domain),
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes=attributes.read(proto, folder),
        captured=captured_by(proto),
        proto=proto,
        since_opset=known.since(proto, at),
    )


def _constants(proto: Any, folder: Folder) -> dict[str, Initializer]:
    found = [initializer(t, folder) for t in proto.initializer]
    found += [sparse_initializer(t, folder) for t in proto.sparse_initializer]
    return {c.name: c for c in found}


def _constant_contract(constant: Initializer) -> Any:
    from npudbg.session.records import ValueContract

    return ValueContract(name=constant.name, dtype=constant.dtype, shape=constant.shape)


def _known_shapes(contracts: list[Any], dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the inputs' shapes that ``dims`` make whole."""
    found = {}
    for c in contracts:
        if (
            not dims
            or c.shape is None
            or not any(isinstance(d, str) and d in dims for d in c.shape)
        ):
            continue
        shape = [dims.get(d) if isinstance(d, str) else d for d in c.shape]
        if all(isinstance(d, int) for d in shape):
            found[c.name] = tuple(int(d) for d in shape if d is not None)
    return found


def _refuse_other(head: bytes, path: Path, where: str) -> None:
    what = sniff.identify(head, path)
    if what is None:
        return
    if not head:
        raise UserError(f"{where}: an empty file; an ONNX model was expected")
    raise UserError(f"{where}: not an ONNX model but {what}{sniff.advice(what, head)}")


def _parse(data: bytes, where: str) -> Any:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError):
        raise UserError(f"{where}: {_why(data)}") from None
    return model


def _why(data: bytes) -> str:
    """Say why bytes do not parse as a ModelProto."""
    last = None
    try:
        for last in wire.fields(data):
            if last.number not in _MODEL_FIELDS:
                return "not an ONNX model (its bytes are no ONNX protobuf message)"
    except wire.MalformedError:
        return "not an ONNX model (its bytes are no protobuf message), or a damaged one"
    if last is not None and last.missing:
        what = "graph" if last.number == _GRAPH_FIELD else f"field {last.number}"
        return (
            f"cut: its {what} has {last.nbytes:,} bytes and {last.missing:,} of them are missing; "
            "download or copy it again"
        )
    return "a damaged ONNX model (the message does not parse); download or copy it again"
