"""Which operators have a kernel on the device; every other runs on the host."""

from __future__ import annotations

from functools import cache

from npudbg.device.kernels.base import Kernel


@cache
def _table() -> dict[str, Kernel]:
    from npudbg.device.kernels import conv, elementwise, matmul, movement, reduce

    return {
        **elementwise.KERNELS,
        **conv.KERNELS,
        **matmul.KERNELS,
        **reduce.KERNELS,
        **movement.KERNELS,
    }


def kernel_for(op_type: str, domain: str = "") -> Kernel | None:
    """Return the kernel of an operator, or None: it runs on the host."""
    return _table().get(op_type) if domain in ("", "ai.onnx") else None


def has_kernel(op_type: str, domain: str = "") -> bool:
    """Whether the device has a kernel for an operator."""
    return kernel_for(op_type, domain) is not None


def operators() -> tuple[str, ...]:
    """Operators with a kernel, sorted."""
    return tuple(sorted(_table()))
