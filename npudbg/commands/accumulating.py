"""`--accumulate`: what sums of fp16 operands run in, in the place of what the profile says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudbg.graph.ir import Graph
    from npudbg.targets.profile import Target


def accumulating(accumulate: str | None, target: Target, precision: str, graph: Graph) -> Target:
    """Return the profile with the accumulator that was asked for.

    Args:
        accumulate: ``fp16`` or ``fp32``; None leaves the profile as it is.
        target: The profile.
        precision: Of the run.
        graph: The model: one in fp16 has fp16 operands in an fp32 run too.

    Raises:
        UserError: The run has no fp16 operands.
    """
    import msgspec

    from npudbg.session.errors import UserError

    if accumulate is None:
        return target
    if precision != "fp16" and not _half(graph):
        raise UserError(
            f"--accumulate: has no effect in {precision}; expected --precision fp16 with it"
        )
    compute = msgspec.structs.replace(
        target.compute, accumulator={**target.compute.accumulator, "fp16": accumulate}
    )
    return msgspec.structs.replace(target, compute=compute)


def _half(graph: Graph) -> bool:
    """Whether an input or a constant of the model is fp16."""
    held = [i.dtype for i in graph.initializers.values()]
    return "<f2" in [*held, *(i.dtype for i in graph.record().inputs)]
