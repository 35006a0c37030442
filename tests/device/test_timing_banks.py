"""Bank conflicts of operands that are read in step: counted word by word, and paid for."""

from __future__ import annotations

import msgspec
import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from npudbg.commands.pipeline import Job, judge_run
from npudbg.device.banks import conflicts, operands_of
from npudbg.graph import loader
from npudbg.session.commands import Kind
from npudbg.session.reader import Session
from npudbg.targets import loader as targets
from npudbg.targets.profile import Memory


@given(
    st.integers(0, 4096), st.integers(0, 4096), st.integers(1, 600), st.integers(1, 600),
    st.sampled_from([1, 2, 8]), st.sampled_from([4, 16]),
)  # fmt: skip
def test_conflicts_are_the_steps_in_which_both_are_in_one_bank(a, b, a_bytes, b_bytes, banks, wide):
    memory = Memory(sram_banks=banks, bank_bytes_per_cycle=wide)
    together = 0
    for step in range(min(-(-a_bytes // wide), -(-b_bytes // wide))):
        together += (a // wide + step) % banks == (b // wide + step) % banks
    want = 0 if a == b else together
    assert conflicts(memory, [(a, a_bytes), (b, b_bytes)]) == want


def added(tmp_path, name, cost, shift):
    """Run an addition of two tensors; ``shift`` elements more move the second's slot."""
    n = 4096 + shift
    x, y = (helper.make_tensor_value_info(k, TensorProto.FLOAT, [n]) for k in "xy")
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [n])
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"], "add")], "g", [x, y], [z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, str(path))
    memory = Memory(sram_bytes=1 << 20, sram_banks=16, bank_bytes_per_cycle=16,
                    bank_conflict_cycles=cost)  # fmt: skip
    board = msgspec.structs.replace(targets.load("generic"), memory=memory)
    arrays = {k: np.ones(n, "f4") for k in "xy"}
    job = Job(str(path), save=str(tmp_path / f"{name}.npudbg"))
    judged = judge_run(job, loader.load(str(path)), board, arrays)
    assert not [f for f in judged.findings if f.code in ("T370", "T371")]
    with Session.open(judged.path) as session:
        rows = session.commands(0, session.n_commands)
        (row,) = rows[rows["kind"] == Kind.KERNEL]
        return int(row["end"] - row["start"]), operands_of(session, row), memory


def test_operands_a_multiple_of_the_stride_apart_wait_for_each_other(tmp_path):
    free, operands, memory = added(tmp_path, "free", 0, 0)
    paid, same, _ = added(tmp_path, "paid", 3, 0)
    # 16 KiB is 64 times the stride of 16 banks of 16 bytes: every word collides.
    (a, nbytes), (b, _) = operands
    assert same == operands
    assert (abs(a - b) % 256, nbytes) == (0, 16_384)
    assert conflicts(memory, operands) == 1024
    assert paid == free + 3 * 1024


def test_operands_in_other_banks_do_not(tmp_path):
    free, _, _ = added(tmp_path, "free", 0, 16)
    paid, ((a, _), (b, _)), _ = added(tmp_path, "paid", 3, 16)
    assert abs(a - b) % 256 == 64
    assert paid == free
