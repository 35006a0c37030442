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
GOLDEN = " --golden"

# Name, teaching case, size, keys pressed before the picture is taken.
PICTURES = (
    ("grid", "fp16-overflow", LARGE, ("3",)),
    ("verdict", "fp16-overflow", SMALL, ()),
    ("trace", "misaligned-dma", SMALL, ("3", "s")),
    ("queue", "misaligned-dma", SMALL, ("3", "t", "t", "g", "down")),
    ("golden", f"fp16-overflow{GOLDEN}", SMALL, ("4", "t")),
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


def compared(name: str, save: str) -> Path:
    """Run a teaching case, compare it with ONNX Runtime, return its session."""
    from npudbg.commands.pipeline import Job, judge_run
    from npudbg.commands.teaching import CASES, load
    from npudbg.targets.loader import load_toml_text, toml_text

    case = CASES[name]
    options = {k: v() if callable(v) else v for k, v in case.options.items()}
    job = Job(model=f"demo:{name}", save=save, golden="ort", golden_mode="both", **options)
    text = toml_text(job.target)
    graph, arrays = load(case)
    target = load_toml_text(text, job.target)
    notes = (f"teaching case: {case.title}",)
    return judge_run(job, graph, target, arrays, target_toml=text, notes=notes).path


def main() -> None:
    """Take all pictures."""
    from npudbg.commands.demo import run_case
    from npudbg.tui import environment

    environment.prepare()
    with tempfile.TemporaryDirectory() as folder:
        sessions: dict[str, Path] = {}
        for name, case, size, keys in PICTURES:
            if case not in sessions:
                file = str(Path(folder) / f"{case}.npudbg")
                plain = case.removesuffix(GOLDEN)
                sessions[case] = (
                    compared(plain, file) if plain != case else run_case(case, save=file).path
                )
            asyncio.run(take(name, sessions[case], size, keys))


if __name__ == "__main__":
    main()
