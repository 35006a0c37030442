"""Values of a run: what each name of the graph holds, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npudbg.device.numerics import Stored
from npudbg.session.records import Quantization, Role


@dataclass(slots=True)
class Allocation:
    """A range of device memory that one or more values share (views)."""

    address: int
    nbytes: int
    users: int = 0


@dataclass(slots=True)
class Value:
    """What one name holds.

    Attributes:
        name: Name in the graph.
        id: Tensor id in the session.
        role: What it is to the model.
        data: Array in the device's type (C-contiguous), or a Python object for a
            sequence, map, string tensor or empty optional.
        model_dtype: Type that the model declares; None for a non-tensor.
        quantization: int8 parameters of ``data``.
        allocation: Where it lies in DDR; None for one that the device never holds.
        static: Known at compile time.
        data_shape: Its shape depends on values, not on shapes alone.
        kind: ONNX Runtime's type text, for values that are not plain tensors.
        producer: Node index, -1 for an input or weight.
        uses: Reads that are still to come.
        ready: Cycle at which the device has written it.
        by: Command that wrote it last, -1 for none.
        first: Command that wrote it first, -1 for none.
        on_host: The host wrote it and the device has not been told yet.
        recorded: Its record is written.
    """

    name: str
    id: int
    role: Role
    data: Any
    model_dtype: np.dtype[Any] | None = None
    quantization: Quantization | None = None
    allocation: Allocation | None = None
    static: bool = False
    data_shape: bool = False
    kind: str = ""
    producer: int = -1
    uses: int = 0
    ready: int = 0
    by: int = -1
    first: int = -1
    on_host: bool = False
    recorded: bool = False

    @property
    def is_tensor(self) -> bool:
        """Whether it is an array of numbers that can lie in device memory."""
        return isinstance(self.data, np.ndarray) and self.data.dtype.kind not in "OSUT"

    @property
    def array(self) -> npt.NDArray[Any]:
        """The array in the device's type."""
        assert isinstance(self.data, np.ndarray)
        return self.data

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its shape, or None for a non-tensor."""
        return tuple(self.data.shape) if isinstance(self.data, np.ndarray) else None

    @property
    def stored(self) -> Stored:
        """The array with its quantisation."""
        return Stored(self.array, self.quantization)

    @property
    def address(self) -> int:
        """DDR address, 0 for one that has none."""
        return self.allocation.address if self.allocation is not None else 0
