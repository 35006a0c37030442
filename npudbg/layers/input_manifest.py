"""The board's runtime, as its manifest states it: argument types and versions that must agree.

Tables and keys that are read: ``runtime`` (``api`` = ``board`` or ``toolkit``,
``sdk_version``, ``arch``, any ``…_version``), ``cache`` (any ``…_version``),
``context`` (``sdk_version``, ``arch``), and ``data_format``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.records import Finding, Subject
from npudbg.session.text import safe

_SUBJECT = Subject(kind="file", name="manifest")
_PART = re.compile(r"\d{1,9}")


@rule(2, "I281")
def data_format(case: Case) -> Iterator[Finding]:
    """A list where the board's runtime takes one string."""
    value = case.manifest.get("data_format")
    runtime = _table(case.manifest, "runtime")
    if value is None or isinstance(value, str) or runtime.get("api") == "toolkit":
        return
    kind = type(value).__name__
    first = value[0] if isinstance(value, list) and value else "nhwc"
    yield finding(
        "I281",
        _SUBJECT,
        f"manifest: data_format must be one string for this runtime, got {kind} "
        f"({safe(value, 60)})",
        evidence={"key": "data_format", "expected": "str", "given": kind},
        fix=f'data_format = "{safe(first, 16)}"',
        origin="declared",
    )


@rule(2, "I282")
def compiled_cache(case: Case) -> Iterator[Finding]:
    """A cache of compiled models from another version than the runtime's."""
    cache, runtime = _table(case.manifest, "cache"), _table(case.manifest, "runtime")
    keys = [k for k in cache if str(k).endswith("version") and k in runtime]
    differ = {k: (str(cache[k]), str(runtime[k])) for k in keys if str(cache[k]) != str(runtime[k])}
    if not differ:
        return
    parts = ", ".join(
        f"cache {_title(k)} {safe(a, 40)}, runtime {safe(b, 40)}" for k, (a, b) in differ.items()
    )
    yield finding(
        "I282",
        _SUBJECT,
        f"{parts}: results not trustworthy",
        evidence={safe(k, 40): [safe(a, 40), safe(b, 40)] for k, (a, b) in differ.items()},
        fix="delete the cache and compile again",
        origin="declared",
    )


@rule(2, "I283")
def context_binary(case: Case) -> Iterator[Finding]:
    """A compiled context from a newer SDK, or for another core, than the runtime's."""
    context, runtime = _table(case.manifest, "context"), _table(case.manifest, "runtime")
    wrong, evidence = [], {}
    built, here = context.get("sdk_version"), runtime.get("sdk_version")
    if built is not None and here is not None and _newer(str(built), str(here)):
        wrong.append(f"SDK {safe(built, 40)} > runtime {safe(here, 40)}")
        evidence["sdk_version"] = [safe(built, 40), safe(here, 40)]
    core, have = context.get("arch"), runtime.get("arch")
    if core is not None and have is not None and str(core).lower() != str(have).lower():
        wrong.append(f"arch {safe(core, 40)} != {safe(have, 40)}")
        evidence["arch"] = [safe(core, 40), safe(have, 40)]
    if wrong:
        yield finding(
            "I283",
            _SUBJECT,
            f"context binary: {', '.join(wrong)}",
            evidence=evidence,
            fix="compile the context with the runtime's own SDK for the board's core",
            origin="declared",
        )


def _table(manifest: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = manifest.get(key)
    return value if isinstance(value, Mapping) else {}


def _newer(a: str, b: str) -> bool:
    """Tell whether version ``a`` is newer than ``b``, by its numbers."""
    left, right = ([int(n) for n in _PART.findall(v)[:8]] for v in (a, b))
    length = min(len(left), len(right))
    return left[:length] > right[:length]


def _title(key: str) -> str:
    name = key.removesuffix("version").rstrip("_")
    return (name.upper() if len(name) <= 3 else safe(name, 40)) + " version"
