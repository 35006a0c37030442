"""npudbg: the interactive debugger for the chain from a host tensor to the NPU and back."""

__version__ = "0.1.0"
