"""The hooks on ONNX Runtime's sessions: before a call, after it, and nothing else.

Each hook is guarded: whatever fails in the agent, the program's own call is made
with the program's own arguments and its result returned.  The one exception that
leaves a hook is :class:`AbortedByDebugger`, and only when the user said so.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from .client import Channel, Client
from .snapshot import pointed, snapshot

MAX_INLINE_MODEL = 256 << 20
"""Largest model passed as bytes that is sent to the debugger."""


class AbortedByDebugger(RuntimeError):  # noqa: N818 - what a user reads in his traceback
    """The call was not made (or its result withheld) because the user aborted it in npudbg."""


class Hooks:
    """What the hooks remember in one process."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._calls = itertools.count(1)
        self._ids = itertools.count(1)
        self._sessions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._bound: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._inside = threading.local()

    # -- events --------------------------------------------------------------------------

    def created(self, session: Any) -> None:
        """Tell of a new session."""
        self._guarded(lambda channel: self._tell(channel, session))

    def before(self, session: Any, api: str, feeds: Iterable[tuple[str, Any]]) -> int | None:
        """Pause before a call; return its number, or None where nobody listens."""

        def send(channel: Channel) -> tuple[int, dict[str, Any] | None]:
            number = next(self._calls)
            self._tell(channel, session)
            values, payloads = _snapshots(feeds, channel.max_bytes)
            header = self._header("before-call", session, number, api)
            return number, self.client.ask({**header, "feeds": values}, payloads)

        if self.client.channel is None:
            self.client.wait()
        got = self._guarded(send)
        if got is None:
            return None
        self._obey(got[1], got[0], "before it was made")
        return int(got[0])

    def after(
        self,
        session: Any,
        api: str,
        number: int | None,
        outputs: Iterable[tuple[str, Any]],
        *,
        started: int,
        error: BaseException | None = None,
    ) -> None:
        """Show the results of a call."""
        if number is None:
            return
        elapsed = time.perf_counter_ns() - started

        def send(channel: Channel) -> dict[str, Any] | None:
            values, payloads = _snapshots(outputs, channel.max_bytes)
            header = self._header("after-call", session, number, api)
            header["elapsed_ns"] = elapsed
            if error is not None:
                header["error"] = f"{type(error).__name__}: {error}"[:2000]
            return self.client.ask({**header, "outputs": values}, payloads)

        answer = self._guarded(send)
        if error is None:
            self._obey(answer, number, "after it returned")

    def bind(self, binding: Any, name: str, value: Any) -> None:
        """Remember what an IOBinding was given for an input."""
        try:
            self._bound.setdefault(binding, {})[str(name)] = value
        except Exception:
            return

    def bound(self, binding: Any) -> list[tuple[str, Any]]:
        """Return what an IOBinding's inputs were given."""
        try:
            return list(self._bound.get(binding, {}).items())
        except Exception:
            return []

    # -- inside --------------------------------------------------------------------------

    def _guarded(self, send: Callable[[Channel], Any]) -> Any:
        if getattr(self._inside, "busy", False):
            return None  # a signal handler's call in the middle of ours
        self._inside.busy = True
        try:
            with self.client.lock:
                channel = self.client.channel
                return None if channel is None else send(channel)
        except Exception:
            return None
        finally:
            self._inside.busy = False

    def _tell(self, channel: Channel, session: Any) -> None:
        number = self._sessions.setdefault(session, 0) or next(self._ids)
        self._sessions[session] = number
        if number in channel.sessions:
            return
        channel.sessions.add(number)
        facts, payloads = _session_facts(session)
        self.client.ask({"type": "session", "session": number, **facts}, payloads)

    def _header(self, kind: str, session: Any, number: int, api: str) -> dict[str, Any]:
        return {
            "type": kind,
            "session": self._sessions.get(session, 0),
            "call": number,
            "api": api,
            "thread": threading.get_ident(),
            "time": time.time(),
        }

    @staticmethod
    def _obey(answer: dict[str, Any] | None, number: int, when: str) -> None:
        if answer is not None and answer.get("type") == "abort":
            raise AbortedByDebugger(f"call {number} was aborted in npudbg {when}")


def install(module: ModuleType) -> Hooks | None:
    """Hook the sessions of ONNX Runtime's module; once."""
    session = module.__dict__.get("Session")
    inference = module.__dict__.get("InferenceSession")
    if session is None or inference is None or hasattr(session, "_npudbg_hooks"):
        return None
    hooks = Hooks(Client())
    session._npudbg_hooks = hooks
    _wrap_init(inference, hooks)
    for name in ("run", "run_with_ort_values"):
        _wrap_run(session, name, hooks)
    _wrap_async(session, hooks)
    _wrap_iobinding(session, module.__dict__.get("IOBinding"), hooks)
    return hooks


def _wrap_init(cls: Any, hooks: Hooks) -> None:
    original = cls.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        hooks.created(self)

    cls.__init__ = __init__


def _wrap_run(cls: Any, name: str, hooks: Hooks) -> None:
    original = cls.__dict__.get(name)
    if original is None:
        return

    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        number = hooks.before(self, name, _feeds(args, kwargs))
        started = time.perf_counter_ns()
        try:
            outputs = original(self, *args, **kwargs)
        except BaseException as error:
            hooks.after(self, name, number, (), started=started, error=error)
            raise
        hooks.after(self, name, number, _Named(self, args, kwargs, outputs), started=started)
        return outputs

    setattr(cls, name, run)


def _wrap_async(cls: Any, hooks: Hooks) -> None:
    original = cls.__dict__.get("run_async")
    if original is None:
        return

    @functools.wraps(original)
    def run_async(
        self: Any, output_names: Any, input_feed: Any, callback: Any, *args: Any, **kwargs: Any
    ) -> Any:
        number = hooks.before(self, "run_async", _feeds((output_names, input_feed), {}))
        started = time.perf_counter_ns()

        def done(results: Any, user_data: Any, error: str) -> Any:
            named = _Named(self, (output_names,), {}, results)
            failure = RuntimeError(error) if error else None
            try:
                hooks.after(self, "run_async", number, named, started=started, error=failure)
            except AbortedByDebugger as aborted:
                # Raised here it would vanish in the runtime's thread.
                return callback([], user_data, str(aborted))
            return callback(results, user_data, error)

        return original(self, output_names, input_feed, done, *args, **kwargs)

    cls.run_async = run_async


def _wrap_iobinding(cls: Any, binding: Any, hooks: Hooks) -> None:
    original = cls.__dict__.get("run_with_iobinding")
    if original is None or binding is None:
        return
    _wrap_bindings(binding, hooks)

    @functools.wraps(original)
    def run_with_iobinding(self: Any, iobinding: Any, *args: Any, **kwargs: Any) -> Any:
        api = "run_with_iobinding"
        number = hooks.before(self, api, hooks.bound(iobinding))
        started = time.perf_counter_ns()
        try:
            result = original(self, iobinding, *args, **kwargs)
        except BaseException as error:
            hooks.after(self, api, number, (), started=started, error=error)
            raise
        hooks.after(self, api, number, _BoundOutputs(self, iobinding), started=started)
        return result

    cls.run_with_iobinding = run_with_iobinding


def _wrap_bindings(binding: Any, hooks: Hooks) -> None:
    """Remember what is bound to an input, at the time it is bound."""

    def wrap(name: str, value: Callable[..., Any]) -> None:
        original = binding.__dict__.get(name)
        if original is None:
            return

        @functools.wraps(original)
        def bind(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            try:
                given, made = value(*args, **kwargs)
            except Exception:
                return result
            if made is not None:
                hooks.bind(self, given, made)
            return result

        setattr(binding, name, bind)

    wrap("bind_cpu_input", lambda name, arr_on_cpu: (name, arr_on_cpu))
    wrap("bind_ortvalue_input", lambda name, ortvalue: (name, ortvalue))
    wrap(
        "bind_input",
        lambda name, device_type, device_id, element_type, shape, buffer_ptr: (
            name,
            pointed(str(device_type), element_type, shape, buffer_ptr, "pointer"),
        ),
    )


class _Named:
    """Names and results of a call, put together only where somebody listens."""

    def __init__(self, session: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        self._parts = session, args, kwargs, outputs

    def __iter__(self) -> Any:
        session, args, kwargs, outputs = self._parts
        names = args[0] if args else kwargs.get("output_names")
        names = list(names) if names else [o.name for o in session.get_outputs()]
        return iter(list(zip(names, outputs, strict=False)))


class _BoundOutputs:
    """The outputs of an IOBinding, fetched only where somebody listens."""

    def __init__(self, session: Any, binding: Any) -> None:
        self._parts = session, binding

    def __iter__(self) -> Any:
        session, binding = self._parts
        names = [o.name for o in session.get_outputs()]
        return iter(list(zip(names, binding.get_outputs(), strict=False)))


def _feeds(args: Any, kwargs: Any) -> list[tuple[str, Any]]:
    for key in ("input_feed", "input_dict_ort_values"):
        if key in kwargs:
            given = kwargs[key]
            break
    else:
        given = args[1] if len(args) > 1 else {}
    return list(dict.items(given)) if isinstance(given, dict) else []


def _snapshots(
    values: Iterable[tuple[str, Any]], limit: int
) -> tuple[list[dict[str, Any]], list[memoryview]]:
    facts: list[dict[str, Any]] = []
    payloads: list[memoryview] = []
    left = limit
    for name, value in values:
        try:
            fact, data = snapshot(str(name), value, left)
        except Exception as error:
            fact, data = {"name": str(name), "kind": "unknown", "value": str(error)[:200]}, None
        fact["payload"] = None
        if data is not None:
            left -= len(data)
            fact["payload"] = len(payloads)
            payloads.append(data)
        facts.append(fact)
    return facts, payloads


def _session_facts(session: Any) -> tuple[dict[str, Any], list[memoryview]]:
    path = getattr(session, "_model_path", None)
    data = getattr(session, "_model_bytes", None)
    inline = isinstance(data, bytes) and len(data) <= MAX_INLINE_MODEL
    facts = {
        "path": os.path.abspath(path) if path else "",  # noqa: PTH100 - a bytes path is one too
        "model_bytes": len(data) if isinstance(data, bytes) else None,
        "providers": [str(p) for p in session.get_providers()],
        "inputs": [_contract(v) for v in session.get_inputs()],
        "outputs": [_contract(v) for v in session.get_outputs()],
    }
    return facts, [memoryview(data)] if inline and data is not None else []


def _contract(value: Any) -> dict[str, Any]:
    shape = value.shape
    return {
        "name": str(value.name),
        "type": str(value.type),
        "shape": None if shape is None else [a if isinstance(a, int) else str(a) for a in shape],
    }
