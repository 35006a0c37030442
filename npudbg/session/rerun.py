"""What it takes to do a recorded run again, and what may be changed when it is.

The model, its target and its inputs are in the record already; here is the rest.
Binary values are kept as blobs of the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from npudbg.session.dtypes import numpy_dtype
from npudbg.session.errors import SessionError
from npudbg.session.reader import Session
from npudbg.session.records import Record

KEY = "rerun"
"""Key of the session's extra value that holds a :class:`Rerun`."""


class Poke(Record, frozen=True):
    """Bytes written into device memory right after a command.

    Attributes:
        after: Command number.
        space: ``sram`` or ``ddr``.
        address: First byte.
        data: The bytes.
        flip: Exclusive-or instead of writing.
    """

    after: int
    space: Literal["sram", "ddr"]
    address: int
    data: bytes
    flip: bool = False


class Kept(Record, frozen=True):
    """An array that the session keeps beside its tensors."""

    blob: int
    dtype: str
    shape: tuple[int, ...]


class Rerun(Record, frozen=True):
    """How a run was made.

    Attributes:
        fused: Whether element-wise nodes were fused.
        dims: Sizes of open axes by symbol or ``input.AXIS``.
        preprocessing: What the model expects of each input (layout, mean, std, scale).
        manifest: Facts of the runtime on the board.
        synthesised: Inputs that npudbg made up.
        faults: Specifications of hardware faults.
        pokes: Bytes written into memory.
        raised: Nodes kept in the model's own type.
        replaced: Arrays that took the place of tensors.
        golden: What the run was compared with, if anything.
        golden_mode: How.
        atol: Absolute tolerance of that comparison.
        rtol: Relative tolerance of that comparison.
        sanitize: Whether SRAM was checked byte by byte.
        accumulate: What sums of fp16 operands ran in; None for the profile's own.
    """

    fused: bool = True
    dims: dict[str, int] = msgspec.field(default_factory=dict)
    preprocessing: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    manifest: dict[str, Any] = msgspec.field(default_factory=dict)
    synthesised: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    pokes: tuple[Poke, ...] = ()
    raised: tuple[str, ...] = ()
    replaced: dict[str, Kept] = msgspec.field(default_factory=dict)
    golden: str | None = None
    golden_mode: str = "entire"
    atol: float | None = None
    rtol: float | None = None
    sanitize: bool = False
    accumulate: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a fork does otherwise than the run it comes from.

    Attributes:
        pokes: Bytes to write into device memory.
        replace: Arrays that take the place of tensors, by name.
        raised: Nodes to keep in the model's own type.
        faults: Faults to inject, as ``--fault`` takes them.
        without: Faults of the run to leave out: a specification, a kind, or ``all``.
    """

    pokes: tuple[Poke, ...] = ()
    replace: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    raised: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def read(session: Session) -> Rerun | None:
    """Return how a session's run was made; None if the session does not say.

    Raises:
        SessionError: What it says is damaged.
    """
    value = session.extra(KEY)
    if value is None:
        return None
    try:
        return msgspec.convert(value, Rerun)
    except (msgspec.ValidationError, RecursionError) as error:
        raise SessionError(f"{session.path}: its way to run again is damaged ({error})") from None


def kept_array(session: Session, kept: Kept) -> npt.NDArray[Any]:
    """Return an array that a session keeps beside its tensors (read-only).

    Raises:
        SessionError: It is missing or damaged.
    """
    try:
        flat = np.frombuffer(session.blob(kept.blob), numpy_dtype(kept.dtype))
        found: npt.NDArray[Any] = flat.reshape(kept.shape)
    except (ValueError, TypeError) as error:
        raise SessionError(f"{session.path}: a kept array is damaged ({error})") from None
    return found
