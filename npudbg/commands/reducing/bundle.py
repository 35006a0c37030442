"""What a bug report needs, as files without anything that runs by itself."""

from __future__ import annotations

import dataclasses
import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.commands.durable import write_atomically
from npudbg.session.text import safe

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.commands.reducing.search import Setting
    from npudbg.graph.cut import Cut

MODEL = "minimal.onnx"
SESSION = "session.npudbg"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_model(folder: Path, part: Cut) -> list[str]:
    """Write model and inputs; returns the input files to name on the command line."""
    write_atomically(folder / MODEL, part.model.SerializeToString(deterministic=True))
    plain = {n: a for n, a in part.feeds.items() if a.dtype.kind in "biufc"}
    files = []
    if plain:
        write_atomically(folder / "inputs.npz", packed(plain))
        files.append("inputs.npz")
    from npudbg.graph.cut import tensor_proto

    # What NumPy's files have no type for.
    for number, name in enumerate(n for n in part.feeds if n not in plain):
        file = f"input_{number}.pb"
        data = tensor_proto(name, part.feeds[name]).SerializeToString()
        write_atomically(folder / file, data)
        files.append(file)
    return files


def packed(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return arrays as a .npz file (names that ``numpy.savez`` would take for its own too)."""
    import numpy as np

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return out.getvalue()


def job_files(folder: Path, given: Setting, job: Job) -> Job:
    """Write what the job's options refer to; returns the job with those files' names."""
    target = job.target
    if Path(target).suffix == ".toml" or "/" in target:
        write_atomically(folder / "target.toml", given.target_toml.encode())
        target = "target.toml"
    if job.manifest:
        text = json.dumps(job.manifest, indent=1, sort_keys=True, default=str)
        write_atomically(folder / "manifest.json", text.encode())
    if job.replace:
        write_atomically(folder / "replaced.npz", packed(job.replace))
    return dataclasses.replace(job, target=target)


def command(job: Job, files: list[str]) -> str:
    """Return the command that replays the bundle, run from its folder."""
    words = ["npudbg", "check", MODEL, *files]

    def option(name: str, *values: str) -> None:
        for value in values:
            words.extend([f"--{name}", value])

    option("target", job.target)
    if job.precision:
        option("precision", job.precision)
    if job.accumulate:
        option("accumulate", job.accumulate)
    option("dim", *(f"{k}={n}" for k, n in job.dims.items()))
    for name, what in job.preprocessing.items():
        lead = f"{name}=" if name else ""
        if what.layout:
            option("layout", lead + what.layout)
        for field in ("mean", "std"):
            numbers = getattr(what, field)
            if numbers:
                option(field, lead + ",".join(repr(float(v)) for v in numbers))
        if what.scale is not None:
            option("scale", lead + repr(float(what.scale)))
    option("host-address", *(f"{n}={a:#x}" for n, a in job.host_addresses.items()))
    option("fault", *job.faults)
    option("cast", *(f"{n}=fp32" for n in sorted(job.raised)))
    if job.replace:
        option("set", "replaced.npz")
    if job.manifest:
        option("manifest", "manifest.json")
    return shlex.join(words)


def readme(
    line: str,
    *,
    code: str,
    summary: str,
    nodes: int,
    total: int,
    proven: bool,
    shapes: Mapping[str, Sequence[int]],
    zero: Sequence[str],
) -> str:
    """Return the text that goes with a bundle."""
    inputs = ", ".join(f"{safe(n)} {list(shape)}" for n, shape in shapes.items())
    zeros = ", ".join(safe(n) for n in zero)
    parts = [
        f"{code}: {summary}",
        "",
        f"{MODEL} is {nodes} of the {total} nodes of the model it was cut from; its inputs hold",
        "what the run recorded at the cuts, as far as the finding needs it.",
        f"Inputs: {inputs or 'none'}.",
        *([f"Zero, because their values do not matter: {zeros}."] if zero else []),
        "To see the finding again, in this folder:",
        "",
        f"    {line}",
        "",
        f"{SESSION} is that run, recorded: npudbg replay {SESSION}",
    ]
    if not proven:
        parts += [
            "",
            "Read from these files the finding does not come back: it depends on how the input",
            f"lay in memory (strides, address). {SESSION} holds the layout.",
        ]
    return "\n".join(parts) + "\n"
