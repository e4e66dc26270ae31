"""A client for the command line: for a running scheduler, or for new workers on this machine."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from dpmmwrap.files import InputError

CONNECTED_WITHIN = 20.0


@contextlib.contextmanager
def connected(scheduler: str | None, local_workers: int | None) -> Iterator[Any]:
    """Make a client the current one."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("Dask is not installed: pip install 'dpmmwrap[dask]'") from error
    with contextlib.ExitStack() as stack:
        where: Any = scheduler
        if scheduler is None:
            cluster = LocalCluster(
                n_workers=local_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
            )
            where = stack.enter_context(cluster)
        try:
            client = stack.enter_context(Client(where, timeout=CONNECTED_WITHIN))
        except (OSError, ValueError) as error:
            message = f"no Dask scheduler answers at {scheduler} within {CONNECTED_WITHIN:.0f} s"
            raise InputError(message) from error
        yield client
