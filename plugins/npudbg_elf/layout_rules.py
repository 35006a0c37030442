"""What a loader demands of a file's headers, against the target's profile.

Every demand beyond the ELF format's own stands in the profile: a file that is right
for one chip's loader breaks another's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from npudbg.plugins import Finding, Target, finding
from npudbg_elf import file_rules, section_rules, segment_rules
from npudbg_elf.records import Image
from npudbg_elf.subjects import SOURCE

MAX_PER_CODE = 20


def judge_image(image: Image, target: Target) -> list[Finding]:
    """Return what is wrong with a file for this target."""
    if image.kind != "elf":
        return [file_rules.not_elf(image)]
    judges: tuple[Callable[[Image, Target], Iterable[Finding]], ...] = (
        file_rules.header,
        file_rules.cut,
        file_rules.machine,
        section_rules.sections,
        segment_rules.segments,
        segment_rules.pages,
        segment_rules.overlaps,
        segment_rules.writable_code,
    )
    found: list[Finding] = []
    for judge in judges:
        found.extend(_capped(judge(image, target)))
    return found


def _capped(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the first findings of each code, and say in the last how many are left out."""
    kept: dict[str, list[Finding]] = {}
    left: dict[str, int] = {}
    for each in findings:
        same = kept.setdefault(each.code, [])
        if len(same) < MAX_PER_CODE:
            same.append(each)
        else:
            left[each.code] = left.get(each.code, 0) + 1
    for code, count in left.items():
        last = kept[code][-1]
        kept[code][-1] = finding(
            code,
            last.subject,
            f"{last.message} … and {count} more like this",
            evidence={**last.evidence, "more": count},
            fix=last.fix,
            severity=last.severity,
            related=last.related,
            source=SOURCE,
        )
    return [each for same in kept.values() for each in same]
