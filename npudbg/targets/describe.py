"""A profile as rows of text: what it says, in which unit, and where that comes from."""

from __future__ import annotations

from typing import Any

from npudbg.targets.fields import Field, fields, source
from npudbg.targets.profile import ASSUMED_SRAM_BYTES, Target, Threshold

ASSUMED = "assumed (simulator default)"
"""Source of a figure that no one gave and that the simulated device runs with."""

UNKNOWN = "not known; no rule judges by it"
UNSOURCED = "given without a source"

Row = tuple[str, str, str, str]
"""Section, field, value, source."""

_HEX = ("sram_base", "ddr_base")
_UNITS = {
    "sram_banks": "banks",
    "mac_rows": "input channels",
    "mac_cols": "output channels",
    "mac_positions": "positions",
    "vector_lanes": "lanes",
    "channels": "channels",
    "min_steps": "steps",
    "min_depth_bytes": "bytes",
    "setup_cycles": "cycles",
    "split_cycles": "cycles",
    "bank_conflict_cycles": "cycles",
    "kernel_setup_cycles": "cycles",
    "bytes_per_cycle": "bytes/cycle",
    "bank_bytes_per_cycle": "bytes/cycle",
    "base_alignment": "bytes",
    "length_alignment": "bytes",
    "size_alignment": "bytes",
    "segment_alignment": "bytes",
    "section_alignment": "bytes",
    "length_bits": "bits",
    "mask_bits": "bits",
    "elf_class": "bits",
    "channel_multiple": "channels",
    "size_multiple": "elements",
    "max_rank": "axes",
    "max_dim": "elements",
    "host_ns_per_element": "ns",
    "host_call_us": "us",
}
_SINGULAR = {
    "banks": "bank", "input channels": "input channel", "output channels": "output channel",
    "lanes": "lane", "channels": "channel", "cycles": "cycle",
    "bytes": "byte", "bits": "bit", "elements": "element", "axes": "axis",
    "bytes/cycle": "byte/cycle",
}  # fmt: skip


def rows(target: Target) -> list[Row]:
    """Return every field of a profile.

    Where a profile is silent, the source says whether the simulator runs with a
    value of its own (:data:`ASSUMED`) or nothing is known (:data:`UNKNOWN`).

    Args:
        target: The profile.
    """
    return [(f.section, f.name, _value(f), _source(target, f)) for f in fields(target)]


def _source(target: Target, field: Field) -> str:
    given = source(target, field.path)
    # A table's source speaks of what the table gives, and of no default beside it.
    if given is not None and (field.given or field.path in target.sources):
        return given
    if field.given:
        return UNSOURCED
    if field.path == "memory.sram_bytes":
        return ASSUMED
    return UNKNOWN if field.value is None or _empty(field.value) else ASSUMED


def _empty(value: Any) -> bool:
    return isinstance(value, (tuple, dict)) and not value


def _value(field: Field) -> str:
    value = field.value
    if field.path == "memory.sram_bytes" and value is None:
        value = ASSUMED_SRAM_BYTES
    if value is None or _empty(value):
        return "-"
    if isinstance(value, Threshold):
        better, worse = (">", "<") if value.high_is_good else ("<", ">")
        return (
            f"healthy {better} {_percent(value.healthy)}, "
            f"dangerous {worse} {_percent(value.dangerous)}"
        )
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(field.name, value) if isinstance(value, (int, float)) else str(value)


def _number(name: str, value: float) -> str:
    if name in _HEX:
        return f"{int(value):#x}"
    if name == "device_hz":
        return _hertz(value)
    if name.endswith("_bytes") or (name.endswith("alignment") and value >= 1024):
        return size_text(int(value))
    # ":g" would round a large count.
    text = str(value) if isinstance(value, int) else f"{value:g}"
    unit = _UNITS.get(name, "")
    if text == "1":
        unit = _SINGULAR.get(unit, unit)
    return f"{text} {unit}".rstrip()


def size_text(count: int) -> str:
    """Return a size in the largest binary unit that leaves no remainder."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >> shift and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} byte" if count == 1 else f"{count} bytes"


def _hertz(value: float) -> str:
    for unit, factor in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} Hz"


def _percent(value: float) -> str:
    return f"{value * 100:g}%"
