"""Bytes to and from storage: raw or zstd, with bounded expansion."""

from __future__ import annotations

import sys
from typing import Any

from npudbg.session.errors import SessionError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RAW, ZSTD = 0, 1
_LEVEL = 1
_SAMPLE = 32768
_MIN_GAIN = 0.10

Buffer = bytes | bytearray | memoryview


def encode(data: Buffer, *, hurry: bool = False) -> tuple[int, Buffer]:
    """Return ``(codec, stored)``; zstd only where it saves at least 10 %.

    Args:
        data: Bytes to store.
        hurry: Demand a gain of three quarters (which is also quick to pack), because
            the writer is behind the device.
    """
    view = memoryview(data)
    if len(view) < 64:
        return RAW, data
    least = 0.75 if hurry else _MIN_GAIN
    if len(view) > 4 * _SAMPLE:
        # A piece from the middle tells at 1/32 of the cost whether it is worth it.
        middle = len(view) // 2
        sample = view[middle : middle + _SAMPLE]
        if len(zstd.compress(sample, _LEVEL)) > (1 - least) * _SAMPLE:
            return RAW, data
    packed = zstd.compress(view, _LEVEL)
    if len(packed) > (1 - least) * len(view):
        return RAW, data
    return ZSTD, packed


def decode(codec: int, data: bytes, nbytes: int) -> bytes:
    """Undo :func:`encode`.

    Args:
        codec: ``RAW`` or ``ZSTD``.
        data: Stored bytes (hostile until proven otherwise).
        nbytes: Expected size; never more is expanded.

    Raises:
        SessionError: The bytes do not expand to exactly ``nbytes``.
    """
    if codec == RAW:
        out = data
    elif codec == ZSTD:
        decompressor: Any = zstd.ZstdDecompressor()
        try:
            out = decompressor.decompress(data, max_length=nbytes + 1)
        except (zstd.ZstdError, ValueError) as error:
            raise SessionError(f"session: a stored chunk does not decompress ({error})") from None
    else:
        raise SessionError(f"session: unknown chunk codec {codec}; made by a newer npudbg?")
    if len(out) != nbytes:
        raise SessionError(
            f"session: a stored chunk holds {len(out)} bytes where {nbytes} were recorded"
        )
    return out
