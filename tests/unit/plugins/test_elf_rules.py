"""ELF files against a target: each fault made from bytes is found, its twin is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from elf_writer import EXEC, Elf, Sec, Seg
from hypothesis import given, settings
from hypothesis import strategies as st

from npudbg.layers import catalogue
from npudbg.plugins import UserError
from npudbg.targets import profile
from npudbg_elf.catalogue import entries
from npudbg_elf.image import MAX_HEADERS, read_image
from npudbg_elf.layout_rules import MAX_PER_CODE, judge_image
from npudbg_elf.records import Image

DATA = Path(__file__).parents[2] / "data" / "elf"
GENERIC = profile.Target(name="generic", title="")
HOST = profile.Target(
    name="host",
    title="",
    elf=profile.Elf(machines=(62,), elf_class=64, page_bytes=4096),
)


@pytest.fixture(autouse=True, scope="module")
def _texts():
    catalogue.register(entries())


def target(**fields) -> profile.Target:
    return profile.Target(name="chip", title="", elf=profile.Elf(**fields))


def judge(tmp_path: Path, data: bytes, on: profile.Target = GENERIC):
    path = tmp_path / "f.so"
    path.write_bytes(data)
    return judge_image(read_image(path), on)


def codes(found) -> list[str]:
    return [f.code for f in found]


def good() -> Elf:
    return Elf(
        pad=0x2200,
        sections=[
            Sec(".text", b"\x90" * 64, 0x1000, 16, flags=2 | EXEC),
            Sec(".npu.weights", bytes(256), 0x2000, 4096),
        ],
        segments=[
            Seg(0x1000, 0x1000, offset=0x1000, filesz=64, flags=5),
            Seg(0x2000, 0x1000, offset=0x2000, filesz=256, memsz=512, flags=6),
        ],
    )


# -- the innocent ------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir() if p.suffix != ".md"))
def test_real_files_are_clean_on_their_targets(name):
    image = read_image(DATA / name)
    machine = 164 if "hexagon" in name else 243
    sections = {".npu.weights": 4096, ".vtcm": 128, ".npu.text": 64}
    own = target(machines=(machine,), elf_class=32, sections=sections)
    assert image.machine == machine
    assert judge_image(image, GENERIC) == []
    assert judge_image(image, own) == []


def test_the_systems_own_libraries_are_clean():
    folder = Path("/usr/lib/x86_64-linux-gnu")
    files = [p for p in folder.glob("*.so*") if p.is_file()]
    if not files:
        pytest.skip("no x86-64 system libraries here")
    read = 0
    for path in files:
        found = judge_image(read_image(path), HOST)
        assert [f for f in found if f.severity == "error"] == [], path
        read += 1
    assert read == len(files)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("little", [True, False])
def test_a_good_file_is_clean_and_read_right(tmp_path, bits, little):
    elf = good()
    elf.bits, elf.little = bits, little
    on = target(machines=(62,), page_bytes=4096, segment_alignment=4096, elf_class=bits)
    assert judge(tmp_path, elf.build(), on) == []
    image = read_image(tmp_path / "f.so")
    assert (image.bits, image.order) == (bits, "little" if little else "big")
    assert [s.name for s in image.sections] == ["", ".text", ".npu.weights", ".shstrtab"]
    weights = image.sections[2]
    assert (weights.addr, weights.size, weights.align) == (0x2000, 256, 4096)
    assert (image.segments[1].filesz, image.segments[1].memsz) == (256, 512)


# -- made faults, each with its twin --------------------------------------------------------


def test_misaligned_section(tmp_path):
    elf = good()
    elf.sections[0].addr = 0x1008
    (found,) = judge(tmp_path, elf.build())
    assert (found.code, found.severity, found.subject.name) == ("E506", "error", ".text")
    assert found.evidence == {"addr": 0x1008, "sh_addralign": 16, "remainder": 8}
    elf.type = 1  # in an object no address is set yet
    elf.segments = []
    assert judge(tmp_path, elf.build()) == []


def test_section_alignment_that_is_no_power_of_two(tmp_path):
    elf = good()
    elf.sections[0].align = 24
    assert codes(judge(tmp_path, elf.build())) == ["E507"]
    elf.sections[0].align = 0
    assert judge(tmp_path, elf.build()) == []


def test_a_section_demand_is_the_profiles_own(tmp_path):
    elf = good()
    elf.sections[1].addr, elf.sections[1].align = 0x2040, 64
    data = elf.build()
    assert judge(tmp_path, data) == []
    (found,) = judge(tmp_path, data, target(sections={".npu.": 128, ".npu.weights": 4096}))
    assert (found.code, found.evidence["demand"], found.evidence["remainder"]) == (
        "E508",
        4096,
        0x40,
    )
    assert judge(tmp_path, data, target(sections={".npu.": 64})) == []
    assert codes(judge(tmp_path, data, target(section_alignment=128))) == ["E508"]


def test_an_object_is_judged_by_its_alignment(tmp_path):
    elf = Elf(type=1, sections=[Sec(".vtcm.act", bytes(8), 0, 64)])
    on = target(sections={".vtcm": 128})
    assert codes(judge(tmp_path, elf.build(), on)) == ["E508"]
    elf.sections[0].align = 256
    assert judge(tmp_path, elf.build(), on) == []
    elf.sections[0] = Sec(".vtcm.act", b"", 0, 1)  # empty: nothing to align
    assert judge(tmp_path, elf.build(), on) == []


def test_p_align_24(tmp_path):
    elf = good()
    elf.segments[0].align = 24
    (found,) = judge(tmp_path, elf.build())
    assert (found.code, found.subject.name, found.evidence) == (
        "E509",
        "LOAD 0",
        {"p_align": 24},
    )


def test_congruence(tmp_path):
    elf = good()
    elf.segments[1].vaddr = 0x2010
    (found,) = judge(tmp_path, elf.build())
    assert found.code == "E510"
    assert (found.evidence["offset_remainder"], found.evidence["vaddr_remainder"]) == (0, 0x10)
    elf.segments[1].vaddr = 0x5000  # other page, same remainder
    assert judge(tmp_path, elf.build()) == []


def test_page_of_16k(tmp_path):
    data = good().build()
    (found,) = judge(tmp_path, data, target(page_bytes=0x4000))
    assert found.code == "E511"
    assert "p_align 0x1000" in found.message and "0x4000" in found.message
    assert "max-page-size=16384" in found.fix
    elf = good()
    for at, segment in enumerate(elf.segments):
        segment.align = 0x4000
        segment.vaddr = segment.offset + 0x4000 * at
    elf.sections = []
    assert judge(tmp_path, elf.build() + bytes(0x2000), target(page_bytes=0x4000)) == []
    assert judge(tmp_path, data, target(page_bytes=4096)) == []


def test_segment_demand(tmp_path):
    elf = good()
    for segment in elf.segments:
        segment.align = 0x10
    assert judge(tmp_path, elf.build()) == []
    assert codes(judge(tmp_path, elf.build(), target(segment_alignment=64))) == ["E512", "E512"]


def test_overlapping_segments(tmp_path):
    elf = good()
    elf.segments[1].vaddr, elf.segments[1].offset = 0x1020, 0x1020
    elf.segments[1].align = 0x10
    (found,) = judge(tmp_path, elf.build())
    assert (found.code, found.evidence["shared"]) == ("E513", 0x20)
    elf.segments[1].vaddr = elf.segments[1].offset = 0x1040  # adjacent
    assert judge(tmp_path, elf.build()) == []


def test_writable_code_is_a_note(tmp_path):
    elf = good()
    elf.segments[1].flags = 7
    (found,) = judge(tmp_path, elf.build())
    assert (found.code, found.severity) == ("E514", "info")


def test_machine_and_class(tmp_path):
    data = good().build()
    found = judge(tmp_path, data, target(machines=(183,), elf_class=32))
    assert codes(found) == ["E504", "E505"]
    assert "X86_64" in found[0].message and "AARCH64 (183)" in found[0].message


def test_more_in_the_file_than_in_memory(tmp_path):
    elf = good()
    elf.segments[1].memsz = 100
    (found,) = judge(tmp_path, elf.build())
    assert (found.code, found.evidence) == ("E503", {"filesz": 256, "memsz": 100})


# -- cut and damaged ------------------------------------------------------------------------


def test_every_cut_is_found(tmp_path):
    data = good().build()
    for size in range(4, len(data), 37):
        found = [f for f in judge(tmp_path, data[:size]) if f.code == "E502"]
        assert len(found) == 1, size
        assert found[0].evidence["missing"] == found[0].evidence["needed"] - size > 0
    header = judge(tmp_path, data[:40])[0]
    assert header.evidence["missing"] == 64 - 40
    tail = judge(tmp_path, data[:-1])[0]
    assert (tail.evidence["missing"], tail.evidence["part"]) == (1, "section header table")
    assert tail.evidence["load_segments_whole"] is True
    inside = judge(tmp_path, data[:0x1010])[0]
    assert inside.evidence["load_segments_whole"] is False
    assert judge(tmp_path, data + b"appended") == []


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>", "HTML page"),
        (b"  <html><body>", "HTML page"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n",
            "Git LFS pointer",
        ),
        (b"", "empty file"),
        (bytes(5000), "file of zero bytes"),
        (b"hello, world\n", "text file"),
        (b'{"a": 1}', "JSON text"),
        (b"PK\x03\x04abc", "zip archive"),
        (b"MZ\x90\0", "Windows executable (PE)"),
        (b"!<arch>\n", "ar archive (static library)"),
        (b"\x01\x02\x03\x04\x05", "unknown binary file"),
    ],
)
def test_what_is_no_elf_file(tmp_path, data, kind):
    (found,) = judge(tmp_path, data)
    assert (found.code, found.severity, found.evidence["kind"]) == ("E501", "error", kind)
    assert found.evidence["bytes"] == len(data)


def test_lfs_pointer_says_the_real_size(tmp_path):
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n"
    (found,) = judge(tmp_path, text)
    assert "1234 bytes" in found.message and "git lfs pull" in found.fix


def test_a_linker_script_is_no_error(tmp_path):
    text = b"/* GNU ld script\n*/\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( /lib/libc.so.6 )\n"
    (found,) = judge(tmp_path, text)
    assert (found.severity, found.evidence["kind"]) == ("info", "linker script")


def test_hostile_headers(tmp_path):
    many = good()
    many.shnum = 0  # the count then stands in section 0
    data = bytearray(many.build())
    shoff = int.from_bytes(data[40:48], "little")
    data[shoff + 32 : shoff + 40] = (MAX_HEADERS + 1).to_bytes(8, "little")
    (found,) = judge(tmp_path, bytes(data))
    assert found.code == "E503" and str(MAX_HEADERS) in found.message
    small = good()
    small.shentsize = 1
    (found,) = judge(tmp_path, small.build())
    assert found.code == "E503" and "64 were expected" in found.message
    for at, word in ((4, "EI_CLASS"), (5, "EI_DATA"), (6, "EI_VERSION")):
        data = bytearray(good().build())
        data[at] = 9
        assert word in judge(tmp_path, bytes(data))[0].message


def test_many_faults_of_one_kind_are_counted(tmp_path):
    elf = Elf(sections=[Sec(f".s{n}", b"x", 0x1001, 16) for n in range(100)])
    found = judge(tmp_path, elf.build())
    assert len(found) == MAX_PER_CODE
    assert found[-1].evidence["more"] == 100 - MAX_PER_CODE


def test_names_are_made_safe(tmp_path):
    elf = Elf(sections=[Sec(".x\x1b[31m" + "y" * 5000, b"x", 0x1001, 16)])
    (found,) = judge(tmp_path, elf.build())
    assert "\x1b" not in found.message + found.subject.name
    assert len(found.message) < 600


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_files_never_raise(data):
    raw = bytearray(good().build())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(4, 63) | st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))]
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"npudbg-elf-{os.getpid()}.so"
    path.write_bytes(raw)
    try:
        image = read_image(path)
        for each in judge_image(image, HOST):
            assert each.message.isprintable()
    finally:
        path.unlink()


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_image(tmp_path / "none")
    with pytest.raises(UserError, match="is a directory"):
        read_image(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        read_image(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a file name"):
        read_image("a\0b")


def test_the_reference_tool_agrees(tmp_path):
    """readelf's own reading of the written file, where it is installed."""
    import shutil
    import subprocess

    if shutil.which("readelf") is None:
        pytest.skip("no readelf here")
    path = tmp_path / "f.so"
    path.write_bytes(good().build())
    shown = subprocess.run(
        ["readelf", "-lSW", path], capture_output=True, text=True, check=True
    ).stdout
    image = read_image(path)
    for section in image.sections[1:]:
        assert f"{section.name} " in shown and f"{section.addr:016x}" in shown
    assert shown.count("LOAD") == len(image.loads) == 2


def test_an_image_survives_a_session(tmp_path):
    import msgspec

    image = read_image(DATA / "brisc.elf")
    packed = msgspec.msgpack.encode(msgspec.to_builtins(image))
    assert msgspec.convert(msgspec.msgpack.decode(packed), Image) == image
