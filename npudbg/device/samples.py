"""A directory of calibration inputs: one file a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from npudbg.graph import npy, npz
from npudbg.graph.feeds import assign
from npudbg.graph.ir import Graph
from npudbg.session.errors import UserError
from npudbg.session.text import safe

Array = npt.NDArray[Any]

_MAX_SAMPLES = 4096
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".webp")

Decode = Callable[[Path, str, Array], Array]
"""Picture, input and a value of it -> a value that the picture gives."""


def sample_files(folder: str | Path) -> list[Path]:
    """Return a directory's ``.npy`` and ``.npz`` files and pictures, by name.

    Raises:
        UserError: It cannot be read, holds none, or too many.
    """
    place = Path(folder)
    where = f"--calib {safe(folder)}"
    try:
        if not place.is_dir():
            raise UserError(
                f"{where}: not a directory; give one that holds .npy or .npz inputs, or pictures"
            )
        known = (".npy", ".npz", *_PICTURES)
        files = sorted(p for p in place.iterdir() if p.suffix.lower() in known and p.is_file())
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: {safe(getattr(error, 'strerror', None) or error)}") from None
    if not files:
        raise UserError(
            f"{where}: holds no .npy or .npz file and no picture; save each sample as the model "
            "is fed it"
        )
    if len(files) > _MAX_SAMPLES:
        raise UserError(f"{where}: {len(files)} files; expected at most {_MAX_SAMPLES} samples")
    return files


def read_samples(
    graph: Graph, folder: str | Path, like: Mapping[str, Array], decode: Decode
) -> Iterator[dict[str, Array]]:
    """Yield the inputs of each file of a directory.

    A ``.npy`` file is the one input of a model that has one; an ``.npz`` file holds
    inputs by name.  A picture is the one input that has the axes of one.  What a file
    leaves out is taken from ``like``.

    Args:
        graph: The model.
        folder: The directory.
        like: The run's own inputs: every sample has their shapes and types.
        decode: Reads a picture.

    Raises:
        UserError: A file is unreadable, or does not fit the model.
    """
    for path in sample_files(folder):
        where = f"--calib {safe(path)}"
        if path.suffix.lower() == ".npz":
            given: dict[str, Array] = npz.read(path)
            unknown = next((n for n in given if graph.input(n) is None), None)
            if unknown is not None:
                names = ", ".join(safe(c.name) for c in graph.inputs[:8])
                raise UserError(f"{where}: the model has no input {safe(unknown)}; it has {names}")
        elif path.suffix.lower() in _PICTURES:
            wide = [n for n, a in like.items() if a.ndim in (3, 4)]
            if len(wide) != 1:
                raise UserError(
                    f"{where}: {len(wide)} inputs of the model could be a picture; expected .npz "
                    "files that hold inputs by name"
                )
            given = {wide[0]: decode(path, wide[0], like[wide[0]])}
        elif len(graph.inputs) == 1:
            given = assign(graph, [(None, npy.read(path))])
        else:
            raise UserError(
                f"{where}: the model has {len(graph.inputs)} inputs; expected .npz files that "
                "hold them by name"
            )
        for name, array in given.items():
            wanted = like.get(name)
            if wanted is None:
                continue
            if array.shape != wanted.shape or array.dtype != wanted.dtype:
                raise UserError(
                    f"{where}: {safe(name)} is {array.dtype.name}{list(array.shape)}; expected "
                    f"{wanted.dtype.name}{list(wanted.shape)} as in the run"
                )
        yield {**like, **given}
