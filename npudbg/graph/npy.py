"""The .npy format, read without trust: no pickle, no evaluation, claims held to the size.

Follows the format as NumPy documents it in ``numpy.lib.format`` (versions 1 to
3).  The array keeps what the file says: Fortran order stays Fortran order, and
big-endian stays big-endian, for these are the faults that layer 1 looks for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npudbg.graph import sniff
from npudbg.graph.files import open_regular, show
from npudbg.graph.ir import Array
from npudbg.graph.types import plain_name
from npudbg.session.dtypes import EXTENSION, numpy_dtype
from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAGIC = b"\x93NUMPY"
MAX_HEADER = 1 << 16
MAX_RANK = 64

_KEY = re.compile(r"\s*(['\"])(descr|fortran_order|shape)\1\s*:\s*")
_TEXT = re.compile(r"(['\"])([^'\"\\]{0,64})\1")
_BOOL = re.compile(r"True|False")
_SHAPE = re.compile(r"\(\s*((?:[0-9]{1,30}L?\s*,\s*)*(?:[0-9]{1,30}L?)?)\s*\)")
_COMMA = re.compile(r"\s*,?")
_DESCR = re.compile(r"[<>|=]?[biufcUSVMm?][0-9]{0,9}")
_KINDS = "biufcUS"


@dataclass(frozen=True, slots=True)
class Header:
    """What a .npy header claims.

    Attributes:
        dtype: Element type, byte order kept.
        shape: Elements per axis.
        fortran: Whether the first axis runs fastest.
        start: Bytes before the first element.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take (exact: Python integers)."""
        return math.prod(self.shape) * self.dtype.itemsize


def read(path: Path, element: str | None = None) -> Array:
    """Read a .npy file.

    Args:
        path: The file.
        element: Element type to see plain bytes (``|V2``) as: NumPy saves bfloat16
            and its like without their name.

    Raises:
        UserError: Not a .npy file, objects inside, cut, or claims that its size denies.
    """
    where = show(path)
    file, size = open_regular(path, "a .npy array")
    with file:
        try:
            header = read_header(file.read, size, where, element)
            if header.nbytes > size - header.start:
                raise _cut(header, size - header.start, where)
            array = np.fromfile(file, header.dtype, math.prod(header.shape))
        except OSError as error:
            raise UserError(f"{where}: cannot be read ({safe(error.strerror)})") from None
        except MemoryError:
            raise UserError(f"{where}: {header.nbytes:,} bytes do not fit in memory") from None
    if array.size != math.prod(header.shape):
        raise _cut(header, array.nbytes, where)
    return shaped(array, header, where)


def read_header(
    take: Callable[[int], bytes], size: int, where: str, element: str | None = None
) -> Header:
    """Read and check the header.

    Args:
        take: Returns up to so many further bytes.
        size: Bytes of the whole .npy file.
        where: Its name, safe to print.
        element: See :func:`read`.

    Raises:
        UserError: As :func:`read`, but for the elements' own bytes.
    """
    lead = take(8)
    if not lead.startswith(MAGIC):
        what = sniff.identify(lead + take(sniff.HEAD)) or "not one"
        raise UserError(f"{where}: a .npy array was expected, and this is {what}")
    if len(lead) < 8 or size < 10:
        raise UserError(f"{where}: cut: the file ends inside the .npy header")
    version = (lead[6], lead[7])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise UserError(f"{where}: .npy version {version[0]}.{version[1]}; 1.0 to 3.0 are known")
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(take(width), "little")
    start = 8 + width + length
    if length > MAX_HEADER:
        raise UserError(f"{where}: a .npy header of {length:,} bytes; at most {MAX_HEADER:,}")
    raw = take(length)
    if len(raw) < length or start > size:
        raise UserError(
            f"{where}: cut: {length - len(raw):,} bytes of the .npy header are missing; "
            "copy it again"
        )
    try:
        text = raw.decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError:
        raise UserError(f"{where}: the .npy header is not text") from None
    found = _parse(text, where)
    dtype = _dtype(found["descr"], element, where)
    shape = _shape(found["shape"])
    if len(shape) > MAX_RANK:
        raise UserError(f"{where}: {len(shape)} axes; at most {MAX_RANK} are possible")
    if any(n > np.iinfo(np.int64).max for n in shape):
        raise UserError(f"{where}: the header claims an axis of {max(shape):,} elements")
    return Header(dtype, shape, found["fortran_order"] == "True", start)


def shaped(array: Array, header: Header, where: str) -> Array:
    """Give a flat array the header's shape and order (a view where Fortran, as NumPy does).

    Raises:
        UserError: NumPy cannot make that shape (only zero-size ones with huge axes).
    """
    try:
        if header.fortran:
            made: Array = array.reshape(header.shape[::-1]).transpose()
        else:
            made = array.reshape(header.shape)
    except ValueError as error:
        raise UserError(f"{where}: shape {list(header.shape)}: {safe(error)}") from None
    return made


def _cut(header: Header, have: int, where: str) -> UserError:
    missing = header.nbytes - max(have, 0)
    return UserError(
        f"{where}: shape {safe(list(header.shape))} of {plain_name(header.dtype.str)} needs "
        f"{header.nbytes:,} bytes and the file holds {max(have, 0):,}: {missing:,} bytes are "
        "missing; copy or save it again"
    )


def _parse(text: str, where: str) -> dict[str, str]:
    """Read the header's dictionary; its grammar is small enough for four patterns."""
    broken = UserError(f"{where}: the .npy header is damaged: {safe(text.strip(), 80)!r}")
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise broken
    body, at = body[1:-1], 0
    found: dict[str, str] = {}
    while body[at:].strip():
        key = _KEY.match(body, at)
        if key is None or key.group(2) in found:
            raise broken
        name, at = key.group(2), key.end()
        pattern = {"descr": _TEXT, "fortran_order": _BOOL, "shape": _SHAPE}[name]
        value = pattern.match(body, at)
        if value is None:
            if name == "descr" and body.startswith("[", at):
                raise UserError(
                    f"{where}: a structured array (records); save the plain array alone"
                )
            raise broken
        found[name] = value.group({"descr": 2, "fortran_order": 0, "shape": 1}[name])
        comma = _COMMA.match(body, value.end())
        at = value.end() if comma is None else comma.end()
    if len(found) != 3:
        raise broken
    return found


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part.strip().rstrip("L")) for part in text.split(",") if part.strip())


def _dtype(descr: str, element: str | None, where: str) -> np.dtype[Any]:
    if descr.lstrip("<>|=")[:1] == "O":
        raise UserError(
            f"{where}: an array of Python objects, which are pickled and never opened; "
            "save numbers (array.astype(numpy.float32))"
        )
    try:
        # Only the plain spelling: numpy.dtype() itself takes far more than a type string.
        dtype = np.dtype(descr) if _DESCR.fullmatch(descr) else None
    except (TypeError, ValueError, MemoryError):
        dtype = None
    if dtype is None:
        raise UserError(f"{where}: {safe(descr)!r} is no element type")
    if dtype.kind == "V":
        return _named(dtype, element, where)
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise UserError(
            f"{where}: elements of type {safe(descr)!r}; numbers, booleans or text were expected"
        )
    return dtype


def _named(dtype: np.dtype[Any], element: str | None, where: str) -> np.dtype[Any]:
    fitting = sorted(n for n in EXTENSION if numpy_dtype(n).itemsize == dtype.itemsize)
    if element in fitting:
        return numpy_dtype(element)
    likely = "bfloat16" if dtype.itemsize == 2 else "float8_e4m3fn"
    advice = f"; if they are {likely}, give FILE:{likely}" if fitting else ""
    raise UserError(f"{where}: elements of {dtype.itemsize} bytes without a type{advice}")
