"""Layer 2, input: what is fed against what the model and the target take."""

from __future__ import annotations

from npudbg.layers import (  # noqa: F401
    input_dtype,
    input_layout,
    input_limits,
    input_manifest,
    input_memory,
    input_operators,
    input_quant,
    input_shape,
    input_values,
)
