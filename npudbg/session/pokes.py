"""Bytes as a user writes them: ``01 02``, ``^80``, ``f32:nan``, ``i16:-1,7``."""

from __future__ import annotations

import re

import numpy as np

from npudbg.session.errors import UserError
from npudbg.session.text import safe

MOST_BYTES = 1 << 20
"""Most bytes of one poke."""
_HEX = re.compile(r"(?:0[xX])?((?:[0-9A-Fa-f]{2}[\s_]*)+)")
_TYPED = re.compile(r"([fiu])(8|16|32|64):(.*)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,20})")
_EXAMPLES = "01 02 or f32:nan"


def parse_data(text: str) -> tuple[bytes, bool]:
    """Return the bytes that a text means, and whether they flip bits instead of being written.

    ``01 02`` or ``0102`` are bytes in the order of their addresses; ``f32:1.5,nan`` and
    ``u16:0x7c00`` are little-endian values; ``^80`` flips the highest bit of a byte.

    Raises:
        UserError: It means none, or too many.
    """
    word = text.strip()
    flip = word.startswith("^")
    word = word[1:].strip() if flip else word
    if len(word) > 4 * MOST_BYTES:
        raise UserError(f"more than {MOST_BYTES:,} bytes; replace a whole tensor instead")
    typed = _TYPED.fullmatch(word)
    if typed is not None:
        data = _values(typed[1], int(typed[2]), typed[3])
    else:
        match = _HEX.fullmatch(word)
        if match is None:
            raise UserError(f"{safe(word, 40)!r}: expected bytes in hex or values: {_EXAMPLES}")
        data = bytes.fromhex(re.sub(r"[\s_]", "", match[1]))
    if not 0 < len(data) <= MOST_BYTES:
        raise UserError(f"{len(data):,} bytes; expected 1 to {MOST_BYTES:,}")
    return data, flip


def _values(kind: str, bits: int, text: str) -> bytes:
    dtype = np.dtype(f"<{kind}{bits // 8}") if (kind, bits) != ("f", 8) else None
    if dtype is None:
        raise UserError("f8 is no type here; expected f16, f32, f64, i8 … i64 or u8 … u64")
    parts = [p.strip() for p in text.split(",")]
    try:
        if kind == "f":
            with np.errstate(over="ignore"):
                return np.array([float(p) for p in parts], np.float64).astype(dtype).tobytes()
        if not all(_INTEGER.fullmatch(p) for p in parts):
            raise ValueError
        limits = np.iinfo(dtype)
        numbers = [int(p, 16) if "x" in p.lower() else int(p) for p in parts]
        if not all(limits.min <= n <= limits.max for n in numbers):
            raise UserError(f"{safe(text, 40)}: beyond {kind}{bits}")
        return np.array(numbers, dtype).tobytes()
    except ValueError:
        raise UserError(
            f"{safe(text, 40)!r}: expected numbers of {kind}{bits}, for example {_EXAMPLES}"
        ) from None
