"""The simulated NPU: it executes bytes, tile by tile."""
