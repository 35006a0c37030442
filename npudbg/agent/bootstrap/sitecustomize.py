"""Loaded by Python's start-up where this directory heads PYTHONPATH.

Starts the agent, then runs the ``sitecustomize`` that would have been loaded
without it.  The directory holds nothing else, so nothing of npudbg and none of
its dependencies becomes importable in the program.
"""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is slow to load
_NAME = "_npudbg_agent"


def _start_agent() -> None:
    package = os.path.dirname(_HERE)  # noqa: PTH120
    spec = importlib.util.spec_from_file_location(
        _NAME,
        os.path.join(package, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[package],
    )
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    importlib.import_module(_NAME + ".start").start()


def _run_the_next() -> None:
    # Out of sys.path for good: the program sees the path it would have had.  Its
    # children get the agent through PYTHONPATH, which stays as it is.
    sys.path[:] = [p for p in sys.path if not p or os.path.realpath(p) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


with contextlib.suppress(Exception):  # a debugger's agent never breaks the program
    _start_agent()
# Its errors are the user's own: they go where they would have gone.
_run_the_next()
