"""A TensorProto file (.pb), as ONNX test data sets use."""

from __future__ import annotations

from pathlib import Path

from npudbg.graph import sniff, wire
from npudbg.graph.external import EXTERNAL, Folder
from npudbg.graph.files import open_regular, show
from npudbg.graph.ir import Array
from npudbg.graph.tensors import Stored
from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAX_BYTES = (1 << 31) - 1


def read(path: Path) -> tuple[str, Array]:
    """Return the tensor's own name (may be empty) and its values, read-only.

    Raises:
        UserError: Not a TensorProto, cut, or data that do not fill its shape.
    """
    where = show(path)
    file, size = open_regular(path, "a TensorProto (.pb)")
    with file:
        if size > MAX_BYTES:
            raise UserError(f"{where}: {size:,} bytes; a TensorProto has at most {MAX_BYTES:,}")
        try:
            data = file.read(size)
        except OSError as error:
            raise UserError(f"{where}: cannot be read ({safe(error.strerror)})") from None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import TensorProto

    tensor = TensorProto()
    try:
        tensor.ParseFromString(data)
        if tensor.data_type == 0:
            raise DecodeError
    except (DecodeError, RuntimeError):
        raise UserError(f"{where}: {_why(data)}") from None
    if tensor.data_location == EXTERNAL:
        raise UserError(f"{where}: keeps its data in another file; save it whole")
    try:
        return tensor.name, Stored(tensor, Folder(None), "tensor").array()
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _why(data: bytes) -> str:
    if not data:
        return "an empty file; a TensorProto (.pb) was expected"
    try:
        for field in wire.fields(data):
            if field.missing and field.number <= 14:
                return (
                    f"cut: {field.missing:,} of the {field.nbytes:,} bytes of its data are "
                    "missing; copy it again"
                )
    except wire.MalformedError:
        pass
    what = sniff.identify(data[: sniff.HEAD])
    return f"a TensorProto (.pb) was expected, and this is {what or 'none'}"
