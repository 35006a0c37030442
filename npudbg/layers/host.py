"""Layer 1, host: how each tensor lies in memory, and whether its values are sane."""

from __future__ import annotations

from npudbg.layers import (  # noqa: F401
    host_address,
    host_lines,
    host_sizes,
    host_strides,
    host_values,
)
