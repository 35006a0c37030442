"""Starting the agent: from the environment, once, without a sound."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SOCKET = "NPUDBG_AGENT_SOCKET"
"""Path of the debugger's socket: the agent connects to it (``npudbg exec``)."""

LISTEN = "NPUDBG_LISTEN"
"""``1``: the agent listens on ``PID.sock`` in the private directory and a debugger joins."""

WAIT = "NPUDBG_WAIT"
"""Seconds that the first call waits for a debugger to join; 0 or unset: not at all."""

RUNTIME = "onnxruntime.capi.onnxruntime_inference_collection"
"""The module that defines ``InferenceSession``."""

_finders: list[_Finder] = []


def start() -> bool:
    """Arrange for ONNX Runtime to be hooked when the program imports it.

    Returns:
        Whether the environment asked for it.  Never raises.
    """
    if _finders:
        return True
    try:
        if not (os.environ.get(SOCKET) or os.environ.get(LISTEN, "0") not in ("", "0")):
            return False
        finder = _Finder(RUNTIME, _hook)
        _finders.append(finder)
        loaded = sys.modules.get(RUNTIME)
        if loaded is not None:
            _hook(loaded)
        else:
            sys.meta_path.insert(0, finder)
    except Exception:
        return False
    return True


def _hook(module: ModuleType) -> None:
    # Not before: hooks imports NumPy, which ONNX Runtime has loaded by now.
    from . import hooks

    hooks.install(module)


class _Finder(MetaPathFinder):
    """Finds one module as the others would, and calls back when it has been executed."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then
        self._busy = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = self._ask_the_others(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self._wrap(spec.loader)
            return spec
        except Exception:
            return None
        finally:
            self._busy = False

    def _ask_the_others(self, fullname: str, path: Any, target: Any) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(fullname, path, target)
            if isinstance(spec, ModuleSpec):
                return spec
        return None

    def _wrap(self, loader: Any) -> None:
        """Put the callback behind ``exec_module``; the loader keeps its type."""
        execute = loader.exec_module
        then = self._then

        def exec_module(module: ModuleType) -> None:
            execute(module)
            with suppress(Exception):  # a debugger's agent never breaks the program
                then(module)

        loader.exec_module = exec_module
