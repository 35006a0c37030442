"""What the dynamic loader would find: shadowed and missing libraries, symbols, versions."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elf_writer import Elf, Sec, note, shared_library

from npudbg.layers import catalogue
from npudbg_elf.abi_rules import judge_abi, judge_environment
from npudbg_elf.catalogue import entries
from npudbg_elf.dynamic import DamagedError, read_dynamic
from npudbg_elf.image import Reader, read_image
from npudbg_elf.search_rules import judge_search
from npudbg_elf.versions import library_version, parse_version


@pytest.fixture(autouse=True, scope="module")
def _texts():
    catalogue.register(entries())


def put(folder: Path, name: str, **what) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(shared_library(**what))
    return str(path)


def rodata(text: bytes) -> tuple[Sec, ...]:
    return (Sec(".rodata", text, 0, 1),)


def test_dynamic_tables(tmp_path):
    path = put(
        tmp_path, "liba.so", soname="liba.so.1", needed=("libb.so", "libc.so.6"),
        defined=("go",), undefined=("helper",), weak=("maybe",),
    )  # fmt: skip
    dynamic = read_dynamic(path)
    assert dynamic.soname == "liba.so.1"
    assert dynamic.needed == ("libb.so", "libc.so.6")
    assert dynamic.defined == {"go"}
    assert dynamic.undefined == ("helper",)


# -- B56: an undefined symbol that no needed library provides --------------------------------


def test_undefined_symbol_of_a_dependency(tmp_path):
    app = put(tmp_path, "libdelegate.so", needed=("libc++abi.so.1",), undefined=("cxa",))
    put(tmp_path / "lib", "libc++abi.so.1", needed=("libunwind.so",), defined=("cxa",),
        undefined=("_Unwind_SetIP",))  # fmt: skip
    put(tmp_path / "lib", "libunwind.so", defined=("_Unwind_GetIP",))
    (found,) = judge_search(read_image(app), [str(tmp_path / "lib")])
    assert (found.code, found.severity, found.certainty) == ("E524", "error", "proven")
    assert found.message == (
        "undefined symbol _Unwind_SetIP needed by libc++abi.so.1; no DT_NEEDED library provides it"
    )
    assert found.evidence["symbols"] == ["_Unwind_SetIP"]
    assert found.evidence["libraries_searched"] == 3
    # The twin: the right unwinder.
    put(tmp_path / "lib", "libunwind.so", defined=("_Unwind_GetIP", "_Unwind_SetIP"))
    assert judge_search(read_image(app), [str(tmp_path / "lib")]) == []


def test_a_missing_library_makes_symbols_suspected_only(tmp_path):
    app = put(tmp_path, "a.so", needed=("libgone.so",), undefined=("f",))
    (tmp_path / "lib").mkdir()
    found = judge_search(read_image(app), [str(tmp_path / "lib")])
    assert [(f.code, f.severity, f.certainty) for f in found] == [
        ("E523", "warning", "suspected"),
        ("E524", "warning", "suspected"),
    ]
    assert found[0].evidence == {"library": "libgone.so", "needed_by": app}


def test_weak_symbols_and_no_search_say_nothing(tmp_path):
    app = put(tmp_path, "a.so", weak=("f",), defined=("g",))
    assert judge_search(read_image(app), [str(tmp_path)]) == []
    app = put(tmp_path, "a.so", undefined=("f",))
    assert judge_search(read_image(app), []) == []


def test_the_loader_passes_over_other_machines(tmp_path):
    app = put(tmp_path, "a.so", needed=("libb.so",), undefined=("f",))
    put(tmp_path / "arm", "libb.so", machine=183, defined=("f",))
    put(tmp_path / "x86", "libb.so", defined=("f",))
    dirs = [str(tmp_path / "arm"), str(tmp_path / "x86")]
    assert judge_search(read_image(app), dirs) == []
    assert [f.code for f in judge_search(read_image(app), dirs[:1])] == ["E523", "E524"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler here")
def test_against_the_real_linker(tmp_path):
    (tmp_path / "b.c").write_text("int present(void){return 1;}")
    (tmp_path / "a.c").write_text(
        "int present(void);int foo(void);int go(void){return present()+foo();}"
    )
    run = lambda *args: subprocess.run(["gcc", *args], check=True, cwd=tmp_path)  # noqa: E731
    run("-shared", "-fPIC", "-nostdlib", "-o", "libb.so", "b.c")
    run("-shared", "-fPIC", "-nostdlib", "-o", "liba.so", "a.c", "-L.", "-lb")
    (found,) = judge_search(read_image(tmp_path / "liba.so"), [str(tmp_path)])
    assert (found.code, found.evidence["symbols"]) == ("E524", ["foo"])


# -- B52: another copy of a library is found first -------------------------------------------


def test_shadowed_library(tmp_path):
    old = put(tmp_path / "odm", "libQnnStub.so", extra=rodata(b"\0lib id: 2.25.0\0"))
    new = put(tmp_path / "app", "libQnnStub.so", extra=rodata(b"\0lib id: 2.28.0\0"))
    order = [str(tmp_path / "odm"), str(tmp_path / "app")]
    (found,) = judge_search(read_image(new), order)
    assert (found.code, found.severity, found.certainty) == ("E522", "error", "proven")
    assert found.evidence["loaded"] == old and found.evidence["expected"] == new
    assert found.evidence["loaded_version"] == "2.25.0"
    assert found.evidence["expected_version"] == "2.28.0"
    assert "search-path shadowing" in found.message
    # Twins: the right order; the same bytes twice; only one copy.
    assert judge_search(read_image(new), order[::-1]) == []
    Path(old).write_bytes(Path(new).read_bytes())
    assert judge_search(read_image(new), order) == []
    assert judge_search(read_image(new), order[1:]) == []


def test_shadowed_dependency(tmp_path):
    app = put(tmp_path / "app", "libapp.so", needed=("libstub.so",))
    put(tmp_path / "app", "libstub.so", extra=rodata(b"version 2.28.0\0"))
    put(tmp_path / "system", "libstub.so", extra=rodata(b"version 2.25.0\0"))
    (found,) = judge_search(read_image(app), [str(tmp_path / "system"), str(tmp_path / "app")])
    assert (found.code, found.subject.name) == ("E522", "libstub.so")


def test_other_contents_without_versions_are_only_suspected(tmp_path):
    put(tmp_path / "odm", "libx.so", defined=("a",))
    new = put(tmp_path / "app", "libx.so", defined=("a", "b"))
    (found,) = judge_search(read_image(new), [str(tmp_path / "odm"), str(tmp_path / "app")])
    assert (found.severity, found.certainty) == ("warning", "suspected")


@pytest.mark.parametrize(
    ("name", "section", "expected"),
    [
        ("a.so", Sec(".note.lib.ver", note(b"lib.ver", 1, b"2.28.0.241029")), "2.28.0.241029"),
        ("a.so", Sec(".rodata", b"abc\0v1.2.3\0"), "1.2.3"),
        ("a.so", Sec(".rodata", b"pi is 3.14159 of 127.0.0.1"), ""),
        ("liba.so.4.5.6", Sec(".data", b"x"), "4.5.6"),
    ],
)
def test_version_of_a_library(tmp_path, name, section, expected):
    if section.name.startswith(".note"):
        section.type = 7
    path = tmp_path / name
    path.write_bytes(Elf(sections=[section]).build())
    image = read_image(path)
    with Reader(str(path)) as file:
        assert library_version(file, image)[0] == expected


# -- B50: blob and device speak different versions -------------------------------------------


def blob(tmp_path: Path, major: int, minor: int, patch: int, little: bool = True) -> Path:
    sign = "<" if little else ">"
    desc = struct.pack(sign + "3I", major, minor, patch)
    section = Sec(".note.MappedInferenceVersion", note(b"NPU", 2, desc, sign), type=7, flags=0)
    path = tmp_path / "blob.elf"
    path.write_bytes(Elf(sections=[section], little=little).build())
    return path


@pytest.mark.parametrize("little", [True, False])
def test_abi_mismatch(tmp_path, little):
    image = read_image(blob(tmp_path, 7, 0, 0, little))
    (found,) = judge_abi(image, [("", (6, 1, 0))])
    assert (found.code, found.severity) == ("E520", "error")
    assert "blob ABI 7.0.0" in found.message and "device 6.1.0" in found.message
    assert found.subject.name == ".note.MappedInferenceVersion"


@pytest.mark.parametrize(
    ("device", "fits"),
    [((7, 0, 0), True), ((7, 3, 0), True), ((7,), True), ((8, 0, 0), False), ((6, 9, 9), False)],
)
def test_abi_versions_that_fit(tmp_path, device, fits):
    found = judge_abi(read_image(blob(tmp_path, 7, 0, 5)), [("mapped", device)])
    assert (found == []) is fits


def test_newer_minor_does_not_fit(tmp_path):
    (found,) = judge_abi(read_image(blob(tmp_path, 6, 2, 0)), [("", (6, 1, 0))])
    assert "blob is newer" in found.message


def test_a_blob_without_a_version_is_a_note(tmp_path):
    path = tmp_path / "a.elf"
    path.write_bytes(Elf(sections=[Sec(".gnu.version", b"6.1.0")]).build())
    (found,) = judge_abi(read_image(path), [("", (6, 1, 0))])
    assert (found.code, found.severity) == ("E521", "info")
    assert judge_abi(read_image(path), []) == []


def test_parse_version():
    assert parse_version("6.1.0") == (6, 1, 0)
    for text in ("", "a.b", "1..2", "1.2.3.4.5", "9999999"):
        assert parse_version(text) is None


# -- B58: the separator of a path list -------------------------------------------------------


def test_path_separator():
    (found,) = judge_environment("ADSP_LIBRARY_PATH", "/a:/b:/c")
    assert (found.code, found.severity) == ("E525", "error")
    assert "path list uses ':'" in found.message and "needs ';'" in found.message
    assert (found.evidence["directories_read"], found.evidence["directories_meant"]) == (1, 3)
    assert found.fix.startswith("ADSP_LIBRARY_PATH=/a;/b;/c")
    (mixed,) = judge_environment("CDSP_LIBRARY_PATH", "/a;/b:/c")
    assert (mixed.evidence["directories_read"], mixed.evidence["directories_meant"]) == (2, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ADSP_LIBRARY_PATH", "/a;/b;/c"),
        ("ADSP_LIBRARY_PATH", "/a"),
        ("ADSP_LIBRARY_PATH", ""),
        ("LD_LIBRARY_PATH", "/a:/b"),
        ("LD_LIBRARY_PATH", "/a;/b"),  # ld.so takes both
        ("UNKNOWN_PATH", "/a;/b:/c"),
    ],
)
def test_right_separators(name, value):
    assert judge_environment(name, value) == []


# -- hostile ------------------------------------------------------------------------------


def test_damaged_dynamic_tables_are_one_finding(tmp_path):
    data = bytearray(shared_library(needed=("a",), undefined=("f",)))
    path = tmp_path / "x.so"
    broken = 0
    for at in range(0x1000, len(data)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        path.write_bytes(changed)
        try:
            read_dynamic(str(path))
        except DamagedError:
            broken += 1
        judge_search(read_image(path), [str(tmp_path)])
    assert broken  # some of these must have been noticed


def test_a_claim_of_endless_symbols_stops(tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(shared_library(undefined=("f",)))
    data = bytearray(path.read_bytes())
    shoff = int.from_bytes(data[40:48], "little")
    data[shoff + 64 + 32 : shoff + 64 + 40] = (1 << 62).to_bytes(8, "little")  # .dynsym's size
    path.write_bytes(data)
    with pytest.raises(DamagedError):
        read_dynamic(str(path))


def test_library_names_cannot_leave_the_directory(tmp_path):
    (tmp_path / "lib").mkdir()
    put(tmp_path, "secret.so", defined=("f",))
    app = put(tmp_path, "a.so", needed=("../secret.so",), undefined=("f",))
    found = judge_search(read_image(app), [str(tmp_path / "lib")])
    assert [f.code for f in found] == ["E523", "E524"]


def test_symbols_are_those_that_pyelftools_reads():
    from elftools.elf.elffile import ELFFile

    files = [p for p in Path("/usr/lib/x86_64-linux-gnu").glob("lib[mz].so.[0-9]") if p.is_file()]
    if not files:
        pytest.skip("no x86-64 system libraries here")
    for path in files:
        with path.open("rb") as file:
            symbols = list(ELFFile(file).get_section_by_name(".dynsym").iter_symbols())
        outer = [s for s in symbols if s.name and s.entry.st_info.bind != "STB_LOCAL"]
        dynamic = read_dynamic(str(path))
        assert dynamic.defined == {s.name for s in outer if s.entry.st_shndx != "SHN_UNDEF"}
        assert set(dynamic.undefined) == {
            s.name
            for s in outer
            if s.entry.st_shndx == "SHN_UNDEF" and s.entry.st_info.bind != "STB_WEAK"
        }
        assert len(dynamic.defined) > 50
