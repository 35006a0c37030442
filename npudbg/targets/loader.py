"""Loading target profiles: bundled by name, or a user's own TOML file."""

from __future__ import annotations

import difflib
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from npudbg.session.errors import UserError
from npudbg.session.text import safe
from npudbg.targets.profile import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_BYTES = 256 << 10

_POWERS_OF_TWO = (
    ("dma", "base_alignment"), ("dma", "length_alignment"), ("dma", "burst_bytes"),
    ("cache", "line_bytes"), ("tensor", "base_alignment"), ("tensor", "size_alignment"),
    ("memory", "page_bytes"), ("elf", "page_bytes"), ("elf", "segment_alignment"),
    ("elf", "section_alignment"),
)  # fmt: skip
_POSITIVE = (
    ("memory", "sram_bytes"), ("memory", "sram_banks"), ("memory", "bank_bytes_per_cycle"),
    ("memory", "ddr_bytes"), ("dma", "channels"), ("dma", "bytes_per_cycle"),
    ("compute", "mac_rows"), ("compute", "mac_cols"), ("compute", "vector_lanes"),
    ("tensor", "channel_multiple"), ("tensor", "size_multiple"), ("tensor", "max_rank"),
    ("tensor", "max_dim"), ("clock", "device_hz"),
)  # fmt: skip
_NOT_NEGATIVE = (
    ("memory", "sram_base"), ("memory", "ddr_base"), ("dma", "setup_cycles"),
    ("compute", "kernel_setup_cycles"), ("clock", "host_ns_per_element"),
    ("clock", "host_call_us"),
)  # fmt: skip
_BITS = (("dma", "length_bits"), ("dma", "mask_bits"))
_MAX_SRAM = 1 << 30
_MAX_CHANNELS = 64


def _folder() -> Any:
    return resources.files("npudbg.targets").joinpath("profiles")


@cache
def names() -> tuple[str, ...]:
    """Return the names of the bundled profiles, sorted."""
    return tuple(sorted(f.name[:-5] for f in _folder().iterdir() if f.name.endswith(".toml")))


def toml_text(name_or_path: str) -> str:
    """Return a profile's text, by bundled name (in any case) or from a file.

    Raises:
        UserError: No such profile or file, or the file is unreadable or too large.
    """
    wanted = name_or_path.lower()
    if wanted in names():
        return str(_folder().joinpath(f"{wanted}.toml").read_text(encoding="utf-8"))
    path = Path(name_or_path)
    shown = safe(name_or_path)
    if not (path.suffix == ".toml" or "/" in name_or_path or path.exists()):
        near = difflib.get_close_matches(wanted, names(), 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(
            f"target {shown!r}: no such profile; {hint}known: {', '.join(names())}, "
            "or give a .toml file"
        )
    if not path.exists():
        raise UserError(f"target {shown}: no such file")
    if not path.is_file():
        raise UserError(f"target {shown}: not a regular file; a .toml profile was expected")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"target {shown}: cannot be read ({safe(error.strerror)})") from None
    if len(data) > _MAX_BYTES:
        raise UserError(f"target {shown}: larger than {_MAX_BYTES:,} bytes; not a profile")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"target {shown}: not UTF-8 text at byte {error.start}; a .toml profile was expected"
        ) from None


def load(name_or_path: str) -> Target:
    """Return a profile, validated.

    Raises:
        UserError: See :func:`toml_text` and :func:`load_toml_text`.
    """
    return load_toml_text(toml_text(name_or_path), name_or_path)


def load_toml_text(text: str, where: str) -> Target:
    """Return the profile that a TOML text describes.

    Args:
        text: The text; a session keeps it, so that a replay needs no file.
        where: What the error names.

    Raises:
        UserError: Not TOML, an unknown key, a wrong type, or a value that no chip has.
    """
    shown = f"target {safe(where)}"
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{shown}: not TOML ({safe(error, 160)})") from None
    try:
        target = msgspec.convert(table, Target)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UserError(f"{shown}: {_reworded(str(error))}") from None
    except OverflowError:
        raise UserError(f"{shown}: a number is out of range") from None
    _check(target, shown)
    return target


def _reworded(text: str) -> str:
    """Return msgspec's message with the key where a reader of TOML looks for it."""
    message, _, place = text.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    message = safe(message.replace("Object", "the table"), 160)
    return f"{safe(key, 80)}: {message}" if key else message


def _check(target: Target, shown: str) -> None:
    def value(table: str, field: str) -> Any:
        return getattr(getattr(target, table), field)

    def refuse(key: str, expected: str, got: Any) -> None:
        raise UserError(f"{shown}: {key}: expected {expected}, got {safe(got, 40)}")

    for table, field in _POWERS_OF_TWO:
        number = value(table, field)
        if number is not None and (number < 1 or number & (number - 1)):
            refuse(f"{table}.{field}", "a power of two", number)
    for table, field in _POSITIVE:
        number = value(table, field)
        if number is not None and not number > 0:
            refuse(f"{table}.{field}", "a positive number", number)
    for table, field in _NOT_NEGATIVE:
        number = value(table, field)
        if not 0 <= number < 1 << 63:
            refuse(f"{table}.{field}", "a number of 0 or more", number)
    for table, field in _BITS:
        number = value(table, field)
        if number is not None and not 1 <= number <= 64:
            refuse(f"{table}.{field}", "1 to 64 bits", number)
    if target.memory.sram_bytes is not None and target.memory.sram_bytes > _MAX_SRAM:
        refuse("memory.sram_bytes", f"at most {_MAX_SRAM:,}", target.memory.sram_bytes)
    if target.dma.channels > _MAX_CHANNELS:
        refuse("dma.channels", f"at most {_MAX_CHANNELS}", target.dma.channels)
    for key, columns in target.compute.mac_cols_by_dtype.items():
        if columns < 1:
            refuse(f"compute.mac_cols_by_dtype.{safe(key)}", "a positive number", columns)
    if target.compute.default_precision not in target.compute.precisions:
        refuse(
            "compute.default_precision",
            f"one of {', '.join(target.compute.precisions)}",
            target.compute.default_precision,
        )
    low, high = target.operators.opset_min, target.operators.opset_max
    if low is not None and high is not None and low > high:
        refuse("operators.opset_min", f"at most opset_max ({high})", low)
    for name, limit in target.thresholds.items():
        ordered = (
            limit.healthy > limit.dangerous
            if limit.high_is_good
            else (limit.healthy < limit.dangerous)
        )
        if not ordered:
            better = "above" if limit.high_is_good else "below"
            refuse(f"thresholds.{safe(name)}", f"healthy {better} dangerous", limit.healthy)
    for name, number in target.elf.sections.items():
        if number < 1 or number & (number - 1):
            refuse(f"elf.sections.{safe(name)}", "a power of two", number)
