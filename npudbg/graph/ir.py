"""The neutral graph: what every other part of npudbg knows of an ONNX model.

Nothing here imports onnx.  Protobuf objects are carried along (``proto``,
``model``) for backends that hand them on, but no view or rule needs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy.typing as npt

from npudbg.session.records import ModelRecord, ValueContract

Array = npt.NDArray[Any]
Types = dict[str, ValueContract]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """What a graph attribute (the body of If, Loop, Scan …) holds.

    Attributes:
        name: The body's name (untrusted text).
        inputs: Names of its formal inputs.
        outputs: Names of its outputs.
        captured: Names of the outer scopes that it reads, bodies within included.
        operators: Nodes per operator (``domain.Op`` or ``Op``), bodies within included.
        proto: The GraphProto.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]
    operators: Mapping[str, int]
    proto: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SparseTensor:
    """A tensor in ONNX's coordinate format.

    ``indices`` is ``(nnz,)`` of linear indices or ``(nnz, rank)`` of coordinates.
    """

    values: Array
    indices: Array
    shape: tuple[int, ...]


class Attributes(Mapping[str, Any]):
    """A node's attributes as Python values; tensors are decoded when asked for.

    A model may keep its weights in Constant nodes, so a decoded copy of each
    would double its memory.  ``attributes["value"]`` makes a read-only array
    every time; everything else is kept.
    """

    __slots__ = ("_lazy", "_values")

    def __init__(self, values: Mapping[str, Any], lazy: Mapping[str, Callable[[], Any]]) -> None:
        """Take plain values, and functions that make the heavy ones."""
        self._values = {**values, **dict.fromkeys(lazy)}
        self._lazy = dict(lazy)

    def __getitem__(self, name: str) -> Any:
        make = self._lazy.get(name)
        return self._values[name] if make is None else make()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    @property
    def heavy(self) -> frozenset[str]:
        """Names of the attributes that hold tensors."""
        return frozenset(self._lazy)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph, in execution order.

    Attributes:
        index: Position in ``Graph.nodes``.
        name: The node's own name (untrusted text, may be empty).
        op_type: Operator.
        domain: Operator domain; ``""`` for ONNX's own (``ai.onnx`` is written so too).
        inputs: Names read; ``""`` for an omitted optional input.
        outputs: Names written; ``""`` for an omitted output.
        attributes: Python values: int, float, str (bytes where not UTF-8), lists of
            these, ndarray, :class:`SparseTensor`, :class:`Subgraph`, and text for a type.
        captured: Names of the outer scope that its bodies read.
        proto: The NodeProto.
        since_opset: Operator version in force at the model's opset; 0 where unknown
            (a domain outside ONNX, or a function of the model).
    """

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    captured: tuple[str, ...]
    proto: Any = field(repr=False, compare=False)
    since_opset: int = 0

    @property
    def label(self) -> str:
        """Name for people: the node's own, else operator and index."""
        return self.name or f"{self.op_type}_{self.index}"

    @property
    def operator(self) -> str:
        """The operator, with its domain where that is not ONNX's own."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def reads(self) -> tuple[str, ...]:
        """Every name it reads: its inputs, then what its bodies capture."""
        return (*(n for n in self.inputs if n), *self.captured)

    @property
    def writes(self) -> tuple[str, ...]:
        """Every name it writes."""
        return tuple(n for n in self.outputs if n)


@dataclass(frozen=True, slots=True)
class Initializer:
    """A constant of the model, decoded only when asked for.

    Attributes:
        name: Tensor name (untrusted text).
        shape: Elements per axis.
        dtype: Record name of the element type (``<f4``, ``bfloat16``, ``string``).
        nbytes: Bytes of the decoded array (for strings: 0).
        location: Path of the external data file, or None when in the model file.
        sparse: Whether the file keeps it in coordinate format.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    location: str | None = None
    sparse: bool = False
    _make: Callable[[], Array] = field(repr=False, compare=False, kw_only=True)

    def array(self) -> Array:
        """Return the values, read-only; made anew (or mapped from the file) every time.

        Raises:
            UserError: The stored bytes do not fit shape and type, or are gone.
        """
        return self._make()


@dataclass(frozen=True, eq=False)
class Graph:
    """A model as loaded and checked.

    Attributes:
        name: File name, or the graph's own name (untrusted text).
        path: Where it was read, ``""`` for one made in memory.
        sha256: Hex digest of the model file.
        nbytes: Size of the model file, external data not counted.
        tool: What wrote the file, with its version.
        ir_version: Version of the file format.
        opset: Operator set version per domain (``""`` is ONNX's own).
        inputs: What has to be fed, in the model's order.
        outputs: What the model gives, in its order.
        defaults: Inputs that an initializer gives a value (files of IR version 3 list
            all weights so); may be fed, need not be.
        nodes: Execution order: the file's own wherever that is valid.
        initializers: Constants by name.
        functions: The model's own functions (FunctionProto).
        model: The ModelProto.
    """

    name: str
    path: str
    sha256: str
    nbytes: int
    tool: str
    ir_version: int
    opset: Mapping[str, int]
    inputs: tuple[ValueContract, ...]
    outputs: tuple[ValueContract, ...]
    defaults: tuple[ValueContract, ...]
    nodes: tuple[Node, ...]
    initializers: Mapping[str, Initializer]
    functions: tuple[Any, ...] = field(repr=False)
    model: Any = field(repr=False)
    _infer: Callable[[Mapping[str, tuple[int, ...]]], Types] = field(repr=False)

    @cached_property
    def _producers(self) -> dict[str, Node]:
        return {name: node for node in self.nodes for name in node.writes}

    @cached_property
    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.reads):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def value_types(self) -> Types:
        """Contract of every value whose type the model states or onnx infers."""
        return self._infer({})

    def types_for(self, shapes: Mapping[str, tuple[int, ...]]) -> Types:
        """Return :attr:`value_types` with the inputs' shapes bound to ``shapes``."""
        return self._infer(shapes) if shapes else self.value_types

    def producer(self, name: str) -> Node | None:
        """Return the node that writes ``name``; None for an input or a constant."""
        return self._producers.get(name)

    def consumers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read ``name``, captured reads included, in order."""
        return self._consumers.get(name, ())

    def input(self, name: str) -> ValueContract | None:
        """Return the contract of an input (required or with a default), or None."""
        return next((v for v in (*self.inputs, *self.defaults) if v.name == name), None)

    def record(self) -> ModelRecord:
        """Return the session's record of this model."""
        return ModelRecord(
            name=self.name,
            path=self.path,
            sha256=self.sha256,
            nbytes=self.nbytes,
            producer=self.tool,
            ir_version=self.ir_version,
            opset=dict(self.opset),
            inputs=self.inputs,
            outputs=self.outputs,
            operators=dict(Counter(node.operator for node in self.nodes)),
        )
