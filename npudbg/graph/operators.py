"""Which operators exist: ONNX's own by opset, ONNX Runtime's, and the model's functions."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from npudbg.graph.bodies import bodies, label
from npudbg.session.errors import UserError
from npudbg.session.text import safe

ONNX_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training")
RUNTIME_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
CUSTOM_DOMAINS = (
    "ai.onnx.contrib",
    "com.microsoft.dml",
    "com.microsoft.experimental",
    "com.microsoft.extensions",
    "com.microsoft.mlfeaturizers",
    "org.pytorch.aten",
)
"""Domains of well-known libraries whose operators cannot be looked up here."""

MAX_EXPANDED = 1_000_000
"""Nodes that the model's functions may come to when expanded."""

Key = tuple[str, str]


def plain_domain(domain: str) -> str:
    """Return a domain with ONNX's two spellings of its own made one."""
    return "" if domain == "ai.onnx" else domain


def read_opsets(imports: Iterable[Any]) -> dict[str, int]:
    """Return the opset version per domain.

    Raises:
        UserError: A version that the installed onnx does not know.
    """
    from onnx.defs import C as native  # noqa: N811
    from onnx.defs import onnx_opset_version

    opset: dict[str, int] = {}
    for entry in imports:
        domain = plain_domain(entry.domain)
        opset[domain] = max(int(entry.version), opset.get(domain, 0))
    known = {**{d: r[1] for d, r in native.schema_version_map().items()}, "": onnx_opset_version()}
    for domain, version in opset.items():
        if domain in ONNX_DOMAINS and domain in known and version > known[domain]:
            raise UserError(
                f"model: opset {version} of {domain or 'ai.onnx'} is newer than the installed onnx "
                f"knows ({known[domain]}); update onnx, or export with opset {known[domain]}"
            )
        if version < 1 and domain in ONNX_DOMAINS:
            raise UserError(
                f"model: opset {version} of {domain or 'ai.onnx'} does not exist; export it again"
            )
    return opset


class Operators:
    """Looks operators up for one model."""

    def __init__(self, opset: Mapping[str, int], functions: Iterable[Any]) -> None:
        """Take the model's opsets and its own FunctionProtos.

        Raises:
            UserError: The functions call each other in a circle or explode.
        """
        self._opset = opset
        self._functions = {(plain_domain(f.domain), f.name): f for f in functions}
        self._since: dict[Key, int] = {}
        self._check_functions()

    def since(self, node: Any, index: int) -> int:
        """Return the version of a NodeProto's operator in force; 0 where unknown.

        Raises:
            UserError: Nobody known defines that operator.
        """
        key = (plain_domain(node.domain), node.op_type)
        found = self._since.get(key)
        if found is None:
            found = self._since[key] = self._look_up(key, label(node, index))
        return found

    def check(self, nodes: Iterable[Any]) -> None:
        """Check every node of a body or a function, bodies within it included.

        Raises:
            UserError: As :meth:`since`.
        """
        for index, node in enumerate(nodes):
            self.since(node, index)
            for body in bodies(node):
                self.check(body.node)

    def _look_up(self, key: Key, node: str) -> int:
        domain, op_type = key
        if key in self._functions or domain in CUSTOM_DOMAINS:
            return 0
        shown = f"node {node!r}: operator {safe(op_type)!r}"
        if domain in ONNX_DOMAINS:
            return self._onnx_version(domain, op_type, shown)
        if domain in RUNTIME_DOMAINS:
            known = runtime_operators()
            if known and key not in known:
                names = [n for d, n in known if d == domain]
                raise UserError(f"{shown} is not one of {domain}{_closest(op_type, names)}")
            return 0
        raise UserError(
            f"{shown} is of domain {safe(domain)!r}, which neither ONNX, ONNX Runtime nor a "
            "function in the model defines; export the model without custom operators"
        )

    def _onnx_version(self, domain: str, op_type: str, shown: str) -> int:
        from onnx import defs

        version = self._opset.get(domain)
        if version is None:
            version = defs.onnx_opset_version() if domain == "" else 1 << 30
        try:
            return int(defs.get_schema(op_type, version, domain).since_version)
        except defs.SchemaError:
            pass
        title = domain or "ai.onnx"
        if defs.has(op_type, domain):
            first = min(
                s.since_version for s in _history() if (s.domain, s.name) == (domain, op_type)
            )
            raise UserError(
                f"{shown} exists only since opset {first} of {title} and the model declares "
                f"{version}; export it with opset {first} or newer"
            )
        # ONNX Runtime keeps some operators of early files that ONNX has dropped.
        if (domain, op_type) in runtime_operators():
            return 0
        names = {s.name for s in defs.get_all_schemas() if s.domain == domain}
        raise UserError(f"{shown} does not exist in {title}{_closest(op_type, names)}")

    def _check_functions(self) -> None:
        sizes: dict[Key, int] = {}
        # Depth first with a stack of its own: a chain of calls may be long.
        for root in self._functions:
            stack: list[tuple[Key, bool]] = [(root, False)]
            open_: dict[Key, None] = {}
            while stack:
                key, done = stack.pop()
                calls = [k for k in _calls(self._functions[key].node) if k in self._functions]
                if done:
                    open_.pop(key)
                    own = sum(1 for _ in _calls(self._functions[key].node))
                    sizes[key] = own + sum(sizes[k] for k in calls)
                    if sizes[key] > MAX_EXPANDED:
                        raise UserError(
                            f"function {safe(key[1])!r} of the model expands to "
                            f"{sizes[key]:,} nodes; at most {MAX_EXPANDED:,} are accepted"
                        )
                elif key in open_:
                    raise UserError(
                        f"function {safe(key[1])!r} of the model calls itself "
                        f"({' -> '.join(safe(k[1], 40) for k in [*open_, key][-6:])})"
                    )
                elif key not in sizes:
                    open_[key] = None
                    stack.append((key, True))
                    stack.extend((k, False) for k in dict.fromkeys(calls) if k not in sizes)


def _calls(nodes: Iterable[Any]) -> Iterable[Key]:
    for node in nodes:
        yield plain_domain(node.domain), node.op_type
        for body in bodies(node):
            yield from _calls(body.node)


@functools.cache
def _history() -> list[Any]:
    from onnx import defs

    return list(defs.get_all_schemas_with_history())


@functools.cache
def runtime_operators() -> frozenset[Key]:
    """Return every operator that the installed ONNX Runtime defines; empty if it cannot say."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        return frozenset((s.domain, s.name) for s in state.get_all_operator_schema())
    except (ImportError, AttributeError, RuntimeError):
        return frozenset()


def _closest(name: str, names: Iterable[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"; did the exporter mean {found[0]!r}?" if found else ""
