"""Make the saved sessions again: one a teaching case, from the bundled models.

    make sessions

Each is the record of a run that really happened on the simulated device.
"""

from __future__ import annotations

from pathlib import Path

from npudbg.commands.demo import run_case
from npudbg.commands.teaching import CASES

FOLDER = Path(__file__).parent
LARGEST = 500_000


def main() -> None:
    """Write one session a case beside this file."""
    for name in CASES:
        path = FOLDER / f"{name}.npudbg"
        judged = run_case(name, save=str(path))
        size = path.stat().st_size
        print(f"{size:>9,}  {path.name:32} layer {judged.verdict.layer}  {judged.verdict.code}")
        if size > LARGEST:
            raise SystemExit(f"{path.name} has {size:,} bytes; at most {LARGEST:,} are wanted")


if __name__ == "__main__":
    main()
