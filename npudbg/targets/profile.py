"""What a chip demands and offers: the validated form of a target's TOML file.

Every figure that a rule or the simulated device leans on stands here, and each
has a source in the profile's ``[sources]`` table, keyed by its dotted path
(``dma.base_alignment``).  What is not known is None (or empty) and no rule judges by
it: a rule that is right for one chip stays silent on another.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ASSUMED_SRAM_BYTES = 2 << 20
"""SRAM of the simulated device where a profile does not say."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the profile's tables."""


class Memory(_Table, frozen=True, kw_only=True):
    """Sizes in bytes; ``sram_base``/``ddr_base`` are where the device sees them.

    ``bank_conflict_cycles``: what a word waits that is asked of a busy SRAM bank.
    """

    sram_bytes: int | None = None
    sram_base: int = 0
    sram_banks: int = 16
    bank_bytes_per_cycle: int = 16
    bank_conflict_cycles: int = 0
    ddr_base: int = 0x4000_0000
    ddr_bytes: int = 2 << 30
    page_bytes: int = 4096


class Dma(_Table, frozen=True, kw_only=True):
    """DMA engine: alignments in bytes, lengths in bits of the descriptor's field.

    ``mask_bits`` is the width of an address that the engine can issue.
    ``overlap`` says whether a transfer runs beside compute.  No burst crosses a multiple
    of ``boundary_bytes`` (AMBA AXI4: 4 KB); one that would is issued as two, which
    costs ``split_cycles``.  ``iommu``: an address that is not mapped is refused; without
    one it reads whatever lies there, or an open bus.
    """

    base_alignment: int | None = None
    length_alignment: int | None = None
    length_bits: int | None = None
    mask_bits: int | None = None
    iommu: bool = True
    channels: int = 1
    setup_cycles: int = 100
    bytes_per_cycle: float = 16.0
    burst_bytes: int = 64
    boundary_bytes: int = 4096
    split_cycles: int = 0
    overlap: bool = True


class Cache(_Table, frozen=True, kw_only=True):
    """Host CPU cache as the device sees it.

    ``size_bytes``: how much of a buffer the last level can hold before the device sees it.
    """

    line_bytes: int | None = None
    size_bytes: int | None = None
    coherent: bool | None = None


class Compute(_Table, frozen=True, kw_only=True):
    """Arithmetic units.

    ``mac_model``: ``array`` = ceil-tiled array of ``mac_rows`` (input channels)
    by ``mac_cols`` (output channels) per cycle; ``systolic`` = output-stationary
    systolic array of that size.  ``mac_cols_by_dtype`` overrides ``mac_cols``
    where the width depends on the operand type (``int8``, ``fp16`` …).
    ``mac_positions`` output positions are computed at once.
    ``depthwise_lanes``: channels of a depthwise convolution a cycle, by operand
    type; without an entry ``mac_cols``.  A layer of fewer than ``min_steps``
    positions times taps costs that many, at no less than ``min_depth_bytes`` of
    input channels each.  In memory a weight's input channels are padded to
    ``weight_channel_bytes``; ``bias_bytes`` (``depthwise_bias_bytes``) is what an
    output channel has there beside its weight (bias, requantisation), by type.
    ``vector_lanes`` elements per cycle for element-wise kernels.
    ``accumulator`` = type of a running sum by operand type (fp16: fp32 where not stated);
    ``accumulator_block`` products are added in fp32 before an fp16 sum takes them;
    ``rounding`` of results to fp16 and bf16 (IEEE 754 names the default half-even).
    """

    mac_model: Literal["array", "systolic"] = "array"
    mac_rows: int = 32
    mac_cols: int = 32
    mac_cols_by_dtype: dict[str, int] = {}
    mac_positions: int = 1
    depthwise_lanes: dict[str, int] = {}
    min_steps: int = 0
    min_depth_bytes: int = 0
    weight_channel_bytes: int = 1
    bias_bytes: dict[str, int] = {}
    depthwise_bias_bytes: dict[str, int] = {}
    vector_lanes: int = 32
    kernel_setup_cycles: int = 200
    dtypes: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ("fp32", "fp16", "bf16", "int8")
    default_precision: Literal["fp32", "fp16", "bf16", "int8"] = "fp32"
    accumulator: dict[str, str] = {}
    accumulator_block: int = 1
    rounding: Literal["half-even", "half-away", "toward-zero"] = "half-even"
    saturate: bool = False
    flush_subnormals: bool = False


class Tensor(_Table, frozen=True, kw_only=True):
    """What the chip wants of a tensor.

    ``layouts`` accepted at the input, preferred first; ``native_layout`` inside.
    ``base_alignment`` of an I/O buffer, bytes.  ``channel_multiple`` and
    ``size_multiple`` are preferred (a warning), ``max_rank`` and ``max_dim`` limits.
    ``batch1_stride`` = a fast path that demands stride[0] == C*H*W*itemsize.
    """

    layouts: tuple[str, ...] = ()
    native_layout: str | None = None
    base_alignment: int | None = None
    size_alignment: int | None = None
    channel_multiple: int | None = None
    size_multiple: int | None = None
    max_rank: int | None = None
    max_dim: int | None = None
    static_shapes: bool = False
    batch1_stride: bool = False


class Operators(_Table, frozen=True, kw_only=True):
    """Operators with a kernel of their own.

    ``mode``: ``all`` = every operator npudbg has a kernel for, less
    ``unsupported``; ``only`` = exactly ``supported``.  Others run on the host.
    """

    mode: Literal["all", "only"] = "all"
    supported: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    opset_min: int | None = None
    opset_max: int | None = None


class Clock(_Table, frozen=True, kw_only=True):
    """Clocks in hertz; host cost in nanoseconds an element, for estimates."""

    device_hz: int = 1_000_000_000
    host_ns_per_element: float = 1.0
    host_call_us: float = 20.0


class Elf(_Table, frozen=True, kw_only=True):
    """What the chip's loader demands of libraries and kernels.

    ``machines`` as ELF ``e_machine`` numbers; alignments in bytes;
    ``sections`` maps a section name (prefix, without ``*``) to its alignment.
    """

    machines: tuple[int, ...] = ()
    elf_class: Literal[32, 64] | None = None
    page_bytes: int | None = None
    segment_alignment: int | None = None
    section_alignment: int | None = None
    sections: dict[str, int] = {}


class Threshold(_Table, frozen=True, kw_only=True):
    """Counter limits as fractions of 1; ``high_is_good`` for utilisation."""

    healthy: float
    dangerous: float
    high_is_good: bool = False


class Board(_Table, frozen=True, kw_only=True):
    """Where the board shows itself: device nodes, driver and debugfs paths."""

    device_nodes: tuple[str, ...] = ()
    driver_paths: tuple[str, ...] = ()


class Target(_Table, frozen=True, kw_only=True):
    """One target profile.  ``sources`` maps a dotted field path to its source."""

    name: str
    title: str
    vendor: str = ""
    notes: str = ""
    memory: Memory = Memory()
    dma: Dma = Dma()
    cache: Cache = Cache()
    compute: Compute = Compute()
    tensor: Tensor = Tensor()
    operators: Operators = Operators()
    clock: Clock = Clock()
    elf: Elf = Elf()
    board: Board = Board()
    thresholds: dict[str, Threshold] = {}
    sources: dict[str, str] = {}
