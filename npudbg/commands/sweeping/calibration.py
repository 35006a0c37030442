"""int8 parameters of a sweep: chosen once, then the same for every input and worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.session.errors import UserError

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Job
    from npudbg.device.calibration import Calibration
    from npudbg.graph.ir import Graph

FILE = "calibration.json"
KEY = "calibration"
"""Key of a sweep's options that says where the parameters lie, and their digest."""

_MAX_BYTES = 256 << 20


def shared(
    spec: str, job: Job, graph: Graph, inputs: Sequence[Path], folder: Path
) -> tuple[str, str]:
    """Calibrate, once, and write the parameters where workers find them.

    Args:
        spec: The sweep's options.
        job: The sweep's job.
        graph: The model.
        inputs: The sweep's inputs: the first that can be read says which shapes samples
            have, and gives what they leave out.
        folder: Where to write.

    Returns:
        The options that workers get, and a digest of the parameters.

    Raises:
        UserError: A sample is unreadable, does not fit, or none of the inputs can be read.
    """
    import msgspec

    from npudbg.commands.durable import write_atomically

    like = next((p for p in inputs if _readable(job, graph, p)), None)
    if like is None:
        raise UserError(
            f"--calib {job.calib}: no input of the sweep can be read, so the samples' shape "
            "is not known"
        )
    raw = msgspec.json.encode(calibrated(job, graph, like))
    path = (folder / FILE).resolve()
    write_atomically(path, raw)
    digest = hashlib.sha256(raw).hexdigest()
    options = json.loads(spec)
    options[KEY] = {"path": str(path), "sha256": digest, "like": str(like)}
    return json.dumps(options, sort_keys=True), digest


def calibrated(job: Job, graph: Graph, like: Path) -> Calibration:
    """Choose the parameters from the samples in ``--calib``.

    Raises:
        UserError: A sample is unreadable or does not fit.
    """
    from npudbg.commands.calibrating import calibration_of
    from npudbg.graph.specialise import specialise

    arrays = _arrays(job, graph, like)
    special, _ = specialise(graph, arrays)
    return calibration_of(job, special, arrays)


def of_worker(found: dict[str, str], job: Job, graph: Graph) -> Calibration:
    """Return the sweep's parameters, in a worker.

    A worker of another machine may not see the file; it chooses them itself then, from
    the same samples.
    """
    import msgspec

    from npudbg.device.calibration import Calibration as Known

    path = Path(found["path"])
    try:
        raw = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else b""
    except OSError:
        raw = b""
    if hashlib.sha256(raw).hexdigest() == found["sha256"]:
        return msgspec.json.decode(raw, type=Known)
    return calibrated(job, graph, Path(found["like"]))


def _readable(job: Job, graph: Graph, path: Path) -> bool:
    try:
        _arrays(job, graph, path)
    except UserError:
        return False
    return True


def _arrays(job: Job, graph: Graph, path: Path) -> dict[str, Any]:
    import dataclasses

    from npudbg.commands.pipeline import feed_arrays

    return feed_arrays(graph, dataclasses.replace(job, feeds=[*job.feeds, str(path)]))[0]
