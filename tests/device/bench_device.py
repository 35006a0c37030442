"""Helpers of the device tests: small models, small targets, one call to run them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from npudbg.device.faults.touch import Injection
from npudbg.device.machine import HostBuffer, Machine, Outcome
from npudbg.graph.loader import from_proto
from npudbg.session.reader import Session
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Clock, Compute, Memory, Target

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64}


def model(nodes, inputs, outputs, weights=None, opset=17):
    """Make a checked ModelProto; ``inputs`` maps names to arrays, ``outputs`` are names."""
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    inferred = onnx.shape_inference.infer_shapes(made)
    del made.graph.output[:]
    known = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output)}
    made.graph.output.extend(known[n] for n in outputs)
    return made


def tiny(sram: int = 4096, **more) -> Target:
    """A target whose SRAM forces many tiles."""
    return Target(
        name="tiny", title="tiny", memory=Memory(sram_bytes=sram), clock=Clock(),
        compute=more.pop("compute", Compute()), **more,
    )  # fmt: skip


def run(proto, inputs, path: Path, *, target=None, injections=(), **options):
    """Run a model on the device; returns the outcome and the open session."""
    writer = SessionWriter(path)
    machine = Machine(from_proto(proto), target or tiny(), writer, injections=injections, **options)
    buffers = {n: HostBuffer(a, 0x10000, np.asarray(a).tobytes()) for n, a in inputs.items()}
    outcome: Outcome = machine.run(buffers, {n: i for i, n in enumerate(buffers)})
    from npudbg.session.records import TensorRecord

    for i, (name, array) in enumerate(inputs.items()):
        writer.add_tensor(
            TensorRecord(
                id=i, name=name, role="input", shape=array.shape, dtype=array.dtype.str,
                blob=writer.put_array(array),
            )
        )  # fmt: skip
    writer.close(status=outcome.status)
    return outcome, Session.open(path)


def reference(proto, inputs):
    """What ONNX Runtime gives, unoptimised."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(inputs)), strict=True))


__all__ = ["Injection", "helper", "model", "reference", "run", "tiny"]
