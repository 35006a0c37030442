"""Layer 4, output: NaN and Inf with their origin, sums, saturation, collapse, golden values."""

from __future__ import annotations

from npudbg.layers import (  # noqa: F401
    golden,
    output_golden,
    output_origin,
    output_sums,
    output_values,
    output_weights,
)
