"""What a file really is, from its first bytes, when it is not what was expected."""

from __future__ import annotations

import re
from pathlib import Path

HEAD = 4096
"""Bytes of a file's beginning that :func:`identify` wants."""

_LFS = re.compile(rb"\Aversion https://git-lfs\.github\.com/spec/v1\b")
_LFS_SIZE = re.compile(rb"^size (\d{1,19})\s*$", re.MULTILINE)

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (4, b"TFL3", "a TensorFlow Lite model"),
    (4, b"ORTM", "a model in ONNX Runtime's own .ort format"),
    (0, b"RKNN", "a Rockchip RKNN model, already compiled"),
    (0, b"IMOD", "an Ascend .om model, already compiled"),
    (0, b"\x01HEF", "a Hailo .hef model, already compiled"),
    (0, b"ftrt", "a TensorRT engine, already compiled"),
    (0, b"ptrt", "a TensorRT engine, already compiled"),
    (0, b"GGUF", "a GGUF weight file"),
    (0, b"7767517\n", "an ncnn .param file"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras .h5)"),
    (0, b"\x93NUMPY", "a NumPy .npy array"),
    (0, b"\x7fELF", "an ELF file"),
    (0, b"SQLite format 3\0", "a SQLite file (an npudbg session? use `npudbg replay`)"),
    (0, b"\x89PNG\r\n", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"BM", "a BMP picture"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (257, b"ustar", "a tar archive"),
)
_NEEDS_MORE = {b"BM": 2048}


def identify(head: bytes, path: Path | None = None) -> str | None:
    """Return what the file is, as a phrase with its article, or None if not known.

    Args:
        head: The first :data:`HEAD` bytes (fewer if the file is shorter).
        path: The file itself, to look into a zip's directory.
    """
    if not head:
        return "an empty file"
    if _LFS.match(head):
        return "a Git LFS pointer"
    for at, magic, what in _MAGIC:
        if head[at : at + len(magic)] == magic and len(head) >= _NEEDS_MORE.get(magic, 0):
            return what
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _zip_kind(path)
    if re.match(rb"\x80[\x02-\x05]", head):
        return "a Python pickle (a PyTorch checkpoint?), which is never opened"
    if len(head) > 9 and head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 27:
        return "a safetensors weight file"
    return _text_kind(head)


def lfs_size(head: bytes) -> int | None:
    """Return the real file's size in bytes that a Git LFS pointer states."""
    found = _LFS_SIZE.search(head)
    return int(found.group(1)) if found else None


def advice(what: str, head: bytes) -> str:
    """Return what to do about a file that is ``what`` instead of an ONNX model."""
    if what == "a Git LFS pointer":
        size = lfs_size(head)
        real = f" (the real file has {size:,} bytes)" if size is not None else ""
        return f"{real}; fetch it with `git lfs pull`"
    if "HTML" in what:
        return "; download the file itself, not the page about it"
    if "PyTorch" in what:
        return "; export it with torch.onnx.export"
    if "TensorFlow Lite" in what:
        return "; convert it with tf2onnx"
    if "Keras" in what:
        return "; convert it with tf2onnx"
    if "compiled" in what or ".ort" in what:
        return "; give the ONNX file that it was made from"
    if "archive" in what:
        return "; unpack it first"
    return "; a .onnx file was expected"


def _zip_kind(path: Path | None) -> str:
    import zipfile

    if path is not None:
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()[:10_000]
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
            return "a damaged zip archive"
        if any(name.endswith(("/data.pkl", "/constants.pkl")) for name in names):
            return "a PyTorch file (zip)"
        if any(name == "model.json" or name.endswith("keras_metadata.pb") for name in names):
            return "a Keras archive (zip)"
        if names and all(name.endswith(".npy") for name in names):
            return "a NumPy .npz archive"
        if any(name.endswith(".onnx") for name in names):
            return "a zip archive with an ONNX file inside"
    return "a zip archive"


def _text_kind(head: bytes) -> str | None:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:512].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page"
    if start.startswith(b"<?xml") or start.startswith((b"<net ", b"<svg")):
        return "an OpenVINO IR (.xml)" if b"<net " in head else "an XML file"
    if b"\0" in head:
        return None
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return None
        text = head[: error.start].decode("utf-8")
    # Protobuf begins with a small control byte; text has none but white space.
    if any(ord(c) < 32 and c not in "\t\n\r\f\x1b" for c in text):
        return None
    if start.startswith((b"{", b"[")):
        return "a JSON file"
    return "a text file"
