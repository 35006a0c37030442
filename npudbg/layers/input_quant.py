"""Quantisation at the model's entrance: does the scale fit what is fed?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.entrance import entrance
from npudbg.layers.expected import pairs
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import is_float, number, of_node, of_tensor, readable, span
from npudbg.session.records import Finding
from npudbg.session.text import safe

_SATURATED = 0.01
_MOST = 0.5
_FEW_LEVELS = 8
_MIN_ELEMENTS = 16


@rule(2, "I250", "I251")
def input_scale(case: Case) -> Iterator[Finding]:
    """Values that the first QuantizeLinear clips, or that fall into a few of its levels."""
    for host, _ in pairs(case):
        if host.name in case.synthesised or not readable(host) or not is_float(host.array):
            continue
        found = entrance(case.graph, host.name).quantized
        if found is None or host.array.size < _MIN_ELEMENTS:
            continue
        low = found.scale * (found.low - found.zero_point)
        high = found.scale * (found.high - found.zero_point)
        values = host.array.astype(np.float64).reshape(-1)
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        # Half a step beyond the last level still rounds to it.
        slack = found.scale / 2
        clipped = int(np.count_nonzero((values < low - slack) | (values > high + slack)))
        least, most = float(values.min()), float(values.max())
        evidence = {
            "scale": found.scale,
            "zero_point": found.zero_point,
            "range": [low, high],
            "values": [least, most],
            "clipped": clipped,
            "elements": int(values.size),
        }
        share = clipped / values.size
        if share > _SATURATED:
            yield finding(
                "I250",
                of_tensor(host),
                f"{safe(host.name)}: {clipped} of {values.size} values ({share:.1%}) lie outside "
                f"{span(low, high)}, all that scale {number(found.scale)} and zero point "
                f"{found.zero_point} of {safe(found.node.label)} can hold (values "
                f"{span(least, most)})",
                evidence=evidence,
                fix="feed values as at calibration, or calibrate with inputs of this range",
                severity="error" if share > _MOST else "warning",
                related=(of_node(found.node),),
            )
            continue
        levels = len(np.unique(np.round(values / found.scale)))
        if levels < _FEW_LEVELS and len(np.unique(values)) > 2 * levels:
            yield finding(
                "I251",
                of_tensor(host),
                f"{safe(host.name)}: values {span(least, most)} fall into {levels} levels of scale "
                f"{number(found.scale)} ({safe(found.node.label)}, range {span(low, high)})",
                evidence={**evidence, "levels": levels, "distinct": len(np.unique(values))},
                fix="the model was calibrated for a wider range: is the input divided twice?",
                related=(of_node(found.node),),
            )
