"""The .npz format: a zip of .npy files, its sizes bounded before and while reading."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from npudbg.graph import npy, sniff
from npudbg.graph.files import open_regular, show
from npudbg.graph.ir import Array
from npudbg.session.errors import UserError
from npudbg.session.text import safe

MAX_MEMBERS = 1000
MAX_TOTAL = 2 << 30
"""Bytes of all members together, unpacked."""
MAX_RATIO = 200
RATIO_FREE = 256 << 20
"""A member up to this size may be packed at any ratio: real arrays of zeros reach 1000."""
_CHUNK = 1 << 20
_ENCRYPTED = 0x1
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read(path: Path) -> dict[str, Array]:
    """Read every array of a .npz file, by name.

    Raises:
        UserError: Not a zip, damaged, too large when unpacked, or a member that
            :func:`npudbg.graph.npy.read` would refuse.
    """
    where = show(path)
    file, _ = open_regular(path, "a .npz archive")
    with file:
        try:
            head = file.read(sniff.HEAD)
            if head[:2] != b"PK":
                what = sniff.identify(head) or "not one"
                raise UserError(f"{where}: a .npz archive was expected, and this is {what}")
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, where)
                return {_name(m): _read_member(archive, m, where) for m in members}
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError) as error:
            raise UserError(f"{where}: damaged or cut ({safe(error)}); copy it again") from None
        except (ValueError, NotImplementedError, RuntimeError, OverflowError) as error:
            raise UserError(f"{where}: cannot be unpacked ({safe(error)})") from None
        except MemoryError:
            raise UserError(f"{where}: its arrays do not fit in memory") from None


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _members(archive: zipfile.ZipFile, where: str) -> list[zipfile.ZipInfo]:
    members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
    if not members:
        raise UserError(f"{where}: no array inside; numpy.savez writes such a file")
    if len(members) > MAX_MEMBERS:
        raise UserError(f"{where}: {len(members):,} arrays; at most {MAX_MEMBERS:,} are read")
    names = [m.filename for m in members]
    if len(set(names)) != len(names):
        raise UserError(f"{where}: two arrays of the same name inside")
    total = sum(m.file_size for m in members)
    if total > MAX_TOTAL:
        raise UserError(
            f"{where}: would unpack to {total:,} bytes, more than {MAX_TOTAL:,} (a zip bomb?); "
            "save the arrays as .npy files"
        )
    for member in members:
        name = safe(member.filename)
        if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
            raise UserError(f"{where}: {name!r} is encrypted or packed in a way numpy never writes")
        if member.file_size > max(RATIO_FREE, member.compress_size * MAX_RATIO):
            raise UserError(
                f"{where}: {name!r} would unpack from {member.compress_size:,} to "
                f"{member.file_size:,} bytes (a zip bomb?); save it as a .npy file"
            )
    return members


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> Array:
    label = f"{where}[{safe(member.filename)}]"
    with archive.open(member) as stream:
        header = npy.read_header(stream.read, member.file_size, label)
        have = member.file_size - header.start
        if header.nbytes > have:
            raise UserError(
                f"{label}: the header claims {header.nbytes:,} bytes and {have:,} are there: "
                f"{header.nbytes - have:,} are missing"
            )
        array = np.empty(math.prod(header.shape), header.dtype)
        if array.nbytes:
            _fill(stream, memoryview(array.view(np.uint8).data), label)
    return npy.shaped(array, header, label)


def _fill(stream: IO[bytes], out: memoryview, label: str) -> None:
    at = 0
    while at < len(out):
        part = stream.read(min(_CHUNK, len(out) - at))
        if not part:
            raise UserError(f"{label}: cut: {len(out) - at:,} bytes are missing")
        out[at : at + len(part)] = part
        at += len(part)
