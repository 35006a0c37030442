"""The options of `npudbg run` and `npudbg check`, and their texts turned into values.

What a wrong value costs is one line: which option, what was given, what was expected.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    from npudbg.commands.pipeline import Job
    from npudbg.layers.case import Preprocessing

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
GOLDEN_MODES = ("entire", "single", "both")
LAYOUTS = ("NCHW", "NHWC", "NCW", "NWC", "NCDHW", "NDHWC", "NC", "CHW", "HWC")
_MAX_DIM = 2**31 - 1
_MAX_ADDRESS = 2**64 - 1
_MAX_SEED = 2**63 - 1
_MAX_CHANNELS = 4096
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL = re.compile(r"\d{1,20}", re.ASCII)
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}", re.ASCII)

_EPILOG = """\
examples:
  npudbg run detector.onnx frame.npy --target rk3588
  npudbg run detector.onnx --dim batch=1 --dim x.2=640 --dim x.3=640
  npudbg check det.onnx --input x=frame.bin:float32:1x3x640x640 --json
  npudbg check det.onnx frame.npy --host-address x=0x12345000 --save run.npudbg

exit code: 0 no error found, 1 at least one error found, 2 wrong usage or unreadable input.
"""


def prepare_run_parser(parser: argparse.ArgumentParser, *, headless: bool = False) -> None:
    """Add what `run` and `check` take.

    Args:
        parser: The verb's parser.
        headless: The verb never opens the TUI (`check`): leaves ``--headless`` out.
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.usage = "%(prog)s MODEL [INPUT ...] [options]"
    # May be left out for `--fault list`; else `job_from` asks for it.
    parser.add_argument("model", nargs="?", metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help=".npy, .npz, TensorProto .pb, in the model's order (none: made up with --seed)",
    )
    add_job_options(parser)
    _add_golden(parser.add_argument_group("golden"))
    _add_result(parser.add_argument_group("result"), headless)


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run other than the model, its inputs in order and the result's."""
    _add_inputs(parser.add_argument_group("inputs"))
    _add_device(parser.add_argument_group("device"))
    _add_what_if(parser.add_argument_group("what if"))


def _add_inputs(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE[:DTYPE:SHAPE]",
        help="an input by name; raw bytes as x=frame.bin:float32:1x3x224x224 (repeatable)",
    )
    group.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="the size of an open axis: a symbol, or input.AXIS (repeatable)",
    )
    group.add_argument("--seed", default="0", metavar="N", help="of inputs made up (default 0)")
    group.add_argument(
        "--layout",
        action="append",
        default=[],
        metavar="[NAME=]NHWC",
        help="how the given data is laid out (repeatable)",
    )
    for option, what in (
        ("mean", "the mean that the model expects to be taken off"),
        ("std", "the deviation that it expects to be divided by"),
        ("scale", "the factor that it expects, e.g. 1/255"),
    ):
        group.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="[NAME=]V" if option == "scale" else "[NAME=]V[,V…]",
            help=f"{what} (repeatable, by input)",
        )
    group.add_argument(
        "--host-address",
        action="append",
        default=[],
        metavar="NAME=0x…",
        help="where the buffer lies on the board (repeatable)",
    )


def _add_device(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--target", default="generic", metavar="NAME|FILE", help="the chip; see npudbg targets"
    )
    group.add_argument("--precision", choices=PRECISIONS, help="default: the target's own")
    group.add_argument(
        "--accumulate",
        choices=("fp16", "fp32"),
        help="what sums of fp16 operands run in; default: as the target's profile says",
    )
    group.add_argument(
        "--calib",
        metavar="DIR",
        help="int8: take scales from the .npy/.npz inputs or pictures of a directory",
    )
    group.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="SPEC",
        help="inject a fault of the hardware (repeatable); `--fault list` explains each",
    )
    group.add_argument(
        "--manifest",
        metavar="FILE",
        help="facts of the board's runtime, as JSON or TOML (versions, paths)",
    )


def _add_what_if(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TENSOR=FILE",
        help="put the file's values in the place of a tensor or weight before it is read "
        "(.npy, .npz, .pb; repeatable)",
    )
    group.add_argument(
        "--cast",
        action="append",
        default=[],
        metavar="NODE=fp32",
        help="keep a node's results in the model's own type (repeatable)",
    )


def _add_golden(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--golden",
        metavar="WHAT",
        help="compare every tensor with: ort (ONNX Runtime in fp32), a session, a .npz, a "
        "directory of .npy dumps, or [NAME=]FILE for one output",
    )
    group.add_argument(
        "--golden-mode",
        choices=GOLDEN_MODES,
        help="entire: the run as it was; single: each node on golden operands (default entire)",
    )
    group.add_argument("--atol", metavar="X", help="largest |got - golden| (default: by format)")
    group.add_argument("--rtol", metavar="X", help="… plus this share of |golden|")


def _add_result(group: argparse._ArgumentGroup, headless: bool) -> None:
    group.add_argument("--save", metavar="FILE", help="keep the session (.npudbg)")
    group.add_argument("--json", action="store_true", help="print the report as one JSON document")
    if not headless:
        group.add_argument("--headless", action="store_true", help="print the report, no TUI")
    group.add_argument("--plain", action="store_true", help="print the report in ASCII")
    group.add_argument(
        "--sanitize",
        action="store_true",
        help="check SRAM byte by byte: every read against a shadow of what was written, races "
        "between all engines",
    )


def job_from(args: argparse.Namespace) -> Job:
    """Return the parsed job of a `run` or `check` command line.

    Raises:
        UserError: A value is wrong.
    """
    from npudbg.commands.pipeline import Job

    if args.model is None:
        raise UserError("which model? give an ONNX file: npudbg run MODEL [INPUT ...]")
    if "list" in args.fault:
        raise UserError("--fault list: see `npudbg run --fault list`; name one fault here")
    return Job(
        model=args.model,
        feeds=parse_feeds(args.inputs, args.input),
        target=args.target,
        dims=parse_dims(args.dim),
        precision=args.precision,
        accumulate=args.accumulate,
        calib=args.calib,
        preprocessing=parse_preprocessing(args.layout, args.mean, args.std, args.scale),
        host_addresses=parse_host_addresses(args.host_address),
        seed=parse_seed(args.seed),
        save=getattr(args, "save", None),
        faults=tuple(args.fault),
        manifest=parse_manifest(args.manifest),
        raised=parse_casts(args.cast),
        replace=read_replacements(args.set),
        **parse_golden(args),
        options=options_record(args),
        sanitize=getattr(args, "sanitize", False),
    )


def options_record(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given, for the session's record (JSON values)."""
    given = {k: v for k, v in vars(args).items() if v not in (None, False, [], "")}
    return {k: v if isinstance(v, str | int | float | list) else str(v) for k, v in given.items()}


def parse_feeds(inputs: Iterable[str], named: Iterable[str]) -> list[str]:
    """Return all input specifications: those by order, then those by name.

    Raises:
        UserError: ``--input`` without a name.
    """
    specs = list(inputs)
    for spec in named:
        name, equals, file = spec.partition("=")
        if not (name and equals and file):
            raise UserError(
                f"--input {safe(spec)}: expected NAME=FILE, "
                "for example x=frame.npy or x=frame.bin:float32:1x3x224x224"
            )
        specs.append(spec)
    return specs


def parse_dims(specs: Iterable[str]) -> dict[str, int]:
    """Return sizes by symbol or ``input.AXIS`` from ``NAME=N`` texts.

    Raises:
        UserError: Not of that form, no size of 1 or more, or one name with two sizes.
    """
    dims: dict[str, int] = {}
    for spec in specs:
        # A symbol may hold `=`; a size cannot.
        name, equals, text = spec.rpartition("=")
        if not (name and equals):
            raise UserError(f"--dim {safe(spec)}: expected NAME=N, for example batch=1 or x.2=640")
        if not _DECIMAL.fullmatch(text) or not 1 <= int(text) <= _MAX_DIM:
            raise UserError(
                f"--dim {safe(spec)}: {safe(text)!r} is no size; expected a whole number "
                f"from 1 to {_MAX_DIM}"
            )
        if dims.setdefault(name, int(text)) != int(text):
            raise UserError(f"--dim {safe(name)}: given as {dims[name]} and as {text}; keep one")
    return dims


def parse_host_addresses(specs: Iterable[str]) -> dict[str, int]:
    """Return addresses by input name from ``NAME=0x…`` (or decimal) texts.

    Raises:
        UserError: Not of that form, beyond 64 bits, or an input given twice.
    """
    addresses: dict[str, int] = {}
    for spec in specs:
        name, equals, text = spec.rpartition("=")
        if not (name and equals):
            raise UserError(
                f"--host-address {safe(spec)}: expected NAME=ADDRESS, for example x=0x12345000"
            )
        address = _address(text)
        if address is None:
            raise UserError(
                f"--host-address {safe(spec)}: {safe(text)!r} is no address; expected 0x and "
                "up to 16 hexadecimal digits"
            )
        if name in addresses:
            raise UserError(f"--host-address {safe(name)}: given twice; keep one")
        addresses[name] = address
    return addresses


def parse_seed(text: str) -> int:
    """Return the seed.

    Raises:
        UserError: Not a whole number from 0 to 2^63 - 1.
    """
    if not _DECIMAL.fullmatch(text) or int(text) > _MAX_SEED:
        raise UserError(f"--seed {safe(text)}: expected a whole number from 0 to {_MAX_SEED}")
    return int(text)


def parse_preprocessing(
    layouts: Iterable[str] = (),
    means: Iterable[str] = (),
    stds: Iterable[str] = (),
    scales: Iterable[str] = (),
) -> dict[str, Preprocessing]:
    """Return what the model expects of values and layout, by input name.

    Each text is ``VALUE`` for all inputs (key ``""``) or ``NAME=VALUE`` for one; what
    is said for all holds for a named input too, where it says nothing else.

    Raises:
        UserError: A value cannot be read, is zero where it divides, or is given twice.
    """
    fields: dict[str, dict[str, Any]] = {}

    def put(option: str, spec: str, key: str, value: Any, name: str) -> None:
        if key in fields.setdefault(name, {}):
            what = f" for {safe(name)}" if name else ""
            raise UserError(f"--{option} {safe(spec)}: given twice{what}; keep one")
        fields[name][key] = value

    for spec in layouts:
        name, text = _named(spec)
        if text.upper() not in LAYOUTS:
            raise UserError(
                f"--layout {safe(spec)}: {safe(text)!r} is no layout; expected one of "
                f"{', '.join(LAYOUTS)}"
            )
        put("layout", spec, "layout", text.upper(), name)
    for option, specs in (("mean", means), ("std", stds)):
        for spec in specs:
            name, text = _named(spec)
            put(option, spec, option, _numbers(option, spec, text), name)
    for spec in scales:
        name, text = _named(spec)
        put("scale", spec, "scale", _number("scale", spec, text, divides=True), name)
    if not fields:
        return {}
    from npudbg.layers.case import Preprocessing

    everywhere = fields.get("", {})
    return {name: Preprocessing(**{**everywhere, **own}) for name, own in fields.items()}


def parse_manifest(path: str | None) -> dict[str, Any]:
    """Return the facts of a board's runtime from a JSON or TOML file.

    Raises:
        UserError: The file is missing, too large, or not one table of facts.
    """
    if path is None:
        return {}
    from npudbg.commands.manifest import read

    return read(path)


def parse_casts(specs: Iterable[str]) -> frozenset[str]:
    """Return the nodes to keep in the model's type, from ``NODE=fp32`` texts.

    Raises:
        UserError: Not of that form.
    """
    nodes = set()
    for spec in specs:
        name, equals, precision = spec.rpartition("=")
        if not (name and equals and precision == "fp32"):
            raise UserError(f"--cast {safe(spec)}: expected NODE=fp32, for example /ln/Pow=fp32")
        nodes.add(name)
    return frozenset(nodes)


def read_replacements(specs: Iterable[str]) -> dict[str, Any]:
    """Return arrays by tensor name, from ``TENSOR=FILE`` texts (or ``FILE.npz`` for many).

    Raises:
        UserError: A file cannot be read, or does not say for which tensor it is.
    """
    arrays: dict[str, Any] = {}
    for spec in specs:
        from npudbg.graph.feeds import read_feed

        for name, array in read_feed(spec):
            if name is None:
                raise UserError(
                    f"--set {safe(spec)}: expected TENSOR=FILE, for example conv1_out=values.npy"
                )
            if name in arrays:
                raise UserError(f"--set {safe(name)}: given twice; keep one")
            arrays[name] = array
    return arrays


def parse_golden(args: argparse.Namespace) -> dict[str, Any]:
    """Return the job's golden comparison; empty for a verb without one.

    Raises:
        UserError: A tolerance is no number of 0 or more, or is given without ``--golden``.
    """
    what = getattr(args, "golden", None)
    found: dict[str, Any] = {}
    for option in ("atol", "rtol"):
        text = getattr(args, option, None)
        if text is None:
            continue
        if what is None:
            raise UserError(f"--{option}: of no effect without --golden; say what to compare with")
        number = float(text) if _NUMBER.fullmatch(text) and len(text) <= 40 else math.nan
        if not (math.isfinite(number) and number >= 0):
            raise UserError(
                f"--{option} {safe(text)}: expected a number of 0 or more, for example 1e-3"
            )
        found[option] = number
    mode = getattr(args, "golden_mode", None)
    if what is None:
        if mode is not None:
            raise UserError(
                "--golden-mode: of no effect without --golden; say what to compare with"
            )
        return {}
    if not what:
        raise UserError("--golden: expected ort, a session, a .npz, a directory or a file")
    return {"golden": what, "golden_mode": mode or "entire", **found}


def _address(text: str) -> int | None:
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _DECIMAL.fullmatch(text) and int(text) <= _MAX_ADDRESS:
        return int(text)
    return None


def _named(spec: str) -> tuple[str, str]:
    name, equals, text = spec.rpartition("=")
    return (name, text) if equals else ("", spec)


def _numbers(option: str, spec: str, text: str) -> tuple[float, ...]:
    parts = text.split(",")
    if len(parts) > _MAX_CHANNELS:
        raise UserError(f"--{option}: {len(parts)} values; at most {_MAX_CHANNELS} are read")
    return tuple(_number(option, spec, part, divides=option == "std") for part in parts)


def _number(option: str, spec: str, text: str, *, divides: bool) -> float:
    """Read a number or a fraction such as ``1/255``."""
    top, slash, bottom = text.strip().partition("/")
    parts = [top, bottom] if slash else [top]
    value = math.nan
    if all(_NUMBER.fullmatch(part) and len(part) <= 40 for part in parts):
        value = float(top)
        if slash:
            value = value / float(bottom) if float(bottom) else math.nan
    if not math.isfinite(value):
        example = "1/255" if option == "scale" else "0.485,0.456,0.406"
        raise UserError(
            f"--{option} {safe(spec)}: {safe(text)!r} is no number; expected for example {example}"
        )
    if divides and value == 0:
        raise UserError(f"--{option} {safe(spec)}: 0 cannot be divided by or multiplied with")
    return value
