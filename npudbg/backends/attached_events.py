"""Events of an attached program, checked: what the agent claims is not believed.

A frame is turned into typed records; whatever does not add up is a
:class:`~npudbg.agent.protocol.ProtocolError`, never an array over bytes that
are not there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.agent import layout
from npudbg.agent.memory import RawCopy, raw_from
from npudbg.agent.protocol import Message, ProtocolError
from npudbg.session.dtypes import numpy_dtype
from npudbg.session.records import ModelRecord, ValueContract

MAX_ARRAY_BYTES = 1 << 30
"""A stride of 0 can claim any size over a few bytes: larger arrays are not built."""

_MAX_RANK = 64

_DTYPES = {
    "float": "<f4",
    "double": "<f8",
    "float16": "<f2",
    "bfloat16": "bfloat16",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bool": "|b1",
    "string": "string",
    "complex64": "<c8",
    "complex128": "<c16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "int4": "int4",
    "uint4": "uint4",
}
_KINDS = {
    "seq": "sequence",
    "map": "map",
    "optional": "optional",
    "sparse_tensor": "sparse",
    "tensor": "tensor",
}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The process that an agent runs in, as its hello says (untrusted text)."""

    pid: int = 0
    ppid: int = 0
    argv: tuple[str, ...] = ()
    executable: str = ""
    cwd: str = ""
    python: str = ""
    numpy: str = ""
    onnxruntime: str = ""


class _Facts(msgspec.Struct, kw_only=True):
    """The facts of a value, as ``agent.describe.describe`` and ``agent.snapshot`` give them."""

    name: str
    kind: str
    shape: list[int] = []
    dtype: str = ""
    itemsize: int = 0
    strides: list[int] = []
    nbytes: int = 0
    size: int = 0
    address: int = 0
    low: int = 0
    high: int = 0
    base_address: int = 0
    base_nbytes: int = 0
    offset: int = 0
    owner: str = "self"
    outside: int = 0
    c_contiguous: bool = True
    f_contiguous: bool = False
    writeable: bool = True
    aligned: bool = True
    overlap: bool | None = False
    permutation: list[int] | None = None
    transposed_by: list[int] | None = None
    wrong: int | None = 0
    window: list[int] | None = None
    payload: int | None = None
    type: str = ""
    value: str = ""


class _SessionEvent(msgspec.Struct, kw_only=True):
    session: int
    path: str = ""
    model_bytes: int | None = None
    providers: list[str] = []
    inputs: list[_Contract] = []
    outputs: list[_Contract] = []


class _Contract(msgspec.Struct):
    name: str
    type: str = ""
    shape: list[int | str | None] | None = None


class _CallEvent(msgspec.Struct, kw_only=True):
    session: int
    call: int
    api: str = "run"
    thread: int = 0
    time: float = 0.0
    elapsed_ns: int = 0
    error: str = ""
    feeds: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []


@dataclass(frozen=True)
class Value:
    """One input or output of a call.

    Attributes:
        name: The model's name of it.
        kind: ``tensor``, or what else it is.
        facts: What ``agent.describe.describe`` measured in the program.
        data: Bytes of the base buffer from ``window[0]`` on, or None if not sent.
        start: Offset of element 0 in ``data``.
        text: Short text of a value that is no tensor.
    """

    name: str
    kind: str
    facts: dict[str, Any]
    data: memoryview | None = field(default=None, repr=False)
    start: int = 0
    text: str = ""

    @cached_property
    def array(self) -> npt.NDArray[Any] | None:
        """The values with the program's own strides and byte order (read-only), or None."""
        if self.data is None:
            return None
        dtype = numpy_dtype(self.facts["dtype"])
        array: npt.NDArray[Any] = np.ndarray(
            tuple(self.facts["shape"]), dtype, self.data, self.start, tuple(self.facts["strides"])
        )
        return array

    @cached_property
    def raw(self) -> RawCopy | None:
        """What a raw copy from element 0 reads, or None where the bytes are not at hand."""
        if self.data is None:
            return None
        return raw_from(self.data, self.start, int(self.facts["nbytes"]))


@dataclass(frozen=True)
class AttachedSession:
    """An ``InferenceSession`` of the program.

    Attributes:
        number: Counted from 1 within its process.
        program: Where it lives.
        model: What the runtime says of the model.
        providers: Execution providers in order of preference.
        data: The model itself where the program passed it as bytes, else None.
    """

    number: int
    program: Program
    model: ModelRecord
    providers: tuple[str, ...]
    data: memoryview | None = field(default=None, repr=False)


@dataclass(frozen=True)
class AttachedCall:
    """One call of a session, before it is made or after.

    Attributes:
        number: Counted from 1 within its process.
        program: The calling process.
        session: The session called, None when the agent never told of it.
        api: The method called.
        values: The feeds before the call, the outputs after it.
        started: Wall-clock seconds when the event was sent.
        elapsed_ns: What the call took (after it), measured in the program.
        error: What it raised, or ``""``.
        thread: The calling thread.
    """

    number: int
    program: Program
    session: AttachedSession | None
    api: str
    values: tuple[Value, ...]
    started: float = 0.0
    elapsed_ns: int = 0
    error: str = ""
    thread: int = 0


def parse_program(message: Message, pid: int) -> Program:
    """Return the program of a hello; the pid is the kernel's word, not the agent's."""
    program: Program = _convert({**message.header, "pid": pid}, Program)
    return program


def parse_session(message: Message, program: Program) -> AttachedSession:
    """Return the session of a ``session`` event."""
    event = _convert(message.header, _SessionEvent)
    data = message.payloads[0] if message.payloads else None
    model = ModelRecord(
        name=event.path.rpartition("/")[2] or "model passed as bytes",
        path=event.path,
        nbytes=event.model_bytes or 0,
        inputs=tuple(_contract(v) for v in event.inputs),
        outputs=tuple(_contract(v) for v in event.outputs),
    )
    return AttachedSession(event.session, program, model, tuple(event.providers), data)


def parse_call(
    message: Message, program: Program, sessions: dict[int, AttachedSession]
) -> AttachedCall:
    """Return the call of a ``before-call`` or ``after-call`` event."""
    event = _convert(message.header, _CallEvent)
    given = event.feeds if message.type == "before-call" else event.outputs
    return AttachedCall(
        number=event.call,
        program=program,
        session=sessions.get(event.session),
        api=event.api,
        values=tuple(_value(facts, message.payloads) for facts in given),
        started=event.time,
        elapsed_ns=max(event.elapsed_ns, 0),
        error=event.error,
        thread=event.thread,
    )


def contract_dtype(runtime_type: str) -> tuple[str, str]:
    """Return the record's dtype and kind of ONNX Runtime's type text.

    ``tensor(float)`` is ``("<f4", "tensor")``, ``seq(tensor(float))`` is
    ``("sequence", "sequence")``.
    """
    head, _, rest = runtime_type.partition("(")
    kind = _KINDS.get(head, head)
    if kind in ("tensor", "sparse"):
        inner = rest.rstrip(")")
        return _DTYPES.get(inner, inner), kind
    return kind, kind


def _contract(event: _Contract) -> ValueContract:
    dtype, kind = contract_dtype(event.type)
    shape = None if event.shape is None else tuple(event.shape)
    return ValueContract(name=event.name, dtype=dtype, shape=shape, kind=kind)


def _value(given: dict[str, Any], payloads: tuple[memoryview, ...]) -> Value:
    known: _Facts = _convert(given, _Facts)
    facts = msgspec.structs.asdict(known)
    if known.kind != "tensor":
        return Value(known.name, known.kind, facts, text=known.value)
    data, start = None, 0
    _check_numbers(known)
    if known.window is not None and known.payload is not None:
        if not 0 <= known.payload < len(payloads) or len(known.window) != 2:
            raise ProtocolError(f"{known.name!r}: its bytes are not in the frame")
        data = payloads[known.payload]
        if known.window[1] - known.window[0] != len(data):
            raise ProtocolError(f"{known.name!r}: its window does not fit its bytes")
        start = known.offset - known.window[0]
        low, high = layout.byte_range(known.shape, known.strides, known.itemsize)
        if start + low < 0 or start + high > len(data):
            raise ProtocolError(f"{known.name!r}: its strides lead outside its bytes")
        if known.nbytes > MAX_ARRAY_BYTES or not _is_element_type(known):
            data = None
    return Value(known.name, "tensor", facts, data, start)


def _check_numbers(known: _Facts) -> None:
    rank = len(known.shape)
    if rank != len(known.strides) or rank > _MAX_RANK:
        raise ProtocolError(f"{known.name!r}: {rank} axes, {len(known.strides)} strides")
    sizes = (*known.shape, known.nbytes, known.itemsize, known.size, known.base_nbytes)
    small = all(0 <= n < 1 << 62 for n in sizes)
    signed = all(abs(n) < 1 << 62 for n in (*known.strides, known.offset))
    places = (known.address, known.low, known.high, known.base_address)
    signed = signed and all(0 <= n < 1 << 63 for n in places)
    size = prod(known.shape)
    if not small or not signed or size != known.size or size * known.itemsize != known.nbytes:
        raise ProtocolError(f"{known.name!r}: its sizes do not add up")


def _is_element_type(known: _Facts) -> bool:
    try:
        return numpy_dtype(known.dtype).itemsize == known.itemsize
    except TypeError:
        return False


def _convert(given: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(_clean(given), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ProtocolError(f"event is not as expected: {error}") from None


def _clean(given: Any) -> Any:
    """Return JSON values without lone surrogates (a file name may hold them): not storable."""
    if isinstance(given, str):
        return given.encode("utf-8", "replace").decode()
    if isinstance(given, list):
        return [_clean(v) for v in given]
    if isinstance(given, dict):
        return {_clean(k): _clean(v) for k, v in given.items()}
    return given
