"""Layer 4, output: NaN and Inf with their origin, saturation, collapse, dead channels."""

from __future__ import annotations

from npudbg.layers import output_origin, output_values  # noqa: F401
