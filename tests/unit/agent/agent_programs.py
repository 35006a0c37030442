"""Small real programs that use ONNX Runtime, and a debugger that notes what it is told."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from types import ModuleType

import onnx
from onnx import TensorProto, helper

from npudbg.backends.attached_record import Recorder
from npudbg.commands import exec_
from npudbg.commands.attached.debugger import AttachedDebugger, Judges
from npudbg.session.records import Finding, Subject

HEAD = """
import os, sys
import numpy as np, onnxruntime as ort
s = ort.InferenceSession("relu.onnx", providers=["CPUExecutionProvider"])
x = np.arange(-96, 96, dtype="f4").reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)
"""

APP = (
    HEAD
    + """
print(x.ctypes.data, file=open("address.txt", "w"))
y = s.run(None, {"x": x})[0]
print("sum", y.sum(), (y == np.maximum(x, 0)).all())
print("to stderr", file=sys.stderr)
"""
)
NAN_APP = HEAD + 'x = x.copy()\nx[0, 1, 2, 3] = np.nan\ns.run(None, {"x": x})\n'
OUTPUT = "sum 4560.0 True\n"


def write(folder: Path, **programs: str) -> None:
    """Write a model and programs into a folder."""
    shape = [1, 3, "H", "W"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "relu.onnx")
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)


def misplaced(call, placed):
    """A rule of our own, so that these tests need no other: elements out of C order."""
    return [
        Finding(
            code="H999",
            name="misplaced",
            layer=1,
            severity="error",
            certainty="proven",
            subject=Subject(kind="tensor", name=p.record.name, tensor=p.record.id),
            message=f"{p.value.facts['wrong']} of {p.value.facts['size']}",
        )
        for p in placed
        if p.value.facts.get("wrong")
    ]


def debugger(writer=None, outputs=lambda call, placed: [], **options):
    """A debugger with the rule above and no output."""
    return AttachedDebugger(None, Judges(misplaced, outputs), Recorder(writer), **options)


class Notes:
    """A handler that notes events and gives the answers it was told to."""

    def __init__(self, before="continue", after="continue"):
        self.programs, self.sessions, self.befores, self.afters, self.gone = [], [], [], [], []
        self.answers = before, after
        self.ended = threading.Event()
        self.problems = []

    def joined(self, program):
        self.programs.append(program)

    def created(self, session):
        self.sessions.append(session)

    def before(self, call):
        self.befores.append(call)
        return self.answers[0]

    def after(self, call):
        self.afters.append(call)
        return self.answers[1]

    def left(self, program, problem):
        self.gone.append((program.pid, problem))
        self.ended.set()

    def close(self):
        pass

    @property
    def calls(self):
        return len(self.befores)


def parse(command: ModuleType, *argv: str) -> argparse.Namespace:
    """Parse the arguments of a verb."""
    parser = argparse.ArgumentParser()
    command.prepare_parser(parser)
    return parser.parse_args(argv)


def supervise(debugger: AttachedDebugger, *argv: str) -> int:
    """Run a Python program under a debugger; returns its exit code."""
    return exec_.supervise([sys.executable, *argv], debugger)
