"""The onnx package's own node tests, run through the simulated device.

Every case that the installed ONNX Runtime passes on the CPU must pass on the
device; the count is printed.  The cases are split so that two workers share them.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from npudbg.device.machine import HostBuffer, Machine
from npudbg.graph.loader import from_proto
from npudbg.session.writer import SessionWriter
from npudbg.targets.profile import Target

PARTS = 8
_LEAST = 1400
"""ONNX Runtime 1.32 passes 1,508 data sets of onnx 1.23; a few more or less elsewhere."""


@cache
def _cases():
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda c: c.name)


def _same(got, want, rtol, atol):
    if isinstance(want, list):
        return (
            isinstance(got, list)
            and len(got) == len(want)
            and all(_same(g, w, rtol, atol) for g, w in zip(got, want, strict=True))
        )
    if want is None or got is None:
        return want is None and got is None
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return False
    if want.dtype.kind in "OUST":
        return bool((got.astype(str) == want.astype(str)).all())
    if got.dtype != want.dtype:
        return False
    if want.dtype.kind in "biu":
        return bool(np.array_equal(got, want))
    wide = "c16" if want.dtype.kind == "c" else "f8"
    return bool(
        np.allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    )


def _onnx_runtime(model, inputs):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(
        None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=False))
    )


def _device(model, inputs, path):
    graph = from_proto(model)
    writer = SessionWriter(path, keep_data=False)
    try:
        machine = Machine(graph, Target(name="generic", title="generic"), writer)
        buffers = {}
        for info, value in zip(model.graph.input, inputs, strict=False):
            tensor = isinstance(value, np.ndarray) and value.dtype.kind not in "OUST"
            buffers[info.name] = HostBuffer(value, 0x1000, value.tobytes() if tensor else b"")
        outcome = machine.run(buffers, {n: i for i, n in enumerate(buffers)})
        assert outcome.status == "complete", outcome.message
        return [outcome.outputs[o.name] for o in model.graph.output]
    finally:
        writer.discard()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_onnx_runtime_passes_the_device_passes(part, tmp_path: Path, record_property):
    passed = total = 0
    failed = []
    for case in _cases()[part::PARTS]:
        for inputs, outputs in case.data_sets:
            atol = max(case.atol, 1e-7)
            try:
                reference = _onnx_runtime(case.model, inputs)
            except Exception:
                continue  # ONNX Runtime itself cannot
            pairs = zip(reference, outputs, strict=True)
            if not all(_same(r, o, case.rtol, atol) for r, o in pairs):
                continue
            total += 1
            try:
                got = _device(case.model, inputs, tmp_path / "s.npudbg")
                pairs = zip(got, reference, strict=True)
                ok = all(_same(g, r, case.rtol, atol) for g, r in pairs)
            except Exception as error:
                ok = False
                failed.append(f"{case.name}: {error}")
            else:
                if not ok:
                    failed.append(f"{case.name}: other values")
            passed += ok
    record_property("onnx_node_cases", f"{passed}/{total}")
    print(f"onnx node cases, part {part + 1} of {PARTS}: {passed} of {total} pass on the device")
    assert total >= _LEAST // PARTS
    assert not failed, failed[:5]
