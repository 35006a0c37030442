"""A list of nodes in the words of the vendors' converters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.graph.ir import Node

FORMATS = ("plain", "rknn", "atc", "onnx-op-block-list")


def text(form: str, nodes: Sequence[Node]) -> str:
    """Return nodes as a converter reads them.

    Args:
        form: ``plain``: names, one a line. ``rknn``: the part of RKNN-Toolkit2's
            ``.quantization.cfg`` (hybrid quantisation), which names layers by their
            output. ``atc``: the file for Ascend's ``--keep_dtype``, operator names one a
            line. ``onnx-op-block-list``: the arguments of ONNX Runtime's
            ``convert_float_to_float16`` as JSON.
        nodes: In execution order.
    """
    if form == "rknn":
        # JSON's strings are YAML's too; names hold `:` and `/`.
        lines = [f"    {json.dumps(n)}: float16" for node in nodes for n in node.writes]
        return "\n".join(["custom_quantize_layers:" + ("" if lines else " {}"), *lines])
    names = [node.label for node in nodes]
    if form == "onnx-op-block-list":
        return json.dumps({"node_block_list": names}, indent=2)
    return "\n".join(_line(name) for name in names)


def caveats(form: str, nodes: Sequence[Node], precision: str) -> list[str]:
    """Return what the user has to know of a list in that form, one line each."""
    told = []
    unnamed = sum(not node.name for node in nodes)
    if unnamed and form != "rknn":
        told.append(
            f"{unnamed} of the nodes have no name in the model; they are given as operator and "
            "index, so name them before you hand the list on"
        )
    if form == "rknn" and precision != "int8":
        told.append(
            f"RKNN's widest type is float16: what overflows in {precision} is not mended so"
        )
    elif form == "rknn":
        told.append("float16 is what RKNN offers beside int8: the nodes were proven in fp32")
    return told


def _line(name: str) -> str:
    """Return a name on one line, whatever is in it."""
    return "".join(c if c.isprintable() else "?" for c in name)
