"""A session that looks like a real run of a text detector, made without a device.

Every record is consistent: a kernel's row writes the very bytes that its tensor
holds in that box, loads move what was stored before, cycles follow on each
engine, and the NaN in the record is in the bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npudbg.session.commands import ACCESS, COMMAND, Kind, Space
from npudbg.session.records import (
    Counter,
    Finding,
    Meta,
    ModelRecord,
    NodeRecord,
    Subject,
    TensorRecord,
    ValueContract,
    Verdict,
)
from npudbg.session.scan import scan
from npudbg.session.writer import SessionWriter

ENGINES = ("dma0", "dma1", "mac", "vec", "host")
DDR, SRAM = 0x4000_0000, 0x0000_0000
CHANNELS, SIDE = 16, 32
HOSTILE = "[red]x[/] \x1b[2J\x1b]0;owned\x07 \u202e" + "n" * 10_000
TARGET = """
name = "rk3588"
title = "a made-up profile of this test"
[memory]
sram_bytes = 2097152
[dma]
base_alignment = 65536
[cache]
line_bytes = 64
"""


def name_of(number: int) -> tuple[str, str]:
    op = ("Conv", "Relu", "Conv", "Add")[number % 4]
    return op, f"/backbone/blocks.{number // 4}/{op.lower()}{number % 4}/{op}"


def make(
    path: Path | str,
    *,
    nodes: int = 40,
    tiles: int = 128,
    nan_node: int | None = 18,
    hostile: bool = False,
    clean: bool = False,
) -> Path:
    """Write a session of about ``4 * nodes * tiles`` commands.

    Args:
        path: The file.
        nodes: Nodes in a chain.
        tiles: Tiles a node.
        nan_node: The node whose Conv makes the first NaN; None for none.
        hostile: Give a tensor, a node and a finding names that attack the terminal.
        clean: No findings but an informal one.
    """
    writer = SessionWriter(path)
    rng = np.random.default_rng(7)
    shape = (1, CHANNELS, SIDE, SIDE)
    tensors: list[TensorRecord] = []
    addresses = iter(range(DDR, DDR + (1 << 30), 0x1_0000))

    def add(name: str, array: np.ndarray, role: str, **more: object) -> TensorRecord:
        record = TensorRecord(
            id=len(tensors), name=name, role=role, shape=array.shape, dtype=array.dtype.str,
            strides=more.pop("strides", array.strides),
            address=more.pop("address", None) or next(addresses),
            space=more.pop("space", "ddr"), base_nbytes=array.nbytes,
            blob=writer.put_array(array), stats=scan(array), **more,
        )  # fmt: skip
        tensors.append(record)
        return record

    image = rng.random(shape, np.float32)
    add(
        "x", image, "input", space="host", address=0x1234_5000, address_origin="declared",
        origin="measured", owner="ndarray", consumers=(0,),
    )  # fmt: skip
    value, source = image, 0
    node_records: list[NodeRecord] = []
    rows: list[tuple] = []
    reads: list[tuple] = []
    free = dict.fromkeys(range(len(ENGINES)), 0)
    busy = [0] * 4
    rows_per = SIDE * CHANNELS // tiles
    for number in range(nodes):
        op, label = name_of(number)
        if hostile and number == 3:
            label = HOSTILE
        weight = None
        if op == "Conv":
            weight = add(
                f"blocks.{number // 4}.conv{number % 4}.weight",
                rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float16),
                "weight",
                consumers=(number,),
            )
        with np.errstate(all="ignore"):
            value = (value * np.float32(1.01) - np.float32(0.02)).astype(np.float16)
            if op == "Relu":
                value = np.maximum(value, np.float16(0))
        if nan_node is not None and number == nan_node:
            value = value.copy()
            value[0, 5, 12, 7:9] = np.nan
        name = HOSTILE if hostile and number == 3 else f"{label}_output_0"
        out_id = len(tensors)
        first = len(rows)
        begin = min(free[0], free[2])
        for tile in range(tiles):
            channel, at = divmod(tile * rows_per, SIDE)
            box = [(0, 1), (channel, channel + 1), (at, at + rows_per), (0, SIDE), (0, 1), (0, 1)]
            size = rows_per * SIDE * 2
            sram = SRAM + (tile % 4) * 0x4000
            place = tensors[source].address + (channel * SIDE + at) * SIDE * 2
            goal = DDR + 0x1000_0000 + number * 0x1_0000 + (channel * SIDE + at) * SIDE * 2
            unit = 2 if op == "Conv" else 3

            def issue(kind, engine, cost, src, dst, tensor, after=0, tile=tile, number=number,
                      box=box, size=size):  # fmt: skip
                start = max(free[engine], after)
                free[engine] = start + cost
                seq = len(rows)
                rows.append(
                    (seq, start, start + cost, src[1], dst[1], size, number, tensor, tile, kind,
                     engine, 0, src[0], dst[0], 0, 0, box)
                )  # fmt: skip
                return seq, start + cost

            space = Space.HOST if source == 0 else Space.DDR
            load, done = issue(
                Kind.DMA_LOAD,
                tile % 2,
                180,
                (space, place),
                (Space.SRAM, sram),
                source,
                busy[tile % 4],
            )
            if weight is not None:
                _, done = issue(
                    Kind.DMA_LOAD, tile % 2, 60, (Space.DDR, weight.address + channel * 288),
                    (Space.SRAM, SRAM + 0x2_0000), weight.id, size=288,
                    box=[(channel, channel + 1), (0, CHANNELS), (0, 3), (0, 3), (0, 1), (0, 1)],
                )  # fmt: skip
            kernel, done = issue(
                Kind.KERNEL, unit, 410 if unit == 2 else 90, (Space.SRAM, sram),
                (Space.SRAM, sram + 0x1_0000), out_id, done,
            )  # fmt: skip
            reads.append((kernel, sram, size, source, 0, Space.SRAM, 0, load))
            issue(
                Kind.DMA_STORE, 1, 170, (Space.SRAM, sram + 0x1_0000), (Space.DDR, goal), out_id,
                done,
            )  # fmt: skip
            busy[tile % 4] = done
        last = len(rows) - 1
        inputs = (source,) if weight is None else (source, weight.id)
        add(
            name, value, "output" if number == nodes - 1 else "activation",
            address=DDR + 0x1000_0000 + number * 0x1_0000, producer=number, owner="device",
            consumers=(number + 1,) if number + 1 < nodes else (),
            first_seq=next(r[0] for r in rows[first:] if r[7] == out_id), last_seq=last,
        )  # fmt: skip
        node_records.append(
            NodeRecord(
                index=number, name=label, op_type=op, inputs=inputs, outputs=(out_id,),
                attributes={"kernel_shape": "[3, 3]"} if op == "Conv" else {},
                kernel=op.lower(), engine="mac" if op == "Conv" else "vec", group=number,
                tiles=tiles, first_seq=first, last_seq=last, start=begin,
                end=max(r[2] for r in rows[first:]), macs=2_359_296 if op == "Conv" else 0,
            )
        )  # fmt: skip
        source = out_id
    for record in node_records:
        writer.add_node(record)
    for record in tensors:
        writer.add_tensor(record)
    writer.append_commands(np.array(rows, COMMAND))
    writer.append_accesses(np.array(reads, ACCESS))
    findings, verdict = ([], Verdict(layer=0, code="", summary="nothing is at fault"))
    if nan_node is not None and not clean:
        findings, verdict = judged(tensors, node_records, rows, nan_node, hostile)
    writer.add_findings(findings)
    writer.set_verdict(verdict)
    writer.set_counters(
        [
            Counter(name="pe_utilisation", value=0.36, unit="fraction", healthy="> 70%",
                    dangerous="< 40%"),
            Counter(name="dma_saturation", value=0.71, unit="fraction", healthy="< 60%",
                    dangerous="> 95%"),
            Counter(name="host_share", value=0.0, unit="fraction", origin="estimated"),
            Counter(name="dma_bytes", value=2_621_440 * 3, unit="bytes"),
        ]
    )  # fmt: skip
    writer.set_meta(
        Meta(
            version="0.1.0", created="2026-01-05T10:00:00+00:00", target="rk3588",
            target_toml=TARGET, precision="fp16", clock_hz=1_000_000_000, engines=ENGINES,
            model=ModelRecord(
                name="ppocr_det.onnx", path="ppocr_det.onnx", opset={"": 14},
                inputs=(ValueContract(name="x", dtype="<f4", shape=("N", CHANNELS, SIDE, SIDE)),),
                outputs=(ValueContract(name="y", dtype="<f2", shape=None),),
            ),
            notes=("axis N of input x bound to 1 by the input given",),
        )
    )  # fmt: skip
    return writer.close()


def judged(tensors, nodes, rows, nan_node, hostile):
    node = nodes[nan_node]
    tensor = tensors[node.outputs[0]]
    # Row (5, 12) of the tensor lies in this tile; its kernel wrote the first NaN.
    tiles = node.tiles
    tile = (5 * SIDE + 12) // (SIDE * CHANNELS // tiles)
    seq = next(
        r[0] for r in rows
        if r[6] == nan_node and r[8] == tile and r[9] == Kind.KERNEL
    )  # fmt: skip
    subject = Subject(kind="tensor", name=tensor.name, tensor=tensor.id, node=nan_node, seq=seq)
    output = tensors[-1]
    findings = [
        Finding(
            code="H110", name="misaligned-base", layer=1, severity="warning", certainty="proven",
            subject=Subject(kind="tensor", name="x", tensor=0),
            message="x lies at 0x12345000; the DMA engine of rk3588 wants 64 KiB (rest 0x5000)",
            evidence={"address": 0x12345000, "alignment": 65536, "remainder": 0x5000},
            fix="allocate with posix_memalign(65536) and check the address at start-up",
        ),
        Finding(
            code="T399", name="batchnorm-not-fused", layer=3, severity="info", certainty="proven",
            subject=Subject(kind="node", name=nodes[4].label, node=4),
            message="BatchNormalization was not fused into Conv",
            evidence={"nodes": 3}, origin="simulated",
        ),
        Finding(
            code="O401", name="non-finite-origin", layer=4, severity="error", certainty="proven",
            subject=subject,
            message=f"{node.label} (Conv): 2 NaN of 16384 elements, first at [0, 5, 12, 7]; "
            "all operands are finite",
            evidence={"nan": 2, "pos_inf": 0, "elements": 16384, "first": [0, 5, 12, 7],
                      "bytes": "007e"},
            fix="run this node in fp32, or scale its input",
            origin="simulated",
        ),
        Finding(
            code="O402", name="non-finite-output", layer=4, severity="error", certainty="proven",
            subject=Subject(kind="tensor", name=output.name, tensor=output.id,
                            node=output.producer),
            message=f"output {output.name[:60]} holds 2 NaN of 16384",
            evidence={"nan": 2, "elements": 16384}, origin="simulated", related=(subject,),
        ),
    ]  # fmt: skip
    if hostile:
        findings.append(
            Finding(
                code="G601",
                name="hostile",
                layer=0,
                severity="info",
                certainty="suspected",
                subject=Subject(kind="node", name=HOSTILE, node=3),
                message=HOSTILE,
                evidence={HOSTILE: HOSTILE},
                source="graph",
            )
        )
    verdict = Verdict(
        layer=4, code="O401", finding=2,
        summary=f"NaN begins in {node.label} (Conv): operands finite, result not",
        chain=(f"{node.label} makes 2 NaN at [0, 5, 12, 7]",
               f"{nodes[-1].label} passes them on to the output"),
        ruled_out=("layer 1 host: buffer read as meant (alignment warned of)",
                   "layer 2 input: shape, dtype and range agree with the model",
                   "layer 3 trace: every command ended"),
    )  # fmt: skip
    return findings, verdict
