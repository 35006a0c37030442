"""Attributes that send native code into an endless loop, caught before any is run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from npudbg.graph.bodies import bodies, label
from npudbg.session.errors import UserError
from npudbg.session.text import safe

# Terms of letters and blanks with at most one "...", and at most one arrow.  The parser in
# onnx, and so in ONNX Runtime, never gets past anything else.
_TERM = rb"[A-Za-z ]*(?:\.\.\.[A-Za-z ]*)?"
_EQUATION = re.compile(_TERM + rb"(?:," + _TERM + rb")*(?:->" + _TERM + rb")?")


def check_hazards(nodes: Iterable[Any]) -> None:
    """Refuse attribute values that would hang ONNX Runtime; bodies included.

    Raises:
        UserError: One is there; the node is named.
    """
    for index, node in enumerate(nodes):
        if node.op_type == "Einsum":
            for attribute in node.attribute:
                if attribute.name == "equation" and not _EQUATION.fullmatch(attribute.s):
                    raise UserError(
                        f"node {label(node, index)!r}: Einsum equation "
                        f"{safe(attribute.s.decode('utf-8', 'replace'))!r} is malformed; "
                        "letters, commas, '...' and one '->' were expected"
                    )
        for body in bodies(node):
            check_hazards(body.node)
