"""Print pyproject's runtime dependencies pinned to their lower bounds, one a line.

`make test-lower` installs them and runs the unit tests: a bound that is never
tried is a guess.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*>=\s*([0-9.]+)[^;]*(;.*)?")


def lowest(requirement: str) -> str:
    """Return ``name==bound`` of ``name>=bound``, with its marker.

    Raises:
        ValueError: The requirement has no lower bound.
    """
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None:
        raise ValueError(f"{requirement}: no lower bound of the form name>=version")
    name, bound, marker = match.groups()
    return f"{name}=={bound}{' ' + marker if marker else ''}"


def main() -> None:
    """Print the pins of the repository's pyproject.toml."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for requirement in tomllib.loads(text)["project"]["dependencies"]:
        print(lowest(requirement))


if __name__ == "__main__":
    main()
