"""A small recorded run with a NaN in it, written as a backend would."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npudbg.session.commands import COMMAND, Kind
from npudbg.session.records import Finding, Meta, NodeRecord, Stats, Subject, TensorRecord
from npudbg.session.writer import SessionWriter

# x ─ conv1 ─ t1 ─ relu ─ t2 ─┬─ conv2(w NaN) ─ t3 ─ add ─ y
#                             └─────────────────────┘   and t2 ─ shape ─ s (host)
TENSORS = [
    ("x", "input", -1, (0,)),
    ("w1", "weight", -1, (0,)),
    ("t1", "activation", 0, (1,)),
    ("t2", "activation", 1, (2, 3, 4)),
    ("w2", "weight", -1, (2,)),
    ("t3", "activation", 2, (3,)),
    ("y", "output", 3, ()),
    ("s", "output", 4, ()),
]
NODES = [
    ("conv1", "Conv", (0, 1), (2,), "conv", 0),
    ("relu", "Relu", (2,), (3,), "conv", 0),
    ("conv2", "Conv", (3, 4), (5,), "conv", 1),
    ("", "Add", (5, 3), (6,), "eltwise", 2),
    ("shape", "Shape", (3,), (7,), "host", 3),
]


def write(path: Path, *, nan: tuple[str, ...] = ("w2", "t3", "y"), **status: str) -> Path:
    writer = SessionWriter(path)
    writer.set_meta(Meta(target="generic", engines=("dma0", "mac")))
    for at, (name, role, producer, consumers) in enumerate(TENSORS):
        writer.add_tensor(
            TensorRecord(
                id=at, name=name, role=role, shape=(1, 4), dtype="<f4", producer=producer,
                consumers=consumers, stats=Stats(count=4, nan=2 if name in nan else 0),
            )
        )  # fmt: skip
    for index, (name, op, reads, writes, kernel, group) in enumerate(NODES):
        writer.add_node(
            NodeRecord(
                index=index, name=name, op_type=op, inputs=reads, outputs=writes, kernel=kernel,
                engine="host" if kernel == "host" else "mac", group=group,
                first_seq=index * 3, last_seq=index * 3 + 2, status=status.get(name, "ok"),
            )
        )  # fmt: skip
    rows = np.zeros(15, COMMAND)
    rows["seq"] = np.arange(15)
    rows["node"] = np.arange(15) // 3
    rows["kind"] = Kind.KERNEL
    writer.append_commands(rows)
    fused = [([0, 1], "conv+relu"), ([2], "conv"), ([3], "eltwise"), ([4], "host")]
    writer.set_extra(
        "stages",
        {
            "fused": [
                {"group": g, "nodes": nodes, "kernel": kernel, "engine": "mac"}
                for g, (nodes, kernel) in enumerate(fused)
            ]
        },
    )
    if "t3" in nan:
        writer.add_findings(
            [
                Finding(
                    code="O401", name="first-nan", layer=4, severity="error", certainty="proven",
                    subject=Subject(kind="tensor", name="t3", tensor=5), message="2 NaN in t3",
                )
            ]
        )  # fmt: skip
    return writer.close()
