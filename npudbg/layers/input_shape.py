"""Names, count, rank, shape and open axes of what is fed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from npudbg.layers.case import Case, HostTensor
from npudbg.layers.expected import (
    UNBOUNDED,
    Expected,
    expected_shape,
    fits,
    fitting_transposes,
    missing_axes,
    open_axes,
    pairs,
    surplus_axes,
)
from npudbg.layers.findings import finding, rule
from npudbg.layers.words import joined, of_tensor, product, shape_text
from npudbg.session.records import Finding, Subject, ValueContract
from npudbg.session.text import safe


@rule(2, "I201", "I202")
def names(case: Case) -> Iterator[Finding]:
    """Tensors under a name that the model does not have, and inputs that are not fed."""
    if case.model is None or not case.inputs:
        return
    known = [v.name for v in case.model.inputs]
    if case.graph is not None:
        known += [v.name for v in case.graph.defaults]
    fed = [host.name for host in case.inputs]
    for host in case.inputs:
        if host.name not in known:
            near = difflib.get_close_matches(host.name, known, 1, 0.5)
            hint = f"; did you mean {safe(near[0])}?" if near else f"; it has {joined(known)}"
            yield finding(
                "I201",
                of_tensor(host),
                f"the model has no input {safe(host.name)}{hint}",
                evidence={"given": safe(host.name), "known": [safe(n) for n in known[:16]]},
                fix=f"feed it as {safe(near[0])}" if near else "use the model's own input names",
                origin="declared",
            )
    if case.unread is None:
        return  # some of what was fed may be no host tensor
    for contract in case.model.inputs:
        if contract.name in fed or contract.name in case.unread or contract.optional:
            continue
        yield finding(
            "I202",
            Subject(kind="tensor", name=safe(contract.name)),
            f"input {safe(contract.name)} {shape_text(contract.shape or ())} is not fed; "
            f"{len(fed)} of {len(case.model.inputs)} are",
            evidence={"fed": len(fed), "expected": len(case.model.inputs)},
            fix=f"feed {safe(contract.name)} too",
            origin="declared",
        )


@rule(2, "I210", "I211")
def shapes(case: Case) -> Iterator[Finding]:
    """Rank and shape against the model's, with the reshape that would mend them."""
    for host, contract in pairs(case):
        expected = expected_shape(case, contract)
        shape = host.record.shape
        if expected is None or fits(shape, expected):
            continue
        if len(shape) != len(expected):
            yield _rank(host, expected)
        else:
            yield _shape(host, expected)


@rule(2, "I212")
def symbols_agree(case: Case) -> Iterator[Finding]:
    """One symbol of the model, two sizes in what is fed."""
    seen: dict[str, tuple[int, HostTensor, int]] = {}
    for host, contract in pairs(case):
        if contract.shape is None or len(contract.shape) != len(host.record.shape):
            continue
        for axis, (symbol, size) in enumerate(zip(contract.shape, host.record.shape, strict=True)):
            if not isinstance(symbol, str) or symbol in case.dims:
                continue
            before = seen.setdefault(symbol, (size, host, axis))
            if before[0] == size:
                continue
            yield finding(
                "I212",
                of_tensor(host),
                f"axis {safe(symbol)} is {size} in {safe(host.name)} (axis {axis}) and "
                f"{before[0]} in {safe(before[1].name)} (axis {before[2]})",
                evidence={"symbol": safe(symbol), "sizes": [before[0], size]},
                fix="give both the same size",
                related=(of_tensor(before[1]),),
            )


@rule(2, "I213")
def static_shapes(case: Case) -> Iterator[Finding]:
    """Open axes on a target whose compiler takes static shapes only."""
    if case.model is None or not case.target.tensor.static_shapes:
        return
    fed = {host.name: host for host in case.inputs}
    for contract in case.model.inputs:
        if contract.kind != "tensor":
            continue
        axes = open_axes(case, contract)
        if axes or contract.shape is None:
            yield _static(case, contract, axes, fed.get(contract.name))


def _rank(host: HostTensor, expected: Expected) -> Finding:
    shape = host.record.shape
    evidence: dict[str, Any] = {"given": list(shape), "expected": _plain(expected)}
    text = (
        f"{safe(host.name)}: rank {len(shape)} given {shape_text(shape)}, rank {len(expected)} "
        f"expected {shape_text(expected)}"
    )
    fix = f"reshape it to {shape_text(expected)}"
    if len(shape) < len(expected):
        found = missing_axes(shape, expected)
        if found is not None:
            axes, order = found
            evidence |= {"missing_axes": list(axes), "transpose": list(order)}
            sizes = ", ".join(f"axis {a} (size {_size(expected[a])})" for a in axes)
            text += f"; missing {sizes}"
            turned = "" if list(order) == sorted(order) else f".transpose{order}"
            if turned:
                text += f", and its axes are in the order {joined(order)}"
            many = [a for a in axes if isinstance(expected[a], int) and expected[a] != 1]
            fix = f"x = np.expand_dims(x{turned}, {axes if len(axes) > 1 else axes[0]})"
            if many:
                fix = f"stack {expected[many[0]]} of them: np.stack([…], axis={many[0]})"
    else:
        surplus = surplus_axes(shape, expected)
        if surplus is not None:
            evidence["surplus_axes"] = list(surplus)
            text += f"; axis {joined(surplus)} of one element is too many"
            fix = f"x = np.squeeze(x, axis={surplus if len(surplus) > 1 else surplus[0]})"
    return finding("I210", of_tensor(host), text, evidence=evidence, fix=fix)


def _shape(host: HostTensor, expected: Expected) -> Finding:
    shape = host.record.shape
    wrong = [n for n, e in enumerate(expected) if isinstance(e, int) and shape[n] != e]
    evidence: dict[str, Any] = {"given": list(shape), "expected": _plain(expected), "axes": wrong}
    axes = ", ".join(f"axis {n} is {shape[n]} instead of {expected[n]}" for n in wrong)
    text = f"{safe(host.name)}: {shape_text(shape)} given, {shape_text(expected)} expected: {axes}"
    fix = f"resize or pad it to {shape_text(expected)}"
    orders = fitting_transposes(shape, expected)
    if orders:
        evidence["transposes"] = [list(p) for p in orders[:4]]
        order = ",".join(str(a) for a in orders[0])
        text += f"; transpose({order}) fits"
        fix = f"x = np.ascontiguousarray(x.transpose({order}))"
    elif all(isinstance(e, int) for e in expected) and product(shape) == product(
        [e for e in expected if isinstance(e, int)]
    ):
        text += "; the number of elements is the same, so a size check would pass it"
        fix = "look at which axes were joined or split before a reshape"
    return finding("I211", of_tensor(host), text, evidence=evidence, fix=fix)


def _static(
    case: Case, contract: ValueContract, axes: list[int], host: HostTensor | None
) -> Finding:
    stated = contract.shape or ()
    labels = [_label(stated[a], a) for a in axes]
    evidence: dict[str, Any] = {
        "shape": [safe(n) if isinstance(n, str) else n for n in stated],
        "axes": axes,
    }
    text = f"{safe(contract.name)}: dims {joined(labels)} symbolic"
    if contract.shape is None:
        text = f"{safe(contract.name)}: not even its rank is stated"
    text += f"; {safe(case.target.name)} takes static shapes only"
    if any(isinstance(stated[a], int) and stated[a] >= UNBOUNDED for a in axes):  # type: ignore[operator]
        text += f"; {(1 << 63) - 1} means 'no upper bound', not a size"
    related: tuple[Subject, ...] = ()
    reader = None if case.graph is None else next(iter(case.graph.consumers(contract.name)), None)
    if reader is not None:
        place = reader.inputs.index(contract.name) if contract.name in reader.inputs else -1
        evidence |= {"first_node": safe(reader.label), "operator": safe(reader.op_type)}
        text += f"; first read by {safe(reader.label)} ({safe(reader.op_type)}, input {place})"
        related = (Subject(kind="node", name=safe(reader.label), node=reader.index),)
    fix = "export the model with fixed sizes"
    sizes = host.record.shape if host is not None and host.record.shape else ()
    if axes and len(sizes) == len(stated):
        keys = [stated[a] if isinstance(stated[a], str) else f"{contract.name}.{a}" for a in axes]
        bound = dict.fromkeys(safe(k) for k in keys)
        for key, axis in zip(keys, axes, strict=True):
            bound[safe(key)] = sizes[axis]
        evidence["suggested"] = bound
        text += f"; the input suggests {' '.join(f'{k}={v}' for k, v in bound.items())}"
        if not any(isinstance(stated[a], int) for a in axes):
            fix = "bind them: " + " ".join(f"--dim {k}={v}" for k, v in bound.items())
    return finding(
        "I213",
        Subject(
            kind="tensor",
            name=safe(contract.name),
            tensor=None if host is None else host.record.id,
        ),
        text,
        evidence=evidence,
        fix=fix,
        related=related,
        origin="declared",
    )


def _label(size: int | str | None, axis: int) -> str:
    return size if isinstance(size, str) else f"axis {axis}"


def _size(size: int | str | None) -> str:
    return "any" if size is None else safe(size, 24)


def _plain(expected: Expected) -> list[Any]:
    return [safe(n) if isinstance(n, str) else n for n in expected]
