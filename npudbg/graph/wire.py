"""The outermost fields of a protobuf message: enough to say that a file was cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_MAX_FIELDS = 10_000_000


class Field(NamedTuple):
    """One field: ``nbytes`` of payload from offset ``start``; ``missing`` past the end."""

    number: int
    wire_type: int
    start: int
    nbytes: int
    missing: int


class MalformedError(Exception):
    """The bytes are not a protobuf message from here on."""


def fields(data: bytes | memoryview) -> Iterator[Field]:
    """Walk the outermost fields; the last one may have ``missing`` bytes.

    Raises:
        MalformedError: A tag that no protobuf message has.
    """
    at, end = 0, len(data)
    for _ in range(_MAX_FIELDS):
        if at >= end:
            return
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise MalformedError(f"field number {number} at byte {at}")
        if wire_type == 0:
            start = at
            _, at = _varint(data, at)
            yield Field(number, 0, start, at - start, 0)
            continue
        if wire_type == 2:
            nbytes, at = _varint(data, at)
        elif wire_type in (1, 5):
            nbytes = 8 if wire_type == 1 else 4
        else:
            raise MalformedError(f"wire type {wire_type} at byte {at}")
        yield Field(number, wire_type, at, nbytes, max(0, at + nbytes - end))
        at += nbytes


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise MalformedError(f"a number without an end at byte {at}")
