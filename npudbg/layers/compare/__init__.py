"""Comparison of a tensor with its golden values: metrics, reasons, layout mistakes.

NumPy and records alone; nothing here knows models or sessions.
"""

from __future__ import annotations

from npudbg.layers.compare.comparison import compare
from npudbg.layers.compare.layout import explain_layout
from npudbg.layers.compare.records import (
    Channel,
    Comparison,
    LayoutMatch,
    Metrics,
    Reason,
    Tolerance,
)

__all__ = [
    "Channel",
    "Comparison",
    "LayoutMatch",
    "Metrics",
    "Reason",
    "Tolerance",
    "compare",
    "explain_layout",
]
