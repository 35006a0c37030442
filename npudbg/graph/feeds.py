"""Input files to arrays, and arrays to the model's inputs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from npudbg.graph import npy, npz, rawbin, sniff, tensorproto
from npudbg.graph.files import open_regular, show
from npudbg.graph.ir import Array, Graph
from npudbg.graph.synth import synthesize
from npudbg.session.errors import UserError
from npudbg.session.text import safe

__all__ = ["Feed", "assign", "read_feed", "synthesize"]

Feed = tuple[str | None, Array]
_POSITIONAL = re.compile(r"arr_(\d{1,4})")


def read_feed(spec: str, known: Collection[str] = ()) -> list[Feed]:
    """Read what one ``[NAME=]FILE[:DTYPE[:SHAPE]]`` stands for.

    ``.npy``, ``.npz`` and TensorProto ``.pb`` files say what they are; any other
    file needs its type and shape.  A name that is not in the specification comes
    from a ``.npz`` member, or from a TensorProto if it is among ``known``.

    Args:
        spec: The specification.
        known: Names of the model's inputs.

    Returns:
        Arrays with the names they are meant for; None where the order decides.

    Raises:
        UserError: The file or the specification is unusable.
    """
    name, rest = _split_name(spec)
    path, element, shape = _split_raw(rest)
    if shape is not None:
        dtype = rawbin.parse_dtype(element or "")
        if dtype is None:
            raise UserError(
                f"{safe(spec)}: {safe(element)!r} is no element type; for example {rawbin.EXAMPLE}"
            )
        return [(name, rawbin.read(path, dtype, shape))]
    kind = _kind(path)
    if kind == "npy":
        return [(name, npy.read(path, element))]
    if kind == "npz":
        return _from_npz(name, npz.read(path), show(path))
    if kind == "pb":
        own, array = tensorproto.read(path)
        return [(name or (own if own in known else None), array)]
    if kind != "raw":
        raise UserError(
            f"{show(path)}: {kind}, not a tensor; decode or convert it to a .npy file first"
        )
    raise UserError(
        f"{show(path)}: raw bytes need a type and a shape, for example "
        f"{f'{safe(name)}=' if name else ''}{rawbin.EXAMPLE}"
    )


def assign(graph: Graph, feeds: Iterable[Feed]) -> dict[str, Array]:
    """Give each array to an input of the model: by name, else in the model's order.

    Shapes and types are not compared: layer 2 judges them.  No feeds at all give an
    empty result, for the caller to synthesise.

    Raises:
        UserError: An unknown name, an input fed twice, too many arrays, or required
            inputs that are left without one.
    """
    feeds = list(feeds)
    if not feeds:
        return {}
    required = [c.name for c in graph.inputs]
    names = [*required, *(c.name for c in graph.defaults)]
    result: dict[str, Array] = {}
    for name, array in feeds:
        if name is None:
            continue
        if name not in names:
            raise _unknown(name, names)
        if name in result:
            raise UserError(f"input {safe(name)!r} is given twice; keep one")
        result[name] = array
    free = [n for n in required if n not in result]
    unnamed = [array for name, array in feeds if name is None]
    if len(unnamed) > len(free):
        raise UserError(
            f"{len(feeds)} inputs are given and the model takes {len(required)}: "
            f"{_listed(required)}; leave out {len(unnamed) - len(free)}"
        )
    result.update(zip(free, unnamed, strict=False))
    missing = [c.name for c in graph.inputs if c.name not in result and c.kind != "optional"]
    if missing:
        example = " ".join(f"--input {safe(n)}=FILE" for n in missing[:4])
        raise UserError(
            f"{len(missing)} of {len(required)} inputs are missing: {_listed(missing)}; "
            f"give them too ({example}), or none to have all synthesised"
        )
    return {n: result[n] for n in names if n in result}


def _split_name(spec: str) -> tuple[str | None, str]:
    """Split ``NAME=FILE``; a file that has ``=`` in its own name is found as it is."""
    name, equals, rest = spec.partition("=")
    if not equals or _exists(Path(spec)) or _exists(_split_raw(spec)[0]):
        return None, spec
    if not name or not rest:
        raise UserError(f"{safe(spec)}: NAME=FILE was expected")
    return name, rest


def _split_raw(rest: str) -> tuple[Path, str | None, tuple[int, ...] | None]:
    """Split ``FILE:DTYPE:SHAPE`` or ``FILE:DTYPE``."""
    if _exists(Path(rest)):
        return Path(rest), None, None
    parts = rest.rsplit(":", 2)
    if len(parts) == 3 and (shape := rawbin.parse_shape(parts[2])) is not None:
        return Path(parts[0]), parts[1], shape
    head, colon, element = rest.rpartition(":")
    if colon and rawbin.parse_dtype(element) is not None:
        return Path(head), element, None
    if len(parts) == 3 and rawbin.parse_dtype(parts[1]) is not None:
        raise UserError(
            f"{safe(rest)}: {safe(parts[2])!r} is no shape; for example {rawbin.EXAMPLE}"
        )
    return Path(rest), None, None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz", ".pb"):
        return suffix[1:]
    file, _ = open_regular(path, "an input (.npy, .npz, .pb or raw bytes)")
    with file:
        head = file.read(sniff.HEAD)
    if head.startswith(npy.MAGIC):
        return "npy"
    what = sniff.identify(head, path)
    return "npz" if what == "a NumPy .npz archive" else what or "raw"


def _from_npz(name: str | None, arrays: dict[str, Array], where: str) -> list[Feed]:
    if name is not None:
        if name in arrays:
            return [(name, arrays[name])]
        if len(arrays) == 1:
            return [(name, next(iter(arrays.values())))]
        raise UserError(
            f"{where}: holds {len(arrays)} arrays and none is called {safe(name)!r}: "
            f"{_listed(list(arrays))}"
        )
    if all(_POSITIONAL.fullmatch(n) for n in arrays):
        # numpy.savez(file, a, b) names them so: their order is all that is known.
        ordered = sorted(arrays, key=lambda n: int(n.removeprefix("arr_")))
        return [(None, arrays[n]) for n in ordered]
    return list(arrays.items())


def _unknown(name: str, names: list[str]) -> UserError:
    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f"did you mean {safe(near[0])!r}?" if near else f"it has {_listed(names)}"
    return UserError(f"the model has no input {safe(name)!r}; {hint}")


def _listed(names: list[str]) -> str:
    shown = ", ".join(safe(n, 60) for n in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "none"
