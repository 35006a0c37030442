"""The matrix layers of ResNet-50 for 224x224, from its published shape.

Stages of 3, 4, 6 and 3 bottlenecks with 64, 128, 256 and 512 planes; each is 1x1,
3x3 (with the stride), 1x1 (four times the planes); the first has a 1x1 projection.
"""

from __future__ import annotations

from typing import NamedTuple


class Layer(NamedTuple):
    """A square convolution, or (1x1 on a 1x1 image) a matrix product of one row."""

    name: str
    size: int  # of the input image
    channels: int
    filters: int
    kernel: int = 1
    stride: int = 1
    pad: int = 0

    @property
    def out(self) -> int:
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1


def layers() -> list[Layer]:
    """Return the 53 convolutions and the classifier, in order."""
    found = [Layer("conv1", 224, 3, 64, 7, 2, 3)]
    size, channels = 56, 64
    for stage, (planes, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 2 else 1
            at = f"conv{stage}_{block + 1}"
            after = size // stride
            found.append(Layer(f"{at}_a", size, channels, planes))
            found.append(Layer(f"{at}_b", size, planes, planes, 3, stride, 1))
            found.append(Layer(f"{at}_c", after, planes, 4 * planes))
            if block == 0:
                found.append(Layer(f"{at}_proj", size, channels, 4 * planes, 1, stride))
            size, channels = after, 4 * planes
    found.append(Layer("fc1000", 1, channels, 1000))
    return found


def distinct(found: list[Layer]) -> list[Layer]:
    """Return one layer of each shape."""
    return list({layer[1:]: layer for layer in reversed(found)}.values())[::-1]
