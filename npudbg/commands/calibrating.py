"""`--calib DIR`: int8 parameters from sample inputs, arrays and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.commands.pipeline import Job
    from npudbg.device.calibration import Calibration
    from npudbg.graph.ir import Graph


def check(job: Job, precision: str) -> None:
    """Check a job's directory of samples before anything is run.

    Raises:
        UserError: It cannot be read or is empty, or the run is not int8.
    """
    from npudbg.session.errors import UserError

    if job.calib is None:
        return
    if precision != "int8":
        raise UserError(f"--calib: has no effect in {precision}; expected --precision int8 with it")
    from npudbg.device.samples import sample_files

    sample_files(job.calib)


def samples_note(found: Calibration) -> str:
    """Return what a report says of a run's parameters."""
    return f"int8 scales are from the ranges of {found.samples} calibration samples"


def calibration_of(job: Job, graph: Graph, arrays: Mapping[str, npt.NDArray[Any]]) -> Calibration:
    """Choose parameters from the samples of a job's directory.

    Args:
        job: What is run; it names a directory.
        graph: The model with the run's own shapes.
        arrays: The run's inputs: samples have their shapes and types.

    Raises:
        UserError: A sample is unreadable or does not fit.
    """
    from functools import partial

    from npudbg.commands.images import picture
    from npudbg.device.calibrate import calibrate
    from npudbg.device.samples import read_samples

    assert job.calib is not None
    decode = partial(picture, preprocessing=job.preprocessing)
    return calibrate(graph, read_samples(graph, job.calib, arrays, decode))
