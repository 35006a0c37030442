"""Take the pictures of this folder: the real program over real runs of the teaching cases.

`make screenshots` writes them again.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SMALL, LARGE = (80, 24), (160, 48)

# Name, teaching case, size, keys pressed before the picture is taken.
PICTURES = (
    ("grid", "fp16-overflow", LARGE, ("3",)),
    ("verdict", "fp16-overflow", SMALL, ()),
    ("trace", "misaligned-dma", SMALL, ("3", "s")),
    ("graph", "fp16-overflow", SMALL, ("5",)),
    ("help", "fp16-overflow", SMALL, ("question_mark",)),
)


async def take(name: str, session: Path, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    """Open a session, press keys, save the picture."""
    from npudbg.session.reader import Session
    from npudbg.tui.app import make_screen
    from npudbg.tui.application import NpudbgApp

    with Session.open(session) as opened:
        app = NpudbgApp(screen=make_screen(opened))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
            await pilot.pause()
            picture = app.export_screenshot(title="npudbg")
    (HERE / f"{name}.svg").write_text(picture, encoding="utf-8")
    sys.stdout.write(f"screenshots/{name}.svg\n")


def main() -> None:
    """Take all pictures."""
    from npudbg.commands.demo import run_case
    from npudbg.tui import environment

    environment.prepare()
    with tempfile.TemporaryDirectory() as folder:
        sessions: dict[str, Path] = {}
        for name, case, size, keys in PICTURES:
            if case not in sessions:
                sessions[case] = run_case(case, save=str(Path(folder) / f"{case}.npudbg")).path
            asyncio.run(take(name, sessions[case], size, keys))


if __name__ == "__main__":
    main()
