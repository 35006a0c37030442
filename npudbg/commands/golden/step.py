"""Golden comparison as a step of the main job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npudbg.commands.golden.source import Golden
    from npudbg.commands.pipeline import Job
    from npudbg.graph.ir import Graph
    from npudbg.layers.case import Case


@dataclass(slots=True)
class GoldenStep:
    """A job's golden comparison: opened before the run, made after it.

    Does nothing where the job asks for none.
    """

    job: Job
    graph: Graph
    inputs: Mapping[str, Any]
    source: Golden | None = None

    def open(self) -> None:
        """Open what the run is compared with, before anything is run.

        Raises:
            UserError: It cannot be read, or holds nothing of this model.
        """
        if self.job.golden is not None:
            from npudbg.commands.golden.source import open_golden

            self.source = open_golden(self.job.golden, self.graph)

    def close(self) -> None:
        """Close it."""
        if self.source is not None:
            self.source.close()

    def compared(
        self, case: Case, *, calibration: Any = None, cancel: Any = None
    ) -> tuple[Case, dict[str, Any]]:
        """Compare a recorded run.

        Args:
            case: What was judged so far, with the recorded run.
            calibration: int8 parameters of the run.
            cancel: Set to stop.

        Returns:
            The case with golden values, and what the session keeps of it.
        """
        if self.source is None or case.session is None or case.session.status == "not-run":
            return case, {}
        from dataclasses import replace

        from npudbg.commands.golden.table import Asked, golden_table
        from npudbg.session.golden import KEY

        asked = Asked(
            self.graph,
            self.inputs,
            case.target,
            case.precision,
            calibration=calibration,
            fused=self.job.fused,
            mode=self.job.golden_mode,
            atol=self.job.atol,
            rtol=self.job.rtol,
            cancel=cancel,
        )
        table = golden_table(case.session, self.source, asked)
        return replace(case, golden=table.kept, compared=table.record), {KEY: table.record}
