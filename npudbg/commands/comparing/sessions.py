"""Two sessions laid side by side: settings, commands, tensors, figures, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from npudbg.session.comparison import Comparison, Pair, TensorDifference

if TYPE_CHECKING:
    from npudbg.commands.comparing.tensors import Match
    from npudbg.session.reader import Session
    from npudbg.session.records import Finding

MOST_TENSORS = 32
"""Most differing tensors that are described."""
_OF_THE_CALL = frozenset(
    {"save", "json", "headless", "plain", "golden", "model", "inputs", "input"}
)
"""Options that say where things lie and what is shown, not how the device runs."""


def compare(a: Session, b: Session) -> Comparison:
    """Return what differs between two recorded runs.

    Raises:
        SessionError: One of them is damaged.
    """
    from npudbg.commands.comparing.commands import first_difference
    from npudbg.commands.comparing.tensors import matches, reason, with_metrics

    found: list[tuple[Match, TensorDifference]] = []
    everything = matches(a, b)
    for match in everything:
        difference = reason(a, b, match)
        if difference is not None:
            found.append((match, difference))
    first = [with_metrics(a, b, m, d) for m, d in found[:MOST_TENSORS]]
    names = _outputs(a) | _outputs(b)
    outputs = [with_metrics(a, b, m, d) for m, d in found if m.name in names]
    command = first_difference(a, b, [m for m, d in found if d.reason in ("values", "dtype")])
    counters, units = _counters(a, b)
    gained, lost = _findings(a.findings, b.findings)
    status = Pair(name="status", a=a.status, b=b.status)
    equal = (
        command is None
        and not found
        and status.a == status.b
        and not (gained or lost)
        and all(c.a == c.b for c in counters)
    )
    return Comparison(
        a=str(a.path),
        b=str(b.path),
        equal=equal,
        settings=tuple(_settings(a, b)),
        command=command,
        commands=Pair(name="commands", a=a.n_commands, b=b.n_commands),
        cycles=Pair(name="cycles", a=a.n_cycles, b=b.n_cycles),
        status=status,
        tensors=tuple(first),
        differing=len(found),
        compared=sum(m.a is not None and m.b is not None for m in everything),
        outputs=tuple(outputs),
        counters=tuple(counters),
        units=units,
        gained=tuple(gained),
        lost=tuple(lost),
        verdicts=Pair(name="verdict", a=_verdict(a), b=_verdict(b)),
        origins=(_origin(a), _origin(b)),
    )


def _outputs(session: Session) -> set[str]:
    model = session.meta.model
    named = set() if model is None else {v.name for v in model.outputs}
    return named | {t.name for t in session.tensors if t.role == "output"}


def _origin(session: Session) -> Any:
    return "simulated" if session.meta.backend == "simulated" else "measured"


def _verdict(session: Session) -> str | None:
    return None if session.verdict is None else session.verdict.code


def _settings(a: Session, b: Session) -> Iterable[Pair]:
    one, other = _setting(a), _setting(b)
    for name in {**one, **other}:
        if name == "fused" and not (name in one and name in other):
            continue  # a session of an npudbg that did not keep it
        if one.get(name) != other.get(name):
            yield Pair(name=name, a=one.get(name), b=other.get(name))


def _setting(session: Session) -> dict[str, Any]:
    """Return how a run was made, by name."""
    from npudbg.session.rerun import read

    meta, way = session.meta, read(session)
    found: dict[str, Any] = {
        "tool": f"{meta.tool} {meta.version}".strip(),
        "backend": meta.backend,
        "target": meta.target,
        "profile": meta.target_toml,
        "precision": meta.precision,
        "clock": meta.clock_hz,
    }
    if meta.model is not None:
        found["model"] = meta.model.sha256 or meta.model.name
    found |= {f"--{k}": v for k, v in meta.options.items() if k not in _OF_THE_CALL}
    found |= {
        f"address of {t.name}": f"{t.address:#x}"
        for t in session.tensors
        if t.role == "input" and t.address_origin == "declared" and t.address is not None
    }
    if way is not None:
        found |= {
            "fused": way.fused,
            "accumulate": way.accumulate,
            "faults": list(way.faults),
            "pokes": [_poke(p) for p in way.pokes],
            "kept in the model's type": list(way.raised),
            "replaced": sorted(way.replaced),
        }
        for name in ("--fault", "--cast", "--set", "--host_address"):
            found.pop(name, None)
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _poke(poke: Any) -> str:
    data = poke.data[:16].hex(" ") + (" …" if len(poke.data) > 16 else "")
    return f"{poke.space}:{poke.address:#x} {'^' if poke.flip else ''}= {data} after {poke.after}"


def _counters(a: Session, b: Session) -> tuple[list[Pair], dict[str, str]]:
    one, other = ({c.name: c for c in s.counters} for s in (a, b))
    names: Mapping[str, Any] = {**one, **other}
    pairs = [
        Pair(
            name=name,
            a=one[name].value if name in one else None,
            b=other[name].value if name in other else None,
        )
        for name in names
    ]
    return pairs, {name: counter.unit for name, counter in names.items()}


def _findings(a: list[Finding], b: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings gained and lost: by code and by what they point at."""
    return _beyond(b, a), _beyond(a, b)


def _beyond(some: list[Finding], others: list[Finding]) -> list[Finding]:
    there = Counter(_key(f) for f in others)
    found = []
    for each in some:
        if there[_key(each)]:
            there[_key(each)] -= 1
        else:
            found.append(each)
    return found


def _key(finding: Finding) -> tuple[Any, ...]:
    s = finding.subject
    return finding.code, finding.severity, s.kind, s.name, s.node, s.address, s.space
