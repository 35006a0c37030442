"""Workers of a Dask cluster, where one machine is too small.

The cluster must be one that you trust, with npudbg installed on its workers and the
model and inputs at the same paths as here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from npudbg.session.errors import UserError
from npudbg.session.text import safe

_CONNECT_SECONDS = 10
_WORKERS_SECONDS = 30

Work = Callable[[str, str], str]


def run(
    tasks: Iterable[str], work: Work, spec: str, address: str
) -> Iterator[tuple[str, str | None]]:
    """Do tasks on a cluster; see :func:`npudbg.commands.sweeping.pool.run`.

    Dask itself gives a task whose worker died to another one, three times
    (``distributed.scheduler.allowed-failures``).

    Args:
        tasks: Texts that differ.
        work: A function that the workers can import.
        spec: The same for all.
        address: The scheduler's, e.g. ``tcp://10.0.0.1:8786``.

    Raises:
        UserError: Dask is not installed, the scheduler does not answer, it has no
            workers, or they lack npudbg.
    """
    import asyncio

    try:
        # Neither typed nor always there.
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UserError(
            "--dask: Dask is not installed here; pip install 'npudbg[dask]', "
            "or leave --dask out to use this machine's processes"
        ) from None
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError, asyncio.TimeoutError) as error:
        raise UserError(
            f"--dask {safe(address)}: no scheduler answers there ({type(error).__name__}); "
            "expected its address, for example tcp://10.0.0.1:8786"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):  # two types before Python 3.11
            raise UserError(
                f"--dask {safe(address)}: the scheduler has no workers; start `dask worker` first"
            ) from None
        # Not pure: a file of the same name may have changed since an earlier sweep.
        pending = {client.submit(work, spec, task, pure=False): task for task in tasks}
        for future in distributed.as_completed(list(pending), loop=client.loop):
            task = pending.pop(future)
            failure = future.exception()
            if failure is None:
                yield task, str(future.result())
            elif isinstance(failure, distributed.KilledWorker):
                yield task, None
            else:
                raise UserError(
                    f"--dask {safe(address)}: a worker cannot run npudbg "
                    f"({type(failure).__name__}: {safe(failure)}); install the same version there"
                )
            future.release()
