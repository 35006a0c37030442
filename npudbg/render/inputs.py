"""Layer 2: what the model asks for beside what it was given."""

from __future__ import annotations

from npudbg.render import numbers
from npudbg.render.fit import cells, cut_middle, fit, left, wrapped
from npudbg.render.host import about, finding_notes, inputs_of
from npudbg.render.marks import worst
from npudbg.session.lines import Line, line
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord, ValueContract
from npudbg.session.text import safe

_NAMED = 10
"""Letters of a symbol that still reads well in ``Nx3x224``."""


def input_lines(session: Session, width: int) -> list[Line]:
    """Return layer 2 in lines: contract and tensor of each input, findings, notes."""
    model = session.meta.model
    contracts = list(model.inputs) if model is not None else []
    given = {t.name: t for t in inputs_of(session)}
    lines: list[Line] = []
    seen: list[Finding] = []
    for contract in contracts:
        tensor = given.pop(contract.name, None)
        found = about(session, tensor, 2) if tensor is not None else []
        seen += found
        lines += _block(contract, tensor, found, width)
    for tensor in given.values():
        found = about(session, tensor, 2)
        seen += found
        lines += _block(None, tensor, found, width)
    lines += finding_notes([f for f in session.findings if f.layer == 2 and f not in seen], width)
    for note in session.meta.notes[:32]:
        lines += wrapped(safe(note, 400), width, "dim", lead="  note  ")
    if not lines:
        lines.append(line(("no input was recorded", "dim")))
    return lines


def inputs_table(session: Session, width: int) -> list[Line]:
    """Return the inputs of the report, one line each: name, given, range of values."""
    lines = []
    name_width = max(min(max((len(t.name) for t in inputs_of(session)), default=4), 24), 4)
    for tensor in inputs_of(session)[:64]:
        stats = tensor.stats
        values = ""
        if stats is not None and stats.count:
            values = f"  values {numbers.value(stats.min)} .. {numbers.value(stats.max)}"
            if stats.nonfinite:
                values += f", {stats.nonfinite:,} NaN or Inf"
        where = ""
        if tensor.address is not None:
            where = f"  at {numbers.address(tensor.address)} {tensor.address_origin}"
        lines.append(
            fit(
                line(
                    "  ",
                    (left(cut_middle(safe(tensor.name, 400), name_width), name_width), "key"),
                    f"  {numbers.shape(tensor.shape)} {safe(tensor.dtype, 16)}",
                    (where, "address"),
                    (values, "number"),
                ),
                width,
            )
        )
    return lines


def _block(
    contract: ValueContract | None,
    tensor: TensorRecord | None,
    found: list[Finding],
    width: int,
) -> list[Line]:
    name = contract.name if contract is not None else (tensor.name if tensor is not None else "")
    mark, style = worst(found)
    if contract is None or tensor is None:
        mark, style = (
            ("~", "warn") if contract is not None and contract.optional else ("!", "error")
        )
    rows = [line((f"{mark} ", style), (safe(name, 400), "title"))]
    if contract is None:
        rows.append(line("  model  ", ("has no input of this name", "error")))
    else:
        rows += _contract(contract, width)
    if tensor is None:
        rows.append(line("  given  ", ("nothing", "error" if style == "error" else "dim")))
    else:
        layout = f"  {safe(tensor.layout, 12)}" if tensor.layout else ""
        agree, how = _agree(contract, tensor)
        rows.append(
            line(
                "  given  ",
                (f"{numbers.shape(tensor.shape)} {safe(tensor.dtype, 16)}", "key"),
                layout,
                (how, "ok" if agree else "error"),
            )
        )
        rows += _values(tensor)
    subject = None
    if tensor is not None:
        subject = Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id)
    lines = [fit(line(*row.spans, subject=subject), width) for row in rows]
    return lines + finding_notes(found, width)


def _contract(contract: ValueContract, width: int) -> list[Line]:
    optional = "  optional" if contract.optional else ""
    dtype = safe(contract.dtype, 16)
    text = f"{numbers.shape(contract.shape)} {dtype}{optional}"
    if cells(text) > width - 9 or any(len(str(n)) > _NAMED for n in contract.shape or ()):
        # Long names of open axes: between an x they could not be told apart.
        axes = ", ".join("?" if n is None else safe(n, 60) for n in contract.shape or ())
        text = f"[{axes}] {dtype}{optional}"
    return wrapped(text, width, "key", lead="  model  ")


def _agree(contract: ValueContract | None, tensor: TensorRecord) -> tuple[bool, str]:
    if contract is None:
        return False, ""
    if contract.dtype.lstrip("<>|=") != tensor.dtype.lstrip("<>|="):
        return False, "  ! dtype differs"
    if contract.shape is None:
        return True, "  ✓"
    if len(contract.shape) != len(tensor.shape):
        return False, f"  ! rank {len(tensor.shape)}, expected {len(contract.shape)}"
    for axis, (want, have) in enumerate(zip(contract.shape, tensor.shape, strict=True)):
        if isinstance(want, int) and want >= 0 and want != have:
            return False, f"  ! axis {axis}: {have}, expected {want}"
    return True, "  ✓ dtype and shape agree"


def _values(tensor: TensorRecord) -> list[Line]:
    stats = tensor.stats
    if stats is None or not stats.count:
        return []
    rows = [
        line(
            "  values ",
            ((f"{numbers.value(stats.min)} .. {numbers.value(stats.max)}, mean "
             f"{numbers.value(stats.mean)}, std {numbers.value(stats.std)}"), "number"),
            (f"  {tensor.origin}", "dim"),
        )
    ]  # fmt: skip
    if stats.nonfinite:
        text = f"NaN {stats.nan:,}, Inf {stats.pos_inf + stats.neg_inf:,} of {stats.count:,}"
        rows.append(line("         ", (text, "error")))
    return rows
