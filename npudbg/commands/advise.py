"""`npudbg advise MODEL [INPUT…]`: which nodes must stay in fp32 for good outputs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING, Any

from npudbg.commands.advising.formats import FORMATS, caveats, text
from npudbg.commands.options import add_job_options, job_from

if TYPE_CHECKING:
    from npudbg.commands.advising.metric import Metric
    from npudbg.commands.advising.search import Advice

_DEFAULT_RUNS = "200"
_MAX_RUNS = 100_000
_EPILOG = """\
Runs the model in fp32 and in the narrow precision, and then with groups of nodes kept in
fp32, until no node can be left out of the list. The list is proven: the last word is always
a run with exactly these nodes raised. It goes to stdout, all else to stderr.

examples:
  npudbg advise model.onnx x.npy --precision fp16 --metric 'cosine>=0.999'
  npudbg advise model.onnx x.npy --precision fp16 --metric finite --format atc > keep.cfg
  npudbg check model.onnx x.npy --precision fp16 --cast NODE=fp32     # with one of the list

exit code: 0 good as it is, 1 nodes have to be raised (or even that is not enough), 2 wrong usage.
"""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.usage = "%(prog)s MODEL [INPUT ...] --precision fp16 [options]"
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="as for `npudbg check`")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="DEMAND",
        help="finite, cosine>=X, snr>=DB or max-abs<=X, against fp32; all must hold "
        "(repeatable; default cosine>=0.999 and the format's signal to noise: snr>=20 in fp16, "
        "14 in bf16, 10 in int8)",
    )
    parser.add_argument("--format", choices=FORMATS, default="plain", help="of the list")
    parser.add_argument(
        "--max-runs", default=_DEFAULT_RUNS, metavar="N", help=f"default {_DEFAULT_RUNS}"
    )
    parser.add_argument("--json", action="store_true", help="print all as one JSON document")
    add_job_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from npudbg.commands.advising import metric as advise_metric
    from npudbg.commands.advising.search import advise
    from npudbg.session.errors import UserError
    from npudbg.targets.loader import load_toml_text, toml_text

    job = job_from(args)
    if job.faults:
        raise UserError("--fault: the advisor judges number formats; leave faults out")
    target = load_toml_text(toml_text(job.target), job.target)
    precision = job.precision or target.compute.default_precision
    if precision not in target.compute.precisions:
        known = ", ".join(target.compute.precisions)
        raise UserError(f"--precision {precision}: {target.name} computes in {known}")
    if job.calib is not None and precision != "int8":
        raise UserError(f"--calib: has no effect in {precision}; expected --precision int8 with it")
    if precision == "fp32":
        raise UserError("--precision: fp32 is what nodes are raised to; give fp16, bf16 or int8")
    metrics = advise_metric.parse(args.metric or _demands(precision))
    advice = advise(job, metrics, _runs(args.max_runs), _tell)
    if args.json:
        print(json.dumps(_document(advice, precision, args.format), indent=2))
    else:
        _show(advice, precision, metrics, args.format)
    return int(bool(advice.nodes) or not advice.reached)


def _demands(precision: str) -> list[str]:
    """Return what is demanded by default: cosine alone does not see a wrong scale."""
    from npudbg.layers.compare.formats import LEAST_SNR

    return ["cosine>=0.999", f"snr>={LEAST_SNR[precision]:g}"]


def _show(advice: Advice, precision: str, metrics: tuple[Metric, ...], form: str) -> None:
    if advice.first:
        _tell(advice.first)
    for metric in metrics:
        before, after = advice.before[str(metric)], advice.after[str(metric)]
        _tell(f"{metric}: {_number(before)} in {precision}, {_number(after)} with the list "
              "(simulated)")  # fmt: skip
    if not advice.reached:
        _tell(f"not even all {len(advice.nodes)} nodes in fp32 make the outputs good")
        return
    if not advice.nodes:
        _tell(f"the outputs are good in {precision}; nothing has to be raised")
    else:
        shortest = "none can be left out" if advice.smallest else "maybe not the shortest list"
        _tell(f"{len(advice.nodes)} nodes, found in {advice.runs} runs; {shortest}")
        for line in caveats(form, advice.nodes, precision):
            _tell(line)
    listing = text(form, advice.nodes)
    if listing:
        print(listing)


def _document(advice: Advice, precision: str, form: str) -> dict[str, Any]:
    return {
        "format": "npudbg-advice/1",
        "precision": precision,
        "reached": advice.reached,
        "smallest": advice.smallest,
        "runs": advice.runs,
        "nodes": [n.label for n in advice.nodes] if advice.reached else [],
        "before": {k: _json_number(v) for k, v in advice.before.items()},
        "after": {k: _json_number(v) for k, v in advice.after.items()},
        "first": advice.first,
        "origin": "simulated",
        "list": {"format": form, "text": text(form, advice.nodes) if advice.reached else ""},
        "caveats": caveats(form, advice.nodes, precision),
    }


def _runs(text: str) -> int:
    from npudbg.session.errors import UserError
    from npudbg.session.text import safe

    if not (text.isascii() and text.isdigit() and len(text) < 7 and 3 <= int(text) <= _MAX_RUNS):
        raise UserError(f"--max-runs {safe(text)}: expected a whole number from 3 to {_MAX_RUNS}")
    return int(text)


def _number(value: float) -> str:
    return f"{value:.6g}"


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _tell(text: str) -> None:
    from npudbg.session.text import safe

    print(f"npudbg: {safe(text, 240)}", file=sys.stderr)
