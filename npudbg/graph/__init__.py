"""ONNX in: a neutral graph, its weights, and the files that feed it."""
