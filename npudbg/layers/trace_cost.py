"""Where cycles and bytes go that a better schedule would save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from npudbg.layers.case import Case
from npudbg.layers.findings import finding, rule
from npudbg.session.commands import Kind
from npudbg.session.dtypes import NON_TENSOR, numpy_dtype
from npudbg.session.reader import Session
from npudbg.session.records import Finding, NodeRecord, Subject, TensorRecord
from npudbg.session.text import safe

_CHUNK = 1 << 15
_LINKS = 4
_SHARE = 0.10
_SMALL = 2.0
_MANY = 20
_TIMES = 3.0
_LARGE = 64 << 10


@rule(3, "T331")
def serial_chain(case: Case) -> Iterator[Finding]:
    """Element-wise nodes in groups of their own, each fed by the group before."""
    session = case.session
    if session is None or session.meta.backend != "simulated":
        return
    from npudbg.device.kernels.registry import kernel_for

    nodes, tensors = session.nodes, session.tensors
    links: list[tuple[NodeRecord, TensorRecord]] = []
    for node in nodes:
        kernel = kernel_for(node.op_type, node.domain)
        if kernel is None or not kernel.fusible or node.first_seq < 0 or node.engine == "host":
            continue
        for number in node.inputs:
            tensor = tensors[number] if number >= 0 else None
            if tensor is None or tensor.producer < 0 or len(set(tensor.consumers)) != 1:
                continue
            maker = nodes[tensor.producer]
            if maker.group != node.group and maker.engine in ("mac", "vec"):
                links.append((node, tensor))
                break
    if len(links) < _LINKS:
        return
    moved = sum(2 * nbytes(t) for _, t in links)
    written = sum(nbytes(t) for t in tensors if t.first_seq >= 0 and t.producer >= 0)
    kernels = len({n.group for n in nodes if n.engine in ("mac", "vec")})
    first = links[0][0]
    yield finding(
        "T331",
        Subject(kind="node", name=safe(first.label), node=first.index),
        f"{len(links)} element-wise nodes go through memory, first {safe(first.label)}: "
        f"{kernels} kernels load and store where {kernels - len(links)} would do; "
        f"{moved:,} bytes are moved for it",
        evidence={
            "links": len(links),
            "kernels": kernels,
            "kernels_fused": kernels - len(links),
            "bytes": moved,
            "writes_over_need": round(written / max(written - moved // 2, 1), 2),
        },
        fix="turn fusion on, and export without Identity or Reshape between the operators",
        origin="simulated",
    )


@rule(3, "T332", "T333", "T334")
def waste(case: Case) -> Iterator[Finding]:
    """Transposes, tiny kernels, operands that are loaded again and again."""
    session = case.session
    if session is None or session.meta.backend != "simulated" or not session.n_cycles:
        return
    yield from _transposes(session)
    loads: Counter[int] = Counter()
    lengths = []
    for low in range(0, session.n_commands, _CHUNK):
        rows = session.commands(low, low + _CHUNK)
        load = rows[rows["kind"] == int(Kind.DMA_LOAD)]
        for number in np.unique(load["tensor"]):
            loads[int(number)] += int(load["nbytes"][load["tensor"] == number].sum())
        kernel = rows[rows["kind"] == int(Kind.KERNEL)]
        lengths.append(kernel["end"] - kernel["start"])
    cycles = np.concatenate(lengths) if lengths else np.empty(0)
    setup = case.target.compute.kernel_setup_cycles
    tiny = int((cycles < _SMALL * setup).sum())
    if len(cycles) >= _MANY and tiny > len(cycles) / 2:
        yield finding(
            "T333",
            Subject(kind="run", name="kernels"),
            f"{tiny} of {len(cycles)} kernels take less than {_SMALL:g} times their set-up of "
            f"{setup} cycles",
            evidence={"tiny": tiny, "kernels": len(cycles), "setup_cycles": setup},
            fix="fuse, batch, or run that part on the CPU",
            origin="simulated",
        )
    yield from _repeated(session, loads)


def _transposes(session: Session) -> Iterator[Finding]:
    found = [n for n in session.nodes if n.op_type == "Transpose" and n.first_seq >= 0]
    cost = sum(n.end - n.start for n in found)
    if not found or cost < _SHARE * session.n_cycles:
        return
    moved = sum(nbytes(session.tensors[n.outputs[0]]) for n in found if n.outputs[0] >= 0)
    worst = max(found, key=lambda n: n.end - n.start)
    yield finding(
        "T332",
        Subject(kind="node", name=safe(worst.label), node=worst.index),
        f"{len(found)} transposes take {cost / session.n_cycles:.0%} of the cycles and move "
        f"{moved:,} bytes; the largest is {safe(worst.label)}",
        evidence={"transposes": len(found), "cycles": cost, "bytes": moved},
        fix="feed the native layout, or transpose where the tensor is smallest",
        origin="simulated",
    )


def _repeated(session: Session, loads: Counter[int]) -> Iterator[Finding]:
    worst: tuple[int, float, TensorRecord] | None = None
    for number, moved in loads.items():
        tensor = session.tensors[number] if 0 <= number < len(session.tensors) else None
        size = nbytes(tensor) if tensor is not None else 0
        readers = max(len(tensor.consumers), 1) if tensor is not None else 1
        if tensor is None or size < _LARGE or moved < _TIMES * size * readers:
            continue
        if worst is None or moved - size > worst[0]:
            worst = (moved - size, moved / size, tensor)
    if worst is None:
        return
    extra, times, tensor = worst
    yield finding(
        "T334",
        Subject(kind="tensor", name=safe(tensor.name), tensor=tensor.id),
        f"{safe(tensor.name)} is loaded {times:.1f} times over; {extra:,} bytes more than it has",
        evidence={"times": round(times, 2), "extra_bytes": extra},
        fix="cut the tiles along the other axis, or split the layer",
        origin="simulated",
    )


def nbytes(tensor: TensorRecord) -> int:
    """Return the size of a tensor's values in bytes, 0 for a non-tensor."""
    if tensor.dtype in NON_TENSOR:
        return 0
    return int(np.prod(tensor.shape, dtype=np.int64)) * numpy_dtype(tensor.dtype).itemsize
