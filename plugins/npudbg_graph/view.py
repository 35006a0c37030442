"""A model as vertices and values, from an ONNX file or from a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from npudbg.plugins import Graph, Session, TensorRecord, safe
from npudbg_graph.lanes import Item

HIDDEN_OPS = frozenset({"Constant"})
"""Operators that only hold values; drawn like weights, that is not at all."""
COPY = "@ddr"
"""Suffix of the name under which a session keeps the device's copy of an input."""


@dataclass(slots=True)
class Value:
    """One tensor that flows between vertices.

    Attributes:
        name: Its name (untrusted text).
        tensor: Its id in the session, or -1.
        text: Shape and dtype, or ``""`` if unknown.
        nan: NaN elements, as scanned.
        inf: Infinite elements, as scanned.
        role: ``input``, ``output``, ``activation``, ``weight`` or ``constant``.
        origin: Where the counts come from (``simulated`` …).
    """

    name: str
    tensor: int = -1
    text: str = ""
    nan: int = 0
    inf: int = 0
    role: str = "activation"
    origin: str = ""

    @property
    def dirty(self) -> bool:
        """Whether the scan found a NaN or an infinity."""
        return bool(self.nan or self.inf)


@dataclass(slots=True)
class Vertex:
    """One row of the view: a graph input, a node, or a fused group of nodes.

    Attributes:
        kind: ``input``, ``node`` or ``group``.
        name: Name (untrusted text).
        op: Operator, or operators of a group.
        reads: Values read, by position in ``View.values``; weights left out.
        writes: Values written.
        weights: Values read that are weights or constants.
        nodes: Index of each node it stands for.
        kernel: Device kernel, ``host``, ``folded`` or ``""``.
        engine: Engine, or ``""``.
        state: Status of the record: ``ok``, ``hung`` …
        note: One line of the record.
        first_seq: First command, or -1.
        last_seq: Last command, or -1.
        status: What is shown; filled by :mod:`npudbg_graph.status`.
        codes: Codes of the findings that point at it.
    """

    kind: str
    name: str
    op: str = ""
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    kernel: str = ""
    engine: str = ""
    state: str = "ok"
    note: str = ""
    first_seq: int = -1
    last_seq: int = -1
    status: str = "ok"
    codes: list[str] = field(default_factory=list)


@dataclass(eq=False)
class View:
    """A graph to draw.

    Attributes:
        title: Model name (untrusted text).
        stage: ``original``, ``folded``, ``fused`` or ``mapped``.
        vertices: In execution order.
        values: All values.
        hidden: Vertices that only hold constants and are not drawn.
    """

    title: str
    stage: str
    vertices: list[Vertex]
    values: list[Value]
    hidden: int = 0

    @property
    def items(self) -> list[Item]:
        """The vertices as the drawing wants them."""
        return [Item(v.reads, v.writes) for v in self.vertices]

    @cached_property
    def producer(self) -> dict[int, int]:
        """Vertex that writes a value."""
        found: dict[int, int] = {}
        for at, vertex in enumerate(self.vertices):
            for value in vertex.writes:
                found.setdefault(value, at)
        return found

    @cached_property
    def consumers(self) -> dict[int, list[int]]:
        """Vertices that read a value, in order."""
        found: dict[int, list[int]] = {}
        for at, vertex in enumerate(self.vertices):
            for value in dict.fromkeys(vertex.reads):
                found.setdefault(value, []).append(at)
        return found

    @cached_property
    def of_node(self) -> dict[int, int]:
        """Vertex that stands for a node index."""
        return {n: at for at, vertex in enumerate(self.vertices) for n in vertex.nodes}

    def above(self, at: int) -> list[int]:
        """Return the vertices whose values vertex ``at`` reads, dirty ones first."""
        values = [v for v in dict.fromkeys(self.vertices[at].reads) if v in self.producer]
        values.sort(key=lambda v: not self.values[v].dirty)
        return list(dict.fromkeys(p for v in values if (p := self.producer[v]) != at))

    def below(self, at: int) -> list[int]:
        """Return the vertices that read what vertex ``at`` writes, those of dirty ones first."""
        values = sorted(self.vertices[at].writes, key=lambda v: not self.values[v].dirty)
        readers = (c for v in values for c in self.consumers.get(v, ()) if c != at)
        return list(dict.fromkeys(readers))


def shape_text(shape: Iterable[object] | None, dtype: str) -> str:
    """Return ``<f4[1,3,N,?]``: dtype and shape as the records name them."""
    if shape is None:
        return f"{safe(dtype, 24)}[?]"
    axes = ",".join("?" if n is None else safe(n, 24) for n in shape)
    return f"{safe(dtype, 24)}[{axes}]"


def from_graph(graph: Graph, *, shapes: bool = False, constants: bool = False) -> View:
    """Return the view of a model file.

    Args:
        graph: The model.
        shapes: Infer shapes and dtypes (takes time on a large model).
        constants: Draw Constant nodes too.
    """
    types = graph.value_types if shapes else {}
    known = {v.name: v for v in (*graph.inputs, *graph.defaults, *graph.outputs)}
    table = _Table()
    fed = {v.name for v in graph.inputs} | {
        v.name for v in graph.defaults if v.name not in graph.initializers
    }
    outputs = {v.name for v in graph.outputs}
    held: set[str] = set()
    drawn = []
    for node in graph.nodes:
        if node.op_type in HIDDEN_OPS and not node.reads and not constants:
            held.update(node.writes)
        else:
            drawn.append(node)
    vertices = [Vertex("input", v.name, "input", writes=(table(v.name),)) for v in (*graph.inputs,)]
    for node in drawn:
        flow = [n for n in node.reads if n not in graph.initializers or n in fed]
        flow = [n for n in flow if n not in held]
        weights = [n for n in node.reads if n not in flow]
        vertices.append(
            Vertex(
                "node",
                node.label,
                node.operator,
                reads=tuple(dict.fromkeys(map(table, flow))),
                writes=tuple(map(table, node.writes)),
                weights=tuple(dict.fromkeys(map(table, weights))),
                nodes=(node.index,),
            )
        )
    for value in table.values:
        contract = types.get(value.name) or known.get(value.name)
        if contract is not None:
            value.text = shape_text(contract.shape, contract.dtype)
        if value.name in outputs:
            value.role = "output"
        elif value.name in graph.initializers or value.name in held:
            value.role = "weight"
        elif value.name in fed:
            value.role = "input"
    return View(graph.name, "original", vertices, table.values, len(graph.nodes) - len(drawn))


def from_session(session: Session, *, constants: bool = False) -> View:
    """Return the view of a recorded run, with what its scan saw."""
    tensors = session.tensors
    values = [_value(t) for t in tensors]
    vertices = _inputs(tensors)
    held: set[int] = set()
    nodes = []
    for node in session.nodes:
        reads = [t for t in node.inputs if 0 <= t < len(tensors)]
        if node.op_type in HIDDEN_OPS and not reads and not constants:
            held.update(node.outputs)
        else:
            nodes.append((node, reads))
    # What a body captures stands in no input list; the tensor's consumers know it.
    captured: dict[int, list[int]] = {}
    for at, tensor in enumerate(tensors):
        for index in tensor.consumers:
            captured.setdefault(index, []).append(at)
    for node, reads in nodes:
        reads = list(dict.fromkeys([*reads, *captured.get(node.index, ())]))
        flow = [t for t in reads if tensors[t].role not in ("weight", "constant") and t not in held]
        vertices.append(
            Vertex(
                "node",
                node.label,
                f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
                reads=tuple(flow),
                writes=tuple(dict.fromkeys(t for t in node.outputs if 0 <= t < len(tensors))),
                weights=tuple(t for t in reads if t not in flow),
                nodes=(node.index,),
                kernel=node.kernel,
                engine="" if node.engine == "-" else node.engine,
                state=node.status,
                note=node.note,
                first_seq=node.first_seq,
                last_seq=node.last_seq,
            )
        )
    model = session.meta.model
    title = model.name if model is not None else session.path.name
    return View(title, "original", vertices, values, len(session.nodes) - len(nodes))


def _inputs(tensors: list[TensorRecord]) -> list[Vertex]:
    """Return a vertex for each input; the host's tensor and its copy in DDR are one."""
    inputs = {t.name: at for at, t in enumerate(tensors) if t.role == "input"}
    vertices = []
    for name, at in inputs.items():
        if name.removesuffix(COPY) in inputs and name.endswith(COPY):
            continue
        copy = inputs.get(name + COPY)
        vertices.append(
            Vertex("input", name, "input", writes=(at,) if copy is None else (at, copy))
        )
    return vertices


class _Table:
    """Numbers for names, in the order they are met."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._of: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        at = self._of.get(name)
        if at is None:
            at = self._of[name] = len(self.values)
            self.values.append(Value(name))
        return at


def _value(tensor: TensorRecord) -> Value:
    stats = tensor.stats
    return Value(
        tensor.name,
        tensor.id,
        shape_text(tensor.shape, tensor.dtype),
        nan=stats.nan if stats is not None else 0,
        inf=stats.pos_inf + stats.neg_inf if stats is not None else 0,
        role=tensor.role,
        origin=tensor.origin,
    )
