"""The seven steps of a tensor's life, from its allocation to the host's reading it."""

from __future__ import annotations

from npudbg.render import life_device, life_host, numbers
from npudbg.render.fit import fit, left, wrapped
from npudbg.render.life_facts import Facts, Mark, facts_of
from npudbg.render.life_findings import step_of
from npudbg.render.life_host import Step
from npudbg.session.lines import Line, Span, Style, line
from npudbg.session.reader import Session
from npudbg.session.records import Finding, Subject, TensorRecord
from npudbg.session.text import safe
from npudbg.targets.profile import Target

STEPS = (
    life_host.allocate,
    life_host.fill,
    life_host.wrap,
    life_host.register,
    life_device.dma,
    life_device.bind,
    life_device.execute,
)
_STYLES: dict[Mark, Style] = {
    "ok": "ok",
    "warn": "warn",
    "broken": "error",
    "not recorded": "dim",
    "not needed": "dim",
}
_SEVERITIES: dict[str, Style] = {"error": "error", "warning": "warn"}
_NAME = 21
_MARK = 14
_MOST_FINDINGS = 8


def life_lines(
    session: Session, tensor: TensorRecord, width: int, *, target: Target | None = None
) -> list[Line]:
    """Return what the record shows of each step, a mark, and the findings that belong to it.

    Args:
        session: The record.
        tensor: Any copy of the tensor: the host's or the device's.
        width: Columns of text.
        target: The profile; None takes the one that the session carries.
    """
    target = target_of(session) if target is None else target
    facts = facts_of(session, tensor, target)
    findings = facts.findings()
    lines = [
        line(
            (f"life of {safe(facts.name, 80)}", "title"),
            f"  {tensor.role} {safe(tensor.dtype, 16)} {numbers.shape(tensor.shape)}",
            (f"  on {safe(session.meta.target, 32)}", "dim"),
            subject=_subject(tensor),
        )
    ]
    for number, tell in enumerate(STEPS, 1):
        step = tell(facts)
        here = [f for f in findings if step_of(f) == number]
        lines += _step(facts, number, step, here, width)
    return [fit(each, width) for each in lines]


def marks_of(session: Session, tensor: TensorRecord, target: Target | None = None) -> list[Mark]:
    """Return the mark of each of the seven steps."""
    facts = facts_of(session, tensor, target_of(session) if target is None else target)
    findings = facts.findings()
    return [
        _worst(tell(facts).mark, [f for f in findings if step_of(f) == number])
        for number, tell in enumerate(STEPS, 1)
    ]


def target_of(session: Session) -> Target | None:
    """Return the profile that a session carries; None if it has none or a damaged one."""
    from npudbg.session.errors import UserError
    from npudbg.targets.loader import load_toml_text

    if not session.meta.target_toml:
        return None
    try:
        return load_toml_text(session.meta.target_toml, session.meta.target)
    except UserError:
        return None


def _worst(mark: Mark, findings: list[Finding]) -> Mark:
    """Return the mark with what the findings say: an error breaks a step, a warning marks it."""
    severities = {f.severity for f in findings}
    if "error" in severities or mark == "broken":
        return "broken"
    return "warn" if "warning" in severities else mark


def _step(facts: Facts, number: int, step: Step, findings: list[Finding], width: int) -> list[Line]:
    mark = _worst(step.mark, findings)
    subject = Subject(kind="command", seq=step.seq) if step.seq >= 0 else _subject(facts.asked)
    lines = []
    indent = _NAME + _MARK + 3 if width >= 100 else 5
    head = (
        Span(f" {number} ", "key"),
        Span(left(step.name, _NAME), "key"),
        Span(left(mark, _MARK), _STYLES[mark]),
    )
    texts = list(step.texts)
    if width < 100:
        # On a narrow screen the facts stand below the step's name.
        lines.append(line(*head, subject=subject))
    else:
        first = wrapped(texts.pop(0), max(width - indent, 20)) if texts else []
        lines.append(line(*head, *(first[0].spans if first else ()), subject=subject))
        lines += [line(" " * indent, *row.spans) for row in first[1:]]
    for text in texts:
        lines += wrapped(text, width, lead=" " * indent)
    for each in findings[:_MOST_FINDINGS]:
        style = _SEVERITIES.get(each.severity, "dim")
        text = f"{safe(each.code, 8)} {safe(each.message, 400)}"
        for row in wrapped(text, width, style, lead=" " * (indent - 2) + "! "):
            lines.append(Line(row.spans, each.subject))
    if len(findings) > _MOST_FINDINGS:
        more = f"{' ' * indent}… {len(findings) - _MOST_FINDINGS} more findings"
        lines.append(line((more, "dim")))
    return lines


def _subject(tensor: TensorRecord) -> Subject:
    return Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id)
