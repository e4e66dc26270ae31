"""Calls of functions on workers, outside of Dask's queue of tasks. Every wait has a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError

from dpmmwrap.backends.dask import ClusterError

PATIENCE = 600.0
"""Seconds that a worker may take for one step, or to load its part."""
SILENCE = 60.0
"""Seconds without a heartbeat after which a worker counts as lost."""


class Overdue(TimeoutError):
    """Workers are alive, but take too long to answer."""


def ping() -> str:
    return "here"


async def remove_worker(address: str, dask_scheduler: Any) -> None:
    await dask_scheduler.remove_worker(address, stimulus_id="dpmmwrap-silent-worker", close=False)


def is_loss(reply: Any) -> bool:
    """Whether a worker did not answer at all."""
    return isinstance(reply, (CommClosedError, OSError, TimeoutError, asyncio.TimeoutError))


class Caller:
    """Calls functions on the workers of a cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.given_up: set[str] = set()
        """Workers that no longer answer."""
        self.doing = "the fit began"
        """The last step, for messages."""

    def alive(self) -> list[str]:
        """Workers that answer."""
        return [address for address in self._workers() if address not in self.given_up]

    def _workers(self) -> dict[str, Any]:
        self._check_scheduler()
        try:
            workers: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        except (CommClosedError, OSError) as error:
            raise self._scheduler_lost() from error
        return workers

    def _run(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], addresses: list[str], limit: float = PATIENCE
    ) -> dict[str, Any]:
        """Call a function on some workers. Returns the result or the exception of each."""

        async def run() -> Any:
            call = asyncio.ensure_future(self.client.run(function, *arguments, workers=addresses, on_error="return"))
            end = time.monotonic() + limit
            while True:
                done, _ = await asyncio.wait({call}, timeout=min(5.0, limit))
                if done:
                    return call.result()
                quiet = await self._quiet(addresses)
                if quiet or time.monotonic() > end:
                    call.cancel()
                    return {address: TimeoutError() for address in quiet} or dict.fromkeys(addresses, Overdue())

        self._check_scheduler()
        try:
            replies: dict[str, Any] = self.client.sync(run)
        except (CommClosedError, OSError, asyncio.CancelledError) as error:
            raise self._scheduler_lost() from error
        return replies

    async def _quiet(self, addresses: list[str]) -> list[str]:
        """Workers that the scheduler has not heard from for a while, or has forgotten."""
        known = (await asyncio.wait_for(self.client.scheduler.identity(n_workers=-1), SILENCE))["workers"]
        now = time.time()
        return [a for a in addresses if a not in known or now - known[a].get("last_seen", now) > SILENCE]

    def _check_scheduler(self) -> None:
        if self.client.status not in ("running", "connecting", "newly-created"):
            raise self._scheduler_lost()

    def _scheduler_lost(self) -> ClusterError:
        where = getattr(getattr(self.client, "scheduler", None), "address", "its address")
        return ClusterError(
            f"the connection to the Dask scheduler at {where} was lost after {self.doing}; a fit with a checkpoint "
            "resumes from there with the next scheduler"
        )
