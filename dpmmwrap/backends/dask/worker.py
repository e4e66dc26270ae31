"""The code on a worker: the parts that it holds, and the functions that the client calls.

Parts stay in the worker's memory between calls. Calls bypass Dask's queue of tasks (`Client.run`), so an iteration does
not wait for it. They run one after the other in a separate thread, so the worker keeps answering its scheduler.
"""

from __future__ import annotations

import asyncio
import pickle
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.backends.dask.part import Command, Labels, Part
from dpmmwrap.numerics.chunks import Stretch

FITS: dict[str, WorkerFit] = {}
"""The fits of which this worker holds parts, by their unique names."""


class WorkerFit:
    """The parts of a fit on this worker."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.parts: dict[int, Part] = {}
        self.copies: dict[tuple[int, int], Copy] = {}
        """Copies of labels on other workers, by part and chain."""
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="dpmmwrap")

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)
        for part in self.parts.values():
            part.close()


class Request(NamedTuple):
    """A question to all parts of a worker."""

    fit: str
    chain: int = 0
    first: int = 0
    """The number of the first command."""
    commands: list[Command] = []  # noqa: RUF012 - never written to
    query: Command | None = None
    """Asked after the commands: about the chain's labels, or about the points (a method of `Part`)."""
    of_points: bool = False


class Loss:
    """The answer of a worker that has lost a part, or has missed commands."""


async def answer(request: bytes, by_worker: dict[str, list[int]], dask_worker: Any) -> bytes:
    """The answer of each part that this worker should hold, by number, or the exception that one of them raised."""
    asked: Request = pickle.loads(request)
    parts = by_worker[dask_worker.address]
    fit = FITS.get(asked.fit)
    if fit is None:
        return pickle.dumps({part: Loss() for part in parts})
    loop = asyncio.get_running_loop()

    def answers() -> bytes:
        try:
            return pickle.dumps({number: answer_of_part(fit, number, asked) for number in parts}, protocol=5)
        except Exception as error:
            return pickle.dumps(error)

    return await loop.run_in_executor(fit.thread, answers)


def answer_of_part(fit: WorkerFit, number: int, asked: Request) -> Any:
    part = fit.parts.get(number)
    if part is None or not part.complete():
        return Loss()
    if asked.of_points:
        assert asked.query is not None
        name, arguments = asked.query
        return getattr(part, name)(*arguments)
    if part.state_of(asked.chain).done < asked.first:
        return Loss()
    reply = part.command(asked.chain, asked.first, asked.commands) if asked.commands else None
    if asked.query is None:
        return reply
    return part.query(asked.chain, *asked.query)


def versions() -> dict[str, str]:
    """The versions that must agree on all workers."""
    import numba
    import scipy
    from llvmlite.binding import get_host_cpu_name

    import dpmmwrap

    return {
        "dpmmwrap": dpmmwrap.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
        "processor": str(get_host_cpu_name()),
    }


def prepare(kinds: tuple[str, ...], draws: bool) -> None:
    """Compile what a fit needs, if this machine has not done so."""
    from dpmmwrap.sampler import compiling

    compiling.prepare(kinds, draws, quiet=True)


def open_part(fit: str, number: int, stretch: Stretch, n_jobs: int) -> None:
    """Create a part."""
    FITS.setdefault(fit, WorkerFit(n_jobs)).parts[number] = Part(number, stretch, n_jobs)


def close_fit(fit: str) -> None:
    """Forget a fit."""
    holding = FITS.pop(fit, None)
    if holding is not None:
        holding.close()


def put_rows(fit: str, part: int, begin: int, block: Any, low: int, high: int) -> int:
    """Store the rows low to high of a block; a task of Dask's."""
    if fit not in FITS or part not in FITS[fit].parts:
        raise RuntimeError(f"part {part} of the fit is not on this worker")
    return FITS[fit].parts[part].put_rows(begin, rows_of(block, low, high))


def rows_of(block: Any, low: int, high: int) -> Any:
    """Some rows of a block as an array or a sparse matrix of floats."""
    if hasattr(block, "to_numpy"):
        block = block.to_numpy()
    rows = block[low:high]
    if hasattr(rows, "tocsr"):
        rows = rows.tocsr()
    elif not isinstance(rows, np.ndarray):
        rows = np.asarray(rows)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def on_part(fit: str, number: int, method: str, *arguments: Any) -> Any:
    """Call a method of a part."""
    return getattr(FITS[fit].parts[number], method)(*arguments)


class Copy(NamedTuple):
    """The labels of a chain in a part at some time, in the order of `Labels.restored`."""

    done: int
    n_clusters: int
    arrays: dict[str, Any]


def copy_of(fit: str, part: int, chain: int) -> Copy:
    """A copy of the labels; to call between commands."""
    state = FITS[fit].parts[part].state_of(chain)
    return Copy(state.done, state.n_clusters, state.stored())


def copy_kept(fit: str, part: int, chain: int) -> Copy:
    """A copy that this worker keeps."""
    return FITS[fit].copies[part, chain]


async def fetch(address: str, function: Callable[..., Any], arguments: tuple[Any, ...], dask_worker: Any) -> Any:
    """The result of a function on another worker, straight from there."""
    from distributed.protocol.pickle import dumps

    if address == dask_worker.address:
        return function(*arguments)
    reply = await dask_worker.rpc(address).run(function=dumps(function), args=dumps(arguments))
    if reply["status"] != "OK":
        raise OSError(f"the worker {address} does not have what it should")
    return reply["result"]


async def keep_copies(fit: str, wanted: list[tuple[int, int, str]], n_jobs: int, dask_worker: Any) -> dict[int, int]:
    """Keep copies of labels on other workers. Returns the number of commands that each has seen, by part."""
    holding, done = FITS.setdefault(fit, WorkerFit(n_jobs)), {}
    for part, chain, address in wanted:
        copy = await fetch(address, copy_of, (fit, part, chain), dask_worker)
        holding.copies[part, chain] = copy
        done[part] = copy.done
    return done


async def fetch_copy(fit: str, part: int, chain: int, address: str, dask_worker: Any) -> int:
    """Restore labels from the copy on a worker. Returns the number of commands that they have seen."""
    copy = await fetch(address, copy_kept, (fit, part, chain), dask_worker)
    FITS[fit].parts[part].chains[chain] = Labels.restored(*copy)
    return int(copy.done)


def kept_labels(fit: str, part: int, chain: int, offset: int, name: str) -> Any:
    """The best labels, or sublabels, of a part after the fit."""
    if fit not in FITS or part not in FITS[fit].parts:
        raise RuntimeError("the labels were on a worker that was lost: predict gives the most probable ones again")
    values = getattr(FITS[fit].parts[part].state_of(chain), name)
    return values - np.int32(offset) if offset else values.copy()
