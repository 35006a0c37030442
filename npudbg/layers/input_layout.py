"""NCHW or NHWC, where sizes alone cannot tell."""

from __future__ import annotations

from collections.abc import Iterator

from npudbg.layers.case import Case
from npudbg.layers.entrance import Entrance, entrance
from npudbg.layers.expected import expected_shape, fits, pairs
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import has_elements, of_node, of_tensor, product, shape_text
from npudbg.session.records import Finding
from npudbg.session.text import safe

_FEW_CHANNELS = (1, 3, 4)
_SPATIAL = 8
_TO_NCHW = (0, 3, 1, 2)


@rule(2, "I230")
def looks_like_nhwc(case: Case) -> Iterator[Finding]:
    """An input that a Conv reads as NCHW and whose sizes look like NHWC."""
    for host, contract in pairs(case):
        shape = host.record.shape
        expected = expected_shape(case, contract)
        if len(shape) != 4 or not has_elements(host):
            continue
        if expected is not None and not fits(shape, expected):
            continue  # the shape rule says more
        if shape[3] not in _FEW_CHANNELS or min(shape[1], shape[2]) < _SPATIAL:
            continue
        way = entrance(case.graph, host.name)
        if way.conv is None or way.permutation is not None or way.channels not in (None, shape[1]):
            continue
        said = case.preprocessing.get(host.name)
        if said is not None and said.layout == "NCHW":
            continue
        yield finding(
            "I230",
            of_tensor(host),
            f"{safe(host.name)}: declared NCHW but shape {shape_text(shape)} looks like NHWC "
            f"(C={shape[1]} unlikely, last dim {shape[3]}); both layouts have {product(shape)} "
            "elements, so size checks cannot catch this",
            evidence={
                "shape": list(shape),
                "channels_nchw": shape[1],
                "channels_nhwc": shape[3],
                "elements": product(shape),
                "conv": safe(way.conv.label),
            },
            fix=f"if it is an image of {shape[3]} channels, export the model with "
            f"({shape[0]},{shape[3]},{shape[1]},{shape[2]}), or begin it with a Transpose; "
            "--layout NCHW says that it is meant",
            certainty="suspected",
            related=(of_node(way.conv),),
        )


@rule(2, "I231")
def transpose_at_entrance(case: Case) -> Iterator[Finding]:
    """A model that takes NHWC and turns it first, on a target that states its layouts."""
    layouts = case.target.tensor.layouts
    if not layouts:
        return
    for host, _ in pairs(case):
        way = entrance(case.graph, host.name)
        if way.permutation != _TO_NCHW or way.transpose is None or host.array.ndim != 4:
            continue
        native = "NHWC" in layouts
        gain = "takes NHWC itself" if native else f"takes {', '.join(layouts)}"
        yield finding(
            "I231",
            of_tensor(host),
            f"{safe(host.name)}: the model takes NHWC and begins with a Transpose "
            f"({safe(way.transpose.label)}) of {host.array.nbytes} bytes; {safe(case.target.name)} "
            f"{gain}",
            evidence={
                "bytes": int(host.array.nbytes),
                "layouts": list(layouts),
                "transpose": safe(way.transpose.label),
            },
            fix="let the compiler take the layout as it is (its input layout option), without the "
            "Transpose" if native else "feed NCHW and remove the Transpose",
            related=(of_node(way.transpose),),
            origin="declared",
        )  # fmt: skip


@rule(2, "I232")
def declared_layout(case: Case) -> Iterator[Finding]:
    """The layout that the user states against the one that the model reads."""
    for host, contract in pairs(case):
        said = case.preprocessing.get(host.name)
        layout = None if said is None else said.layout
        if layout not in ("NCHW", "NHWC") or host.array.ndim != 4 or not has_elements(host):
            continue
        way = entrance(case.graph, host.name)
        model = _reads(way)
        if model is None or model == layout:
            continue
        expected = expected_shape(case, contract)
        silent = expected is None or fits(host.record.shape, expected)
        node = way.conv if way.conv is not None else way.transpose
        assert node is not None
        turn = "0,3,1,2" if model == "NCHW" else "0,2,3,1"
        yield finding(
            "I232",
            of_tensor(host),
            f"{safe(host.name)}: said to be {layout}, and the model reads {model} "
            f"({safe(node.label)})"
            + (f"; shape {shape_text(host.record.shape)} fits both" if silent else ""),
            evidence={"layout": layout, "model": model, "shape": list(host.record.shape)},
            fix=f"x = np.ascontiguousarray(x.transpose({turn}))",
            # Where the shape does not fit, the run is refused and the shape rule says so.
            severity="error" if silent else "warning",
            related=(of_node(node),),
            origin="declared",
        )


@rule(2, "I233")
def channels_of_conv(case: Case) -> Iterator[Finding]:
    """The channel axis against what the first Conv's weights demand."""
    for host, contract in pairs(case):
        shape, expected = host.record.shape, expected_shape(case, contract)
        if expected is not None and not fits(shape, expected):
            continue
        way = entrance(case.graph, host.name)
        if way.conv is None or way.channels is None or len(shape) < 3:
            continue
        order = way.permutation or tuple(range(len(shape)))
        if len(order) != len(shape) or shape[order[1]] == way.channels:
            continue
        axis = order[1]
        text = (
            f"{safe(host.name)}: axis {axis} has {shape[axis]} channels, and "
            f"{safe(way.conv.label)} has weights for {way.channels}"
        )
        fix = f"feed {way.channels} channels"
        places = [n for n, size in enumerate(shape) if size == way.channels and n > 0]
        if places and len(shape) == 4 and places[-1] == 3:
            text += "; axis 3 has them: the tensor looks like NHWC"
            fix = "x = np.ascontiguousarray(x.transpose(0,3,1,2))"
        yield finding(
            "I233",
            of_tensor(host),
            text,
            evidence={"axis": axis, "given": shape[axis], "expected": way.channels,
                      "shape": list(shape)},
            fix=fix,
            related=(of_node(way.conv),),
        )  # fmt: skip


def _reads(way: Entrance) -> str | None:
    """Return the layout in which the model reads the input, where its nodes show it."""
    if way.permutation == _TO_NCHW and way.transpose is not None:
        return "NHWC"
    if way.permutation is None and way.conv is not None:
        return "NCHW"
    return None
