"""Which tensor of the model a dump is of: names as other tools write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    from pathlib import Path

MAP_FILE = "map_name_to_file.txt"
_MAX_MAP_BYTES = 8 << 20
_UNSAFE = re.compile(r"[^0-9A-Za-z_.-]")
# Rockchip's toolkit renames what it rewrites: `fc1r-rs` is `fc1r` reshaped to rank 4,
# `logits_mm` is the product that became a convolution, `x__float16` is x before a cast.
_RENAMED = ("-rs", "_mm", "_rs", "__float16")


def read_map(path: Path) -> dict[str, str]:
    """Read ``map_name_to_file.txt`` of an accuracy analysis: file stem -> layer name.

    The file has a heading, a ruler, and a line of two columns per layer; a layer's
    name may hold blanks, a file's cannot.

    Raises:
        UserError: It cannot be read, is too large, or maps a file twice.
    """
    from npudbg.graph.files import open_regular, show

    file, size = open_regular(path, f"a {MAP_FILE}")
    with file:
        if size > _MAX_MAP_BYTES:
            raise UserError(f"{show(path)}: {size:,} bytes; a list of names was expected")
        text = file.read(_MAX_MAP_BYTES).decode("utf-8", "replace")
    found: dict[str, str] = {}
    for number, row in enumerate(text.splitlines(), 1):
        words = row.rsplit(maxsplit=1)
        if len(words) != 2 or words == ["layer_name", "file_name"]:
            continue
        name, stem = words[0].strip(), _stem(words[1])
        if found.setdefault(stem, name) != name:
            raise UserError(
                f"{show(path)}: line {number}: {safe(words[1])} is the file of "
                f"{safe(found[stem])} and of {safe(name)}"
            )
    if not found:
        raise UserError(f"{show(path)}: no line of a layer's name and its file was found")
    return found


def matched(given: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return golden name by tensor name.

    An equal name first; then one whose characters were replaced to make a file name
    of it, and one that a toolkit lengthened, each only where it is the only one.

    Args:
        given: Names of the golden values.
        known: Names of the model's tensors.
    """
    names, tensors = list(dict.fromkeys(given)), list(dict.fromkeys(known))
    have = set(tensors)
    result = {name: name for name in names if name in have}
    for key in (_as_file, _shortened):
        mine = _unique((_as_file(t), t) for t in tensors if t not in result)
        used = set(result.values())
        theirs = _unique((key(n), n) for n in names if n not in used)
        result.update((mine[k], theirs[k]) for k in mine.keys() & theirs.keys())
    return {t: result[t] for t in tensors if t in result}


def _stem(file: str) -> str:
    name = file.replace("\\", "/").rsplit("/", 1)[-1]
    for suffix in (".txt", ".npy", ".bin"):
        name = name.removesuffix(suffix)
    return name


def _as_file(name: str) -> str:
    return _UNSAFE.sub("_", name).strip("_")


def _shortened(name: str) -> str:
    name = _as_file(name)
    for suffix in _RENAMED:
        name = name.removesuffix(suffix)
    return name


def _unique(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    found: dict[str, str | None] = {}
    for key, name in pairs:
        found[key] = name if key not in found else None
    return {k: n for k, n in found.items() if n is not None and k}
