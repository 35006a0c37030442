"""What the dynamic loader would find in a list of directories, and in which."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from npudbg.plugins import Finding, Subject, UserError, finding, safe
from npudbg_elf.dynamic import DamagedError, Dynamic, read_dynamic
from npudbg_elf.image import Reader, read_image
from npudbg_elf.records import Image
from npudbg_elf.versions import library_version

_SOURCE = "elf"
_MAX_LIBRARIES = 400
_MAX_LISTED = 20


@dataclass(slots=True)
class _Scope:
    """The files that the loader would map, in breadth-first order."""

    objects: list[tuple[str, Dynamic]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # library -> who needs it
    paths: dict[str, str] = field(default_factory=dict)  # library -> file


def judge_search(image: Image, directories: list[str]) -> list[Finding]:
    """Return what the loader would miss or mistake with these search directories.

    Args:
        image: The file that is loaded.
        directories: In the order in which the loader looks.
    """
    if image.kind != "elf" or not directories:
        return []
    try:
        scope = _closure(image, directories)
    except DamagedError as error:
        return [_damaged(image, error)]
    found = _shadowed(image, scope, directories)
    found += [_not_found(image, name, who) for name, who in scope.missing.items()]
    found += _undefined(image, scope)
    found += _versions(image, scope)
    return found


def _closure(image: Image, directories: list[str]) -> _Scope:
    scope = _Scope()
    queue = [(image.path, read_dynamic(image.path))]
    seen = {queue[0][1].soname or Path(image.path).name}
    while queue and len(scope.objects) < _MAX_LIBRARIES:
        path, dynamic = queue.pop(0)
        scope.objects.append((path, dynamic))
        for name in dynamic.needed:
            if name in seen:
                continue
            seen.add(name)
            where = _find(name, image, [*directories, *_origin(path, dynamic)])
            if where is None:
                scope.missing[name] = path
                continue
            scope.paths[name] = where
            try:
                queue.append((where, read_dynamic(where)))
            except DamagedError:
                scope.missing[name] = path
    return scope


def _origin(path: str, dynamic: Dynamic) -> list[str]:
    """Return the run path's directories that lie relative to the file itself."""
    here = str(Path(path).resolve().parent)
    return [
        d.replace("${ORIGIN}", here).replace("$ORIGIN", here)
        for d in dynamic.runpath
        if d.startswith(("$ORIGIN", "${ORIGIN}"))
    ]


def _find(name: str, like: Image, directories: list[str]) -> str | None:
    for path in _copies(name, like, directories):
        return path
    return None


def _copies(name: str, like: Image, directories: list[str]) -> list[str]:
    """Return the files of that name the loader would take, in search order."""
    if "/" in name or "\0" in name or not name:
        return []
    found = []
    for directory in dict.fromkeys(directories):
        path = Path(directory) / name
        try:
            if not path.is_file():
                continue
            other = read_image(path)
        except (OSError, ValueError, UserError):
            continue
        # The loader passes over a file of another machine and goes on.
        if other.kind == "elf" and (other.machine, other.bits) == (like.machine, like.bits):
            found.append(str(path))
    return found


def _shadowed(image: Image, scope: _Scope, directories: list[str]) -> list[Finding]:
    """Compare the copy that is found first with the one that is meant.

    Meant is the file itself (for its own name), or the copy beside it.
    """
    found = []
    beside = str(Path(image.path).parent)
    own = scope.objects[0][1].soname or Path(image.path).name
    for name in (own, *scope.paths):
        copies = _copies(name, image, directories)
        meant = image.path if name == own else str(Path(beside) / name)
        if name != own and not _copies(name, image, [beside]):
            continue
        if not copies or _same(copies[0], meant):
            continue
        here, there = _identity(copies[0]), _identity(meant)
        if here.digest == there.digest:
            continue
        proven = bool(here.version and there.version and here.version != there.version)
        found.append(
            finding(
                "E522",
                Subject(kind="file", name=name, file=copies[0]),
                f"{safe(name)} {here.version or 'of unknown version'} is loaded from "
                f"{safe(Path(copies[0]).parent)}, {there.version or safe(meant)} expected: "
                "search-path shadowing",
                evidence={
                    "loaded": copies[0],
                    "loaded_version": here.version,
                    "loaded_version_from": here.where,
                    "expected": meant,
                    "expected_version": there.version,
                    "expected_version_from": there.where,
                    "search_order": directories[:_MAX_LISTED],
                },
                severity=None if proven else "warning",
                certainty="proven" if proven else "suspected",
                fix=f"put {safe(Path(meant).parent)} first, or remove the older copy",
                source=_SOURCE,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _Identity:
    version: str
    where: str
    digest: str


def _identity(path: str) -> _Identity:
    image = read_image(path)
    with Reader(path) as file:
        version, where = library_version(file, image)
        digest = hashlib.sha256()
        at = 0
        while part := file.read(at, 1 << 20):
            digest.update(part)
            at += len(part)
    return _Identity(version, where, digest.hexdigest())


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def _not_found(image: Image, name: str, who: str) -> Finding:
    return finding(
        "E523",
        Subject(kind="file", name=name, file=image.path),
        f"{safe(name)}, needed by {safe(Path(who).name)}, is in none of the directories given",
        evidence={"library": name, "needed_by": who},
        certainty="suspected",
        fix="give its directory with --search, or install it on the board",
        source=_SOURCE,
    )


def _undefined(image: Image, scope: _Scope) -> list[Finding]:
    provided: set[str] = set()
    for _, dynamic in scope.objects:
        provided |= dynamic.defined
    found = []
    for path, dynamic in scope.objects:
        lacking = [s for s in dynamic.undefined if s not in provided]
        if not lacking:
            continue
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        proven = not scope.missing
        because = (
            "no DT_NEEDED library provides it"
            if proven
            else f"no library found provides it ({len(scope.missing)} were not found)"
        )
        found.append(
            finding(
                "E524",
                Subject(kind="file", name=Path(path).name, file=path),
                f"undefined symbol {safe(lacking[0])}{more} needed by {safe(Path(path).name)}; "
                f"{because}",
                evidence={
                    "symbols": lacking[:_MAX_LISTED],
                    "count": len(lacking),
                    "libraries_searched": len(scope.objects),
                    "libraries_missing": list(scope.missing)[:_MAX_LISTED],
                },
                severity=None if proven else "warning",
                certainty="proven" if proven else "suspected",
                fix="link the library that defines it, or take one built with the same toolchain",
                source=_SOURCE,
            )
        )
    return found


def _versions(image: Image, scope: _Scope) -> list[Finding]:
    """Compare the symbol versions asked for with those that the found library defines."""
    by_name = {Path(p).name: d for p, d in scope.objects}
    by_name |= {d.soname: d for _, d in scope.objects if d.soname}
    found = []
    for path, dynamic in scope.objects:
        for library, version in dynamic.versions_needed:
            there = by_name.get(library)
            if there is None or version in there.versions_defined:
                continue
            if not there.versions_defined:
                continue  # an unversioned library satisfies the loader with a warning
            found.append(
                finding(
                    "E526",
                    Subject(kind="file", name=Path(path).name, file=path),
                    f"version {safe(version)} of {safe(library)} is needed by "
                    f"{safe(Path(path).name)}; the library found has "
                    f"{safe(_newest(there.versions_defined, version))}",
                    evidence={
                        "needed": version,
                        "library": scope.paths.get(library, library),
                        "defined": sorted(there.versions_defined)[-_MAX_LISTED:],
                    },
                    fix="build against the board's library, or update it on the board",
                    source=_SOURCE,
                )
            )
    return found


def _newest(defined: frozenset[str], like: str) -> str:
    family = like.rpartition("_")[0]
    same = [v for v in defined if v.rpartition("_")[0] == family] or list(defined)

    def numbers(text: str) -> list[int]:
        tail = text.rpartition("_")[2]
        return [int(p) if p.isascii() and p.isdigit() else -1 for p in tail.split(".")]

    return max(same, key=numbers)


def _damaged(image: Image, error: DamagedError) -> Finding:
    return finding(
        "E503",
        Subject(kind="file", name=image.path, file=image.path),
        f"{safe(image.path)}: {safe(error)}",
        evidence={"bytes": image.nbytes},
        fix="get or build the file again",
        source=_SOURCE,
    )
