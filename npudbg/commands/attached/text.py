"""Lines of text about an attached program's calls and findings (all names untrusted)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.backends.attached_events import AttachedCall, Value
    from npudbg.session.records import Finding, Verdict


def call_line(call: AttachedCall, stage: str) -> str:
    """Return one line for a call: who calls what with which tensors."""
    model = safe(call.session.model.name, 40) if call.session else "?"
    values = ", ".join(value_text(v) for v in call.values[:8])
    more = f", … {len(call.values) - 8} more" if len(call.values) > 8 else ""
    head = f"call {call.number} (pid {call.program.pid}) {model} {safe(call.api, 24)}"
    if stage == "before":
        return f"{head}: {values}{more}"
    took = f" in {call.elapsed_ns / 1e6:.3f} ms (measured)"
    if call.error:
        return f"{head}{took}: raised {safe(call.error)}"
    return f"{head}{took} -> {values}{more}"


def value_text(value: Value) -> str:
    """Return ``x <f4 [1,3,224,224] at 0x7f…`` of a tensor, or what else the value is."""
    if value.kind != "tensor":
        return f"{safe(value.name, 40)} {safe(value.kind, 16)} {safe(value.text, 40)}"
    facts = value.facts
    shape = ",".join(str(n) for n in facts["shape"])
    text = f"{safe(value.name, 40)} {safe(facts['dtype'], 16)} [{shape}] at 0x{facts['address']:x}"
    if not facts["c_contiguous"]:
        text += f" strides ({','.join(str(n) for n in facts['strides'])})"
    return text


def value_lines(value: Value) -> Iterator[str]:
    """Yield all that was measured of one value."""
    yield value_text(value)
    if value.kind != "tensor":
        return
    facts = value.facts
    yield f"  strides {tuple(facts['strides'])} bytes, itemsize {facts['itemsize']}"
    yield f"  touches 0x{facts['low']:x}..0x{facts['high']:x}, {facts['nbytes']} bytes of values"
    yield (
        f"  base 0x{facts['base_address']:x}, {facts['base_nbytes']} bytes, "
        f"offset {facts['offset']}, owner {safe(facts['owner'], 60)}"
    )
    flags = [k for k in ("c_contiguous", "f_contiguous", "writeable", "aligned") if facts.get(k)]
    yield f"  flags {' '.join(flags) or 'none'}; overlap {facts['overlap']}"
    if not facts["c_contiguous"]:
        by = facts["transposed_by"]
        yield f"  {'transpose of a packed array by ' + str(tuple(by)) if by else 'no permutation'}"
        yield f"  a raw copy would take {facts['wrong']} of {facts['size']} elements wrongly"
    if value.raw is not None and value.raw.unknown:
        yield f"  a raw copy would read {value.raw.unknown} bytes outside the base buffer"


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line a finding, and its fix below it."""
    for each in findings:
        yield (
            f"  layer {each.layer} {each.severity} {safe(each.code, 16)} "
            f"{safe(each.message, 400)} [{each.origin}]"
        )
        if each.fix:
            yield f"    fix: {safe(each.fix, 300)}"


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the verdict, its chain and what was ruled out."""
    yield f"verdict: layer {verdict.layer}: {safe(verdict.summary, 400)}"
    for link in verdict.chain:
        yield f"  {safe(link, 300)}"
    for line in verdict.ruled_out:
        yield f"  ruled out: {safe(line, 300)}"
