"""Matrix products."""

from __future__ import annotations

from npudbg.device.kernels.base import Box, Kernel, Op, broadcast_box, volume, whole


def _matmul_pair(op: Op, box: Box, a: int, b: int) -> tuple[Box, Box] | None:
    left, right, out = op.operands[a], op.operands[b], op.outputs[0]
    if left is None or right is None or out is None or len(left) < 2 or len(right) < 2:
        return None
    batch, m, n = box[:-2], box[-2], box[-1]
    return (
        (*broadcast_box(left[:-2], out[:-2], batch), m, (0, left[-1])),
        (*broadcast_box(right[:-2], out[:-2], batch), (0, right[-2]), n),
    )


def _matmul(op: Op, box: Box) -> list[Box | None] | None:
    pair = _matmul_pair(op, box, 0, 1)
    return None if pair is None else [*pair, *(None for _ in op.operands[2:])]


def _scaled(op: Op, box: Box, a: int, b: int) -> list[Box | None] | None:
    """Integer products whose scales and zero points are per tensor; others are not cut."""
    pair = _matmul_pair(op, box, a, b)
    if pair is None:
        return None
    boxes: list[Box | None] = []
    for i, shape in enumerate(op.operands):
        if i in (a, b):
            boxes.append(pair[0] if i == a else pair[1])
        elif shape is None:
            boxes.append(None)
        elif shape in ((), (1,)):
            boxes.append(whole(shape))
        else:
            return None
    return boxes


def _matmul_integer(op: Op, box: Box) -> list[Box | None] | None:
    return _scaled(op, box, 0, 1)


def _qlinear_matmul(op: Op, box: Box) -> list[Box | None] | None:
    return _scaled(op, box, 0, 3)


def _gemm(op: Op, box: Box) -> list[Box | None] | None:
    left, right, out = op.operands[0], op.operands[1], op.outputs[0]
    if left is None or right is None or out is None:
        return None
    m, n = box
    a = ((0, left[0]), m) if op.int("transA", 0) else (m, (0, left[1]))
    b = (n, (0, right[1])) if op.int("transB", 0) else ((0, right[0]), n)
    rest = op.operands[2:]
    return [a, b, *(None if s is None else broadcast_box(s, out, box) for s in rest)]


def _axes(op: Op) -> list[int]:
    """Rows first, then columns, then batches."""
    out = op.outputs[0]
    assert out is not None
    rank = len(out)
    return [rank - 2, rank - 1, *range(rank - 2)] if rank >= 2 else []


def _matmul_macs(op: Op, box: Box) -> int:
    left = op.operands[0]
    return volume(box) * left[-1] if left else 0


def _gemm_macs(op: Op, box: Box) -> int:
    left = op.operands[0]
    return volume(box) * left[0 if op.int("transA", 0) else 1] if left else 0


KERNELS: dict[str, Kernel] = {
    "MatMul": Kernel("matmul", "mac", _matmul, _axes, _matmul_macs),
    "MatMulInteger": Kernel("matmul", "mac", _matmul_integer, _axes, _matmul_macs),
    "QLinearMatMul": Kernel("matmul", "mac", _qlinear_matmul, _axes, _matmul_macs),
    "Gemm": Kernel("gemm", "mac", _gemm, lambda op: (0, 1), _gemm_macs),
}
