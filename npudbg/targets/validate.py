"""What a profile must mean: checks that types alone do not make."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from npudbg.targets.convert import nearest
from npudbg.targets.fields import fields, paths, source
from npudbg.targets.profile import Target

DTYPES = (
    "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int4", "int8", "int16", "int32", "int64",
    "uint4", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
"""Names of element types in a profile."""

PRECISIONS = ("fp32", "fp16", "bf16", "int8")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_MAX_ADDRESS = 1 << 64
_LEAST_PAGE = 64
"""Bytes; a page table of smaller ones would outgrow what it maps."""
_MAX_COUNT = 1 << 20

Check = Callable[[Any], str]
"""Value -> what was expected, or ``""`` if it is that."""


def validate(target: Target) -> None:
    """Check a profile.

    Raises:
        ValueError: ``key: what was expected``, for the first thing that is wrong.
    """
    for problem in _problems(target):
        raise ValueError(problem)


def unsourced(target: Target) -> list[str]:
    """Return the dotted paths of figures that a profile gives without a source."""
    return [f.path for f in fields(target) if f.given and source(target, f.path) is None]


def _problems(target: Target) -> Iterator[str]:
    if not _NAME.fullmatch(target.name):
        yield "name: expected letters, digits, '.', '_', '+' or '-', at most 64"
    if not target.title.strip():
        yield "title: expected some words that say which chip this is"
    for field in fields(target):
        check = _CHECKS.get(field.path)
        if check is None or field.value is None:
            continue
        expected = check(field.value)
        if expected:
            yield f"{field.path}: {_shown(field.value)}; expected {expected}"
    yield from _memory(target)
    yield from _compute(target)
    yield from _operators(target)
    yield from _thresholds(target)
    yield from _sources(target)


def _memory(target: Target) -> Iterator[str]:
    memory, bits = target.memory, target.dma.mask_bits
    sram = memory.sram_bytes or 0
    sram_end, ddr_end = memory.sram_base + sram, memory.ddr_base + memory.ddr_bytes
    if memory.sram_base < ddr_end and memory.ddr_base < sram_end:
        yield (
            f"memory.sram_base: SRAM at {memory.sram_base:#x} to {sram_end:#x} overlaps DDR at "
            f"{memory.ddr_base:#x} to {ddr_end:#x}; expected ranges apart"
        )
    if bits is not None and memory.ddr_base >> bits:
        yield f"memory.ddr_base: {memory.ddr_base:#x} is beyond dma.mask_bits ({bits} bits)"


def _compute(target: Target) -> Iterator[str]:
    compute = target.compute
    if compute.default_precision not in compute.precisions:
        yield (
            f"compute.default_precision: {compute.default_precision}; expected one of "
            f"compute.precisions ({', '.join(compute.precisions)})"
        )
    if compute.dtypes and compute.default_precision not in compute.dtypes:
        yield (
            f"compute.default_precision: {compute.default_precision}; expected a type that "
            f"compute.dtypes names ({', '.join(compute.dtypes)})"
        )
    for key, low in _BY_DTYPE.items():
        for name, number in getattr(compute, key).items():
            path = f"compute.{key}.{name[:40]}"
            if name not in DTYPES:
                yield f"{path}: no such type{nearest(name, DTYPES)}"
            elif not low <= number <= _MAX_COUNT:
                yield f"{path}: {_shown(number)}; expected a number from {low} to {_MAX_COUNT}"
    for name, wide in compute.accumulator.items():
        for each in (name, wide):
            if each not in DTYPES:
                yield f"compute.accumulator.{name[:40]}: no such type{nearest(each, DTYPES)}"
        if name == "fp16" and wide in DTYPES and wide not in ("fp16", "fp32"):
            yield f"compute.accumulator.fp16: {wide}; expected fp16 or fp32"


def _operators(target: Target) -> Iterator[str]:
    operators = target.operators
    if operators.mode == "only" and not operators.supported:
        yield "operators.supported: empty; expected a list where operators.mode is only"
    if operators.mode == "all" and operators.supported:
        yield "operators.supported: has no effect; expected operators.mode = only with it"
    both = sorted(set(operators.supported) & set(operators.unsupported))
    if both:
        yield f"operators.unsupported: {both[0][:40]} is in operators.supported too"
    low, high = operators.opset_min, operators.opset_max
    if low is not None and high is not None and low > high:
        yield f"operators.opset_min: {low}; expected at most operators.opset_max ({high})"


def _thresholds(target: Target) -> Iterator[str]:
    for name, limit in target.thresholds.items():
        path = f"thresholds.{name[:40]}"
        for key, value in (("healthy", limit.healthy), ("dangerous", limit.dangerous)):
            if not 0 <= value <= 1:
                yield f"{path}.{key}: {_shown(value)}; expected a fraction from 0 to 1"
        if limit.high_is_good and not limit.healthy > limit.dangerous:
            yield f"{path}: expected healthy above dangerous where high_is_good"
        elif not limit.high_is_good and not limit.healthy < limit.dangerous:
            yield f"{path}: expected healthy below dangerous"


def _sources(target: Target) -> Iterator[str]:
    given = {f.path for f in fields(target)} | {f.section for f in fields(target)}
    for path, text in target.sources.items():
        if path not in given and path not in paths():
            known = sorted(given | paths())
            yield f"sources.{path[:80]}: no such field{nearest(path, known)}"
        if not text.strip():
            yield f"sources.{path[:80]}: empty; expected where the figure comes from"


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _MAX_ADDRESS:
        return "a number of more than 64 bits"
    return str(value)[:60]


def _power_of_two(value: int) -> str:
    if 1 <= value <= 1 << 40 and value & (value - 1) == 0:
        return ""
    return "a power of two of at least 1"


def _page(value: int) -> str:
    if value >= _LEAST_PAGE and not _power_of_two(value):
        return ""
    return f"a power of two of at least {_LEAST_PAGE}"


def _within(low: float, high: float, text: str) -> Check:
    def check(value: float) -> str:
        return "" if math.isfinite(value) and low <= value <= high else text

    return check


def _each(check: Check, *, of: str = "") -> Check:
    """Check every element of a list, or every value of a table; none twice."""

    def every(values: Any) -> str:
        items = list(values.values()) if isinstance(values, dict) else list(values)
        if not isinstance(values, dict) and len(set(items)) < len(items):
            return "no element twice"
        return next((of or problem for problem in map(check, items) if problem), "")

    return every


def _one_of(known: tuple[str, ...]) -> Check:
    def check(value: str) -> str:
        return "" if value in known else f"only {', '.join(known)}"

    return check


def _words(value: str) -> str:
    return "" if value.strip() and len(value) <= 200 else "names that are not empty"


_COUNT = _within(1, _MAX_COUNT, f"a count from 1 to {_MAX_COUNT}")
_SIZE = _within(1, 1 << 48, "a size of 1 byte to 256 TiB")
_ADDRESS = _within(0, _MAX_ADDRESS - 1, "an address of at most 64 bits")
_BITS = _within(1, 64, "1 to 64 bits")
_CYCLES = _within(0, 1 << 32, "0 to 4294967296 cycles")
_OPSET = _within(1, 1000, "an opset from 1 to 1000")
_TIME = _within(0, 1e9, "a time that is not negative")

_BY_DTYPE = {
    "mac_cols_by_dtype": 1,
    "depthwise_lanes": 1,
    "bias_bytes": 0,
    "depthwise_bias_bytes": 0,
}
"""Tables by element type, and the least value of an entry."""

_CHECKS: dict[str, Check] = {
    # The SRAM of a touched run is one block of the debugger's own memory.
    "memory.sram_bytes": _within(1, 1 << 30, "1 byte to 1 GiB"),
    "memory.sram_base": _ADDRESS,
    "memory.sram_banks": _COUNT,
    "memory.bank_bytes_per_cycle": _power_of_two,
    "memory.bank_conflict_cycles": _CYCLES,
    "memory.ddr_base": _ADDRESS,
    "memory.ddr_bytes": _SIZE,
    "memory.page_bytes": _page,
    "dma.base_alignment": _power_of_two,
    "dma.length_alignment": _power_of_two,
    "dma.length_bits": _BITS,
    "dma.mask_bits": _BITS,
    "dma.channels": _within(1, 64, "1 to 64 channels"),
    "dma.setup_cycles": _CYCLES,
    "dma.bytes_per_cycle": _within(1e-6, 1e9, "a positive number"),
    "dma.burst_bytes": _power_of_two,
    "dma.boundary_bytes": _power_of_two,
    "dma.split_cycles": _CYCLES,
    "cache.line_bytes": _power_of_two,
    "cache.size_bytes": _SIZE,
    "compute.mac_rows": _COUNT,
    "compute.mac_cols": _COUNT,
    "compute.min_steps": _within(0, _MAX_COUNT, f"0 to {_MAX_COUNT} steps"),
    "compute.min_depth_bytes": _within(0, _MAX_COUNT, f"0 to {_MAX_COUNT} bytes"),
    "compute.weight_channel_bytes": _COUNT,
    "compute.mac_positions": _COUNT,
    "compute.accumulator_block": _COUNT,
    "compute.vector_lanes": _COUNT,
    "compute.kernel_setup_cycles": _CYCLES,
    "compute.dtypes": _each(_one_of(DTYPES)),
    "compute.precisions": _each(_one_of(PRECISIONS)),
    "tensor.layouts": _each(_words),
    "tensor.native_layout": _words,
    "tensor.base_alignment": _power_of_two,
    "tensor.size_alignment": _power_of_two,
    "tensor.channel_multiple": _COUNT,
    "tensor.size_multiple": _COUNT,
    "tensor.max_rank": _within(1, 64, "a rank from 1 to 64"),
    "tensor.max_dim": _within(1, 1 << 40, "a positive number of elements"),
    "operators.supported": _each(_words),
    "operators.unsupported": _each(_words),
    "operators.opset_min": _OPSET,
    "operators.opset_max": _OPSET,
    "clock.device_hz": _within(1, 1e12, "1 Hz to 1 THz"),
    "clock.host_ns_per_element": _TIME,
    "clock.host_call_us": _TIME,
    "elf.machines": _each(_within(1, 0xFFFF, "e_machine numbers from 1 to 65535")),
    "elf.page_bytes": _power_of_two,
    "elf.segment_alignment": _power_of_two,
    "elf.section_alignment": _power_of_two,
    "elf.sections": _each(_power_of_two),
    "board.device_nodes": _each(_words),
    "board.driver_paths": _each(_words),
}
"""Checks by dotted path; a test holds that every field with a size has one."""
