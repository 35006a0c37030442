"""Convolution and pooling: windows that slide over spatial axes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from npudbg.device.kernels.base import Box, Kernel, Op, volume, whole


class Window:
    """Geometry of a sliding window over the spatial axes of an ``N C *spatial`` tensor."""

    def __init__(self, op: Op, kernel: list[int], spatial: tuple[int, ...]) -> None:
        """Read strides, dilations and pads, with ``auto_pad`` resolved."""
        rank = len(spatial)
        self.kernel = kernel
        self.strides = op.ints("strides", [1] * rank)
        self.dilations = op.ints("dilations", [1] * rank)
        pads = op.ints("pads", [0] * (2 * rank))
        auto = op.text("auto_pad", "NOTSET")
        self.begin = pads[:rank]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            for i in range(rank):
                out = -(-spatial[i] // self.strides[i])
                reach = (kernel[i] - 1) * self.dilations[i] + 1
                total = max((out - 1) * self.strides[i] + reach - spatial[i], 0)
                self.begin[i] = total // 2 if auto == "SAME_UPPER" else total - total // 2
        elif auto == "VALID":
            self.begin = [0] * rank
        self.spatial = spatial

    def reach(self, box: Box) -> Box:
        """Return the input's spatial region that output region ``box`` reads."""
        region = []
        for i, (start, stop) in enumerate(box):
            span = (self.kernel[i] - 1) * self.dilations[i] + 1
            low = start * self.strides[i] - self.begin[i]
            high = (stop - 1) * self.strides[i] - self.begin[i] + span
            low, high = max(low, 0), min(high, self.spatial[i])
            region.append((min(low, self.spatial[i]), max(high, min(low, self.spatial[i]))))
        return tuple(region)


def _channels(start: int, stop: int, per_out: int, per_in: int) -> tuple[int, int]:
    """Input channels behind output channels ``start:stop`` of a grouped convolution."""
    return (start // per_out) * per_in, -(-stop // per_out) * per_in


def _conv_boxes(op: Op, box: Box, x: int, w: int) -> tuple[Box, Box] | None:
    image, weight, out = op.operands[x], op.operands[w], op.outputs[0]
    if image is None or weight is None or out is None or len(image) < 3:
        return None
    group = op.int("group", 1)
    window = Window(op, op.ints("kernel_shape", weight[2:]), image[2:])
    inner = _channels(*box[1], out[1] // group, image[1] // group)
    region = (box[0], inner, *window.reach(box[2:]))
    return region, (box[1], *whole(weight)[1:])


def _conv(op: Op, box: Box) -> list[Box | None] | None:
    pair = _conv_boxes(op, box, 0, 1)
    if pair is None:
        return None
    return [*pair, *(None if s is None else (box[1],) for s in op.operands[2:])]


def _per_tensor_or_channel(shape: tuple[int, ...] | None, channels: tuple[int, int]) -> Box | None:
    if shape is None:
        return None
    return whole(shape) if len(shape) == 0 or shape == (1,) else (channels,)


def _conv_integer(op: Op, box: Box) -> list[Box | None] | None:
    pair = _conv_boxes(op, box, 0, 1)
    if pair is None:
        return None
    rest = op.operands[2:]
    boxes: list[Box | None] = [*pair]
    boxes += [None if s is None else whole(s) for s in rest[:1]]
    boxes += [_per_tensor_or_channel(s, box[1]) for s in rest[1:]]
    return boxes


def _qlinear_conv(op: Op, box: Box) -> list[Box | None] | None:
    pair = _conv_boxes(op, box, 0, 3)
    if pair is None:
        return None
    s = op.operands
    result: list[Box | None] = [pair[0]]
    result += [None if v is None else whole(v) for v in s[1:3]]
    result.append(pair[1])
    result += [_per_tensor_or_channel(v, box[1]) for v in s[4:6]]
    result += [None if v is None else whole(v) for v in s[6:8]]
    result += [_per_tensor_or_channel(v, box[1]) for v in s[8:]]
    return result


def _conv_transpose(op: Op, box: Box) -> list[Box | None] | None:
    image, weight, out = op.operands[0], op.operands[1], op.outputs[0]
    plain = op.text("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    if image is None or weight is None or out is None or len(image) < 3:
        return None
    if op.int("group", 1) != 1 or not plain or "output_shape" in op.attributes:
        return [None if s is None else whole(s) for s in op.operands]
    rank = len(image) - 2
    kernel = op.ints("kernel_shape", weight[2:])
    strides, dilations = op.ints("strides", [1] * rank), op.ints("dilations", [1] * rank)
    pads = op.ints("pads", [0] * (2 * rank))
    region = []
    for i, (start, stop) in enumerate(box[2:]):
        # Output o gets input j where j*stride - pad + k*dilation == o for some tap k.
        low = -(-(start + pads[i] - (kernel[i] - 1) * dilations[i]) // strides[i])
        high = (stop - 1 + pads[i]) // strides[i] + 1
        low, high = max(low, 0), min(high, image[2 + i])
        region.append((min(low, image[2 + i]), max(high, min(low, image[2 + i]))))
    boxes: list[Box | None] = [
        (box[0], (0, image[1]), *region),
        ((0, image[1]), box[1], *whole(weight)[2:]),
    ]
    return boxes + [None if s is None else (box[1],) for s in op.operands[2:]]


def _pool(op: Op, box: Box) -> list[Box | None] | None:
    image = op.operands[0]
    if image is None or len(image) < 3 or "kernel_shape" not in op.attributes:
        return None
    window = Window(op, op.ints("kernel_shape", ()), image[2:])
    return [(*box[:2], *window.reach(box[2:]))]


def _global_pool(op: Op, box: Box) -> list[Box | None] | None:
    image = op.operands[0]
    return None if image is None else [(*box[:2], *whole(image)[2:])]


def _conv_axes(op: Op) -> list[int]:
    """Rows first (weights stay), then output channels, columns, batch."""
    out = op.outputs[0]
    assert out is not None
    return [2, 1, *range(3, len(out)), 0]


def _image_axes(op: Op) -> list[int]:
    out = op.outputs[0]
    assert out is not None
    return [1, 2, 0, *range(3, len(out))] if len(out) > 2 else list(range(len(out)))


def _transpose_axes(op: Op) -> list[int]:
    simple = op.int("group", 1) == 1 and "output_shape" not in op.attributes
    plain = op.text("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    return _conv_axes(op) if simple and plain else []


def conv_macs(weight: int) -> Callable[[Op, Box], int]:
    """Return a multiply-accumulate counter; the weight is operand ``weight``."""

    def macs(op: Op, box: Box) -> int:
        shape = op.operands[weight]
        return volume(box) * prod(shape[1:]) if shape is not None else 0

    return macs


def _transposed_macs(op: Op, box: Box) -> int:
    image, weight, out = op.operands[0], op.operands[1], op.outputs[0]
    if image is None or weight is None or out is None:
        return 0
    total = prod(image) * prod(weight[1:])
    return total * volume(box) // max(prod(out), 1)


_TWO = lambda op: (0, 1)  # noqa: E731

KERNELS: dict[str, Kernel] = {
    "Conv": Kernel("conv", "mac", _conv, _conv_axes, conv_macs(1)),
    "ConvInteger": Kernel("conv", "mac", _conv_integer, _conv_axes, conv_macs(1)),
    "QLinearConv": Kernel("conv", "mac", _qlinear_conv, _conv_axes, conv_macs(3)),
    "ConvTranspose": Kernel("deconv", "mac", _conv_transpose, _transpose_axes, _transposed_macs),
    "MaxPool": Kernel("maxpool", "vec", _pool, _image_axes),
    "AveragePool": Kernel("avgpool", "vec", _pool, _image_axes),
    "LpPool": Kernel("lppool", "vec", _pool, _image_axes, cost=2),
    "GlobalAveragePool": Kernel("globalavgpool", "vec", _global_pool, _TWO),
    "GlobalMaxPool": Kernel("globalmaxpool", "vec", _global_pool, _TWO),
    "GlobalLpPool": Kernel("globallppool", "vec", _global_pool, _TWO, cost=2),
}
