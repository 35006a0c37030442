"""Small helpers that the rules of layers 1 and 2 share: subjects, shapes and types in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.graph.ir import Node
from npudbg.graph.types import plain_name
from npudbg.layers.case import HostTensor
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.records import Origin, Subject
from npudbg.session.text import safe

SAMPLE = 1 << 16
"""Most elements that a test of single values looks at."""

MAX_COPY = 1 << 30
"""Largest tensor that is packed anew to look at its values."""


def of_tensor(host: HostTensor) -> Subject:
    """Return the subject that points at a host tensor."""
    return Subject(kind="tensor", name=safe(host.name), tensor=host.record.id)


def of_node(node: Node) -> Subject:
    """Return the subject that points at a node of the model."""
    return Subject(kind="node", name=safe(node.label), node=node.index)


def shape_text(shape: Iterable[int | str | None]) -> str:
    """Return ``(1,3,?,W)``."""
    return "(" + ",".join("?" if n is None else safe(n, 24) for n in shape) + ")"


def joined(values: Iterable[Any], limit: int = 8) -> str:
    """Return ``a, b, c`` with at most ``limit`` items."""
    items = [safe(v, 60) for v in values]
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def type_text(dtype: str) -> str:
    """Return a record's dtype for people: ``float32`` for ``<f4``."""
    return plain_name(dtype)


def address_origin(host: HostTensor) -> Origin:
    """Return where a tensor's address comes from, for evidence that rests on it."""
    return "declared" if host.record.address_origin == "declared" else "measured"


def has_elements(host: HostTensor) -> bool:
    """Tell whether there is anything that a rule could judge (a zero-size tensor has not)."""
    return host.array.size > 0 and host.array.dtype.kind not in "OSUTMm"


def readable(host: HostTensor) -> bool:
    """Tell whether the values may be read as what the record says they are.

    Not for a view that reaches beyond its buffer, nor for an extension type
    that is at hand as plain bytes only, nor for a view whose packed copy would
    not fit (a broadcast can be of any size).
    """
    if not has_elements(host) or host.facts.get("outside"):
        return False
    if host.array.nbytes > MAX_COPY and not host.array.flags.c_contiguous:
        return False
    try:
        stated = numpy_dtype(host.record.dtype)
    except TypeError:
        return False
    return bool(stated.newbyteorder("=") == host.array.dtype.newbyteorder("="))


def sample(array: npt.NDArray[Any], limit: int = SAMPLE) -> npt.NDArray[Any]:
    """Return at most ``limit`` elements, evenly spaced over the whole array, as one axis."""
    flat = array.reshape(-1)
    step = max(1, -(-flat.size // limit))
    return flat[::step]


def is_float(array: npt.NDArray[Any]) -> bool:
    """Tell floating types, extension types included, from the others."""
    return array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat", "float"))


def number(value: float) -> str:
    """Return a value in at most six digits."""
    return f"{float(value):.6g}"


def span(low: float, high: float) -> str:
    """Return ``-2.12 to 2.64``."""
    return f"{float(low):.4g} to {float(high):.4g}"


def product(shape: Sequence[int]) -> int:
    """Return the number of elements."""
    return int(np.prod(shape, dtype=object)) if len(shape) else 1


def plural(count: int, noun: str) -> str:
    """Return ``1 tensor`` or ``3 tensors``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
