"""The verb ``npudbg elf FILE…``: what a loader, or the chip, would refuse of these files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from npudbg.plugins import (
    Finding,
    Line,
    Meta,
    SessionWriter,
    Target,
    UserError,
    exit_code,
    finding_dict,
    finding_lines,
    line,
    safe,
    write_json,
    write_lines,
)
from npudbg_elf.abi_rules import judge_abi, judge_environment
from npudbg_elf.image import read_image
from npudbg_elf.layout_rules import judge_image
from npudbg_elf.names import machine_name, type_name
from npudbg_elf.panel import EXTRA, describe, image_lines
from npudbg_elf.records import Image
from npudbg_elf.search_rules import judge_search
from npudbg_elf.versions import Version, parse_version

SCHEMA = "npudbg.elf/1"


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.description = (
        "Check ELF files (libraries, kernels, firmware, compiled blobs) against a target: "
        "alignment of sections and segments, page size, machine and class, cut files, files "
        "that are no ELF files; with --search also what the dynamic loader would find."
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument(
        "--target", default="generic", metavar="NAME|FILE", help="target profile (default: generic)"
    )
    parser.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="DIR",
        help="a directory of the loader's search path, in order (repeatable): finds shadowed "
        "and missing libraries and undefined symbols",
    )
    parser.add_argument(
        "--abi",
        action="append",
        default=[],
        metavar="[SECTION=]X.Y.Z",
        help="the device's version, compared with the file's version sections",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the board's environment, e.g. ADSP_LIBRARY_PATH=…",
    )
    parser.add_argument("--sections", action="store_true", help="list sections and segments")
    parser.add_argument("--save", metavar="SESSION", help="keep files' headers and findings")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Check the files; returns 1 if one has an error, else 0.

    Raises:
        UserError: Wrong usage, or a file or directory that cannot be read.
    """
    if not args.files and not args.env:
        raise UserError("elf: no FILE given; expected `npudbg elf FILE… [--target NAME]`")
    from npudbg.plugins import load_target

    target = load_target(args.target)
    abi = [_abi(text) for text in args.abi]
    environment = [_environment(text) for text in args.env]
    for directory in args.search:
        if not Path(directory).is_dir():
            raise UserError(f"--search {safe(directory)}: no such directory")
    found: list[Finding] = []
    for name, value in environment:
        found += judge_environment(name, value)
    images: list[Image] = []
    per_file: list[list[Finding]] = []
    for path in args.files:
        image = read_image(path)
        images.append(image)
        mine = judge_image(image, target)
        damaged = any(f.code in ("E502", "E503") for f in mine)
        mine += [] if damaged else judge_abi(image, abi)
        mine += [] if damaged else judge_search(image, args.search)
        per_file.append(mine)
    everything = [*found, *(f for mine in per_file for f in mine)]
    if args.save:
        _save(args.save, target, images, everything)
    if args.json:
        write_json(_document(target, images, everything, args.save))
    else:
        write_lines(_text(target, images, per_file, found, sections=args.sections))
    return exit_code(everything)


def _text(
    target: Target,
    images: list[Image],
    per_file: list[list[Finding]],
    found: list[Finding],
    *,
    sections: bool,
) -> list[Line]:
    lines = [each for f in found for each in finding_lines(f)]
    for image, mine in zip(images, per_file, strict=True):
        worst = "error" if exit_code(mine) else ("notes" if mine else "ok")
        lines.append(line(f"{safe(image.path)}: {describe(image)}: {worst}"))
        if sections:
            lines += image_lines(image, target)[1:]
        lines += [each for f in mine for each in finding_lines(f)]
    if images:
        bad = sum(exit_code(mine) for mine in per_file)
        files = "1 file" if len(images) == 1 else f"{len(images)} files"
        lines.append(line(f"{files} on {safe(target.name)}: {bad} with errors"))
    return lines


def _document(
    target: Target, images: list[Image], found: list[Finding], session: str | None
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "target": target.name,
        "files": [
            {
                **msgspec.to_builtins(image),
                "machine_name": machine_name(image.machine) if image.bits else "",
                "type_name": type_name(image.type) if image.bits else "",
            }
            for image in images
        ],
        "findings": [finding_dict(f) for f in found],
        "session": session,
    }


def _save(path: str, target: Target, images: list[Image], found: list[Finding]) -> None:
    writer = SessionWriter(path)
    try:
        writer.set_meta(Meta(backend="elf", target=target.name))
        writer.set_extra(EXTRA, msgspec.to_builtins(images))
        writer.add_findings(found)
        writer.close()
    except BaseException:
        writer.discard()
        raise


def _abi(text: str) -> tuple[str, Version]:
    name, _, number = text.rpartition("=")
    version = parse_version(number)
    if version is None:
        raise UserError(f"--abi {safe(text)}: expected a version such as 6.1.0 or SECTION=6.1.0")
    return name, version


def _environment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UserError(f"--env {safe(text)}: expected NAME=VALUE")
    return name, value
