"""Calls of functions on workers, outside of Dask's queue of tasks, and the client's records of a fit: commands, files,
traffic. Every wait has a limit."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from distributed import Client
from distributed.comm import CommClosedError

from dpmmwrap.backends.dask import ClusterError
from dpmmwrap.backends.dask.part import Command

PATIENCE = 600.0
"""Seconds that a worker may take for one step, or to load its part."""
SILENCE = 60.0
"""Seconds without a heartbeat after which a worker counts as lost."""
LOG_BYTES = 64 << 20
"""Bytes of commands to keep although copies have seen them, because copies may be lost, too."""


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
        """Workers that the scheduler has had no heartbeat from for a while, or has forgotten."""
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


class Log:
    """The commands of one chain, numbered from the first."""

    def __init__(self, done: int = 0) -> None:
        self.first = done
        self.commands: list[Command] = []
        self.sizes: list[int] = []

    def __len__(self) -> int:
        return self.first + len(self.commands)

    def append(self, command: Command) -> None:
        self.commands.append(command)
        self.sizes.append(len(pickle.dumps(command, protocol=5)))

    def since(self, number: int) -> list[Command]:
        return self.commands[number - self.first :]

    def trim(self, seen: int) -> None:
        """Forget the oldest commands that copies have seen, if the log is too large."""
        total = sum(self.sizes)
        while self.commands and total > LOG_BYTES and self.first < seen:
            total -= self.sizes.pop(0)
            del self.commands[0]
            self.first += 1


class Traffic(NamedTuple):
    """The number of calls, and bytes sent and received."""

    calls: int = 0
    sent: int = 0
    received: int = 0

    def plus(self, sent: int, received: int) -> Traffic:
        return Traffic(self.calls + 1, self.sent + sent, self.received + received)


class LabelFiles(NamedTuple):
    """The files of a chain's labels, in a folder that all workers see."""

    folder: str
    files: list[str]
    done: int
    n_clusters: int


class LostAgain(Exception):
    """Workers were lost while others were being replaced."""

    def __init__(self, addresses: set[str]) -> None:
        super().__init__(*sorted(addresses))
        self.addresses = addresses
