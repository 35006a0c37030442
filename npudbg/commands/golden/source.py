"""What `--golden` names: where golden values come from, read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.commands.golden.names import MAP_FILE, matched, read_map
from npudbg.session.errors import UserError
from npudbg.session.records import Origin
from npudbg.session.text import safe

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.graph.ir import Graph

_MAX_DUMPS = 100_000
_ELSEWHERE = ("golden/npy", "golden", "npy")


class Arrays(Mapping[str, Any]):
    """Arrays by name, each made when it is asked for and not kept."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        """Keep how each is made."""
        self._makers = dict(makers)

    def __getitem__(self, name: str) -> Any:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True, slots=True)
class Golden:
    """Golden values.

    Attributes:
        what: What they are, for people.
        origin: ``measured``, ``simulated`` or ``imported``.
        optimised: Whether the run that gave them was optimised; None if not known.
        arrays: By tensor name of the model; empty for a live reference.
        live: They are computed beside the run, node by node, and not kept.
        unmatched: Golden names that no tensor of the model has.
        notes: What was assumed.
        close: Closes what the arrays are read from.
    """

    what: str
    origin: Origin
    optimised: bool | None = None
    arrays: Mapping[str, Any] = field(default_factory=dict)
    live: bool = False
    unmatched: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    close: Callable[[], None] = lambda: None


def open_golden(what: str, graph: Graph) -> Golden:
    """Return the golden values that ``--golden WHAT`` names.

    Args:
        what: ``ort``, a session, a ``.npz``, a directory of ``.npy`` dumps, or
            ``[NAME=]FILE[:DTYPE:SHAPE]`` for one tensor.
        graph: The model: its names are what dumps are matched with.

    Raises:
        UserError: Nothing readable, or nothing of this model.
    """
    if what == "ort":
        import onnxruntime

        return Golden(
            f"ONNX Runtime {onnxruntime.__version__} in fp32 on the CPU, node by node",
            "measured",
            optimised=False,
            live=True,
        )
    path = Path(what)
    try:
        folder, session = path.is_dir(), path.suffix.lower() == ".npudbg"
    except (OSError, ValueError):
        folder = session = False
    if folder:
        return _of_folder(path, graph)
    return _of_session(path, graph) if session else _of_file(what, graph)


def tensor_names(graph: Graph) -> list[str]:
    """Return the names of inputs and results, in execution order."""
    made = (name for node in graph.nodes for name in node.writes)
    return [*(c.name for c in graph.inputs), *made]


def dequantized(array: npt.NDArray[Any], quantization: Any) -> npt.NDArray[Any]:
    """Return an array's real values: ``scale * (q - zero_point)`` in fp32, or itself."""
    import numpy as np

    if quantization is None:
        return array
    scale = np.array(quantization.scale, np.float32)
    zero = np.array(quantization.zero_point, np.float32)
    axis = quantization.axis
    if axis is not None and scale.size > 1 and array.ndim:
        shape = [1] * array.ndim
        shape[axis] = -1
        scale = scale.reshape(shape)
        zero = zero.reshape(shape) if zero.size > 1 else zero
    wide: npt.NDArray[Any] = (array.astype(np.float32) - zero) * scale
    return wide


def _of_session(path: Path, graph: Graph) -> Golden:
    from npudbg.session.reader import Session

    session = Session.open(path)
    try:
        held = {t.name: t for t in session.tensors if t.blob is not None}
        meta = session.meta
        pairs = _paired(list(held), graph, path)
    except BaseException:
        session.close()
        raise

    def maker(name: str) -> Callable[[], Any]:
        record = held[name]
        return lambda: dequantized(_kept(session.array(record)), record.quantization)

    simulated = meta.backend == "simulated"
    return Golden(
        f"session {safe(path, 80)} ({safe(meta.target, 24)}, {safe(meta.precision, 8)})",
        "simulated" if simulated else "measured",
        optimised=None,
        arrays=Arrays({t: maker(n) for t, n in pairs.items()}),
        close=session.close,
    )


def _kept(array: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    if array is None:
        raise UserError("--golden: the session does not keep a tensor's values")
    return array


def _of_folder(path: Path, graph: Graph) -> Golden:
    from npudbg.graph import npy

    folder, files = _dumps(path)
    names = _layer_names(folder)
    held = {names.get(f.stem, f.stem): f for f in files}
    notes = (f"names are from {MAP_FILE}",) if names else ()
    pairs = _paired(list(held), graph, path)

    def maker(file: Path) -> Callable[[], Any]:
        return lambda: npy.read(file)

    return Golden(
        f"{len(files)} dumps in {safe(folder, 80)}",
        "imported",
        arrays=Arrays({t: maker(held[n]) for t, n in pairs.items()}),
        unmatched=_left(held, pairs),
        notes=(*notes, *_renamed(pairs)),
    )


def _dumps(path: Path) -> tuple[Path, list[Path]]:
    where = f"--golden {safe(path)}"
    places = [path, *(path / name for name in _ELSEWHERE)]
    if _has_map(path):
        # The top of an analysis: what lies there beside its folders is its input.
        places = places[1:] + places[:1]
    for folder in places:
        try:
            if not folder.is_dir():
                continue
            files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".npy")
        except (OSError, ValueError) as error:
            raise UserError(f"{where}: {safe(getattr(error, 'strerror', None) or error)}") from None
        if len(files) > _MAX_DUMPS:
            raise UserError(f"{where}: {len(files)} files; expected at most {_MAX_DUMPS} dumps")
        if files:
            return folder, files
    raise UserError(f"{where}: holds no .npy file; save each tensor as NAME.npy")


def _layer_names(folder: Path) -> dict[str, str]:
    """Return layer names by file stem, from a map beside the dumps or above them."""
    absolute = folder.absolute()
    for place in (absolute, *list(absolute.parents)[:2]):
        if _has_map(place):
            return read_map(place / MAP_FILE)
    return {}


def _has_map(folder: Path) -> bool:
    try:
        return (folder / MAP_FILE).is_file()
    except OSError:
        return False


def _of_file(what: str, graph: Graph) -> Golden:
    from npudbg.graph.feeds import read_feed

    outputs = [c.name for c in graph.outputs]
    feeds = read_feed(what, set(tensor_names(graph)))
    unnamed = [array for name, array in feeds if name is None]
    held = {name: array for name, array in feeds if name is not None}
    notes: tuple[str, ...] = ()
    if unnamed:
        stem = Path(what.partition("=")[2] or what).stem
        if len(unnamed) == len(outputs):
            held.update(zip(outputs, unnamed, strict=True))
            notes = ("outputs were given without names: taken in the model's order",)
        elif len(unnamed) == 1 and matched([stem], tensor_names(graph)):
            held[stem] = unnamed[0]
        else:
            shown = ", ".join(safe(n, 60) for n in outputs[:8])
            raise UserError(
                f"--golden {safe(what)}: of which tensor? the model has {len(outputs)} outputs "
                f"({shown}); say NAME=FILE"
            )
    pairs = _paired(list(held), graph, what)
    return Golden(
        f"file {safe(what, 80)}",
        "imported",
        arrays={t: held[n] for t, n in pairs.items()},
        unmatched=_left(held, pairs),
        notes=(*notes, *_renamed(pairs)),
    )


def _paired(names: list[str], graph: Graph, where: object) -> dict[str, str]:
    known = tensor_names(graph)
    pairs = matched(names, known)
    if not pairs:
        have = ", ".join(safe(n, 40) for n in names[:4])
        want = ", ".join(safe(n, 40) for n in known[-4:])
        raise UserError(
            f"--golden {safe(where)}: none of its {len(names)} tensors ({have}) is one of this "
            f"model's (such as {want}); name the dumps as the model names its tensors"
        )
    return pairs


def _left(held: Mapping[str, Any], pairs: Mapping[str, str]) -> tuple[str, ...]:
    used = set(pairs.values())
    return tuple(safe(n, 120) for n in held if n not in used)


def _renamed(pairs: Mapping[str, str]) -> tuple[str, ...]:
    other = [f"{safe(n, 60)} is taken for {safe(t, 60)}" for t, n in pairs.items() if t != n]
    if len(other) > 6:
        other = [*other[:6], f"{len(other) - 6} more"]
    return ("; ".join(other),) if other else ()
