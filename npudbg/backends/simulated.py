"""The simulated device as a backend."""

from __future__ import annotations

import datetime
from typing import Any

from npudbg import __version__
from npudbg.backends.base import Request, Result
from npudbg.device.issue import engine_names
from npudbg.device.machine import Machine
from npudbg.session.records import Meta
from npudbg.session.writer import SessionWriter


class Simulated:
    """Runs a model on the simulated NPU."""

    name = "simulated"

    def run(self, request: Request, writer: SessionWriter) -> Result:
        """Run and record; see :class:`~npudbg.backends.base.Backend`."""
        machine = Machine(
            request.graph,
            request.target,
            writer,
            precision=request.precision,
            fused=request.fused,
            injections=request.injections,
            faults=request.faults,
            calibration=request.calibration,
            raised=request.raised,
            replace=request.replace,
            progress=request.progress,
            cancel=request.cancel,
        )
        write_meta(writer, request, self.name, regions=machine.regions())
        outcome = machine.run(
            {i.record.name: i.buffer for i in request.inputs},
            {i.record.name: i.record.id for i in request.inputs},
        )
        return Result(outcome.status, outcome.message, outcome.node, outcome.outputs or {})


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that compute."""
    import numpy
    import onnxruntime

    return {"numpy": numpy.__version__, "onnxruntime": onnxruntime.__version__}


def write_meta(writer: SessionWriter, request: Request, backend: str, **more: Any) -> None:
    """Write what is run, on what, with which options."""
    writer.set_meta(
        Meta(
            version=__version__,
            backend=backend,
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            model=request.graph.record(),
            target=request.target.name,
            target_toml=request.target_toml,
            precision=request.precision,
            clock_hz=request.target.clock.device_hz,
            libraries=libraries(),
            options=dict(request.options),
            engines=engine_names(request.target),
            notes=tuple(request.notes),
            **more,
        )
    )
