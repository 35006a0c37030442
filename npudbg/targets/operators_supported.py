"""Whether a target runs an operator itself, and why not."""

from __future__ import annotations

from npudbg.targets.profile import Target


def supports(target: Target, op_type: str, domain: str, has_kernel: bool) -> tuple[bool, str]:
    """Tell whether an operator runs on the device.

    Args:
        target: The profile.
        op_type: The operator.
        domain: Its domain; ``""`` and ``ai.onnx`` are the standard one.
        has_kernel: Whether npudbg has a kernel for it.

    Returns:
        Yes or no, and the reason (never empty).
    """
    operators = target.operators
    standard = domain in ("", "ai.onnx")
    name = op_type if standard else f"{domain}::{op_type}"
    # A profile speaks of the standard operators by their plain names.
    if standard and op_type in operators.unsupported:
        return False, f"{target.name} does not run {name}"
    if operators.mode == "only" and not (standard and op_type in operators.supported):
        return False, f"{name} is not among the {len(operators.supported)} operators of " + (
            target.name
        )
    if not has_kernel:
        return False, f"npudbg has no device kernel for {name}"
    if operators.mode == "only":
        return True, f"{target.name} lists {name}"
    return True, f"{target.name} does not exclude {name}"
