"""Changes to a recorded run, in words."""

from __future__ import annotations

from npudbg.session.rerun import Changes
from npudbg.session.text import safe

_SHOWN_BYTES = 16


def words(changes: Changes) -> list[str]:
    """Return one line for each change, as ``set`` takes it."""
    found = [
        f"{p.space}:{p.address:#010x} {'^' if p.flip else ''}= "
        f"{safe(p.data[:_SHOWN_BYTES].hex(' '), 60)}"
        f"{' …' if len(p.data) > _SHOWN_BYTES else ''} after command {p.after}"
        for p in changes.pokes
    ]
    found += [f"tensor {safe(name, 60)} = values of a file" for name in changes.replace]
    found += [f"precision {safe(name, 60)} fp32" for name in sorted(changes.raised)]
    found += [f"fault {safe(spec, 100)}" for spec in changes.faults]
    found += [f"nofault {safe(spec, 100)}" for spec in changes.without]
    return found
