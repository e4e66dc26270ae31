"""Doing the runs of an experiment that are not done yet, here or in parallel processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context

from dpmmwrap.evaluation.baselines import prepare
from dpmmwrap.evaluation.experiments import Outcome, Run, execute
from dpmmwrap.evaluation.store import Store

Finished = Callable[[Run, Outcome], None]


def run_all(store: Store, jobs: int, finished: Finished) -> None:
    """Do what is not done yet. Each run is kept as soon as it is finished, so Ctrl-C loses only the current ones."""
    waiting = store.waiting()
    if not waiting:
        return
    outcomes = here(waiting) if jobs == 1 else in_processes(waiting, min(jobs, len(waiting)))
    for run, outcome in outcomes:
        store.add(run, outcome)
        finished(run, outcome)


def here(runs: Sequence[Run]) -> Iterator[tuple[Run, Outcome]]:
    prepare([run.method for run in runs])
    for run in runs:
        yield run, execute(run)


def in_processes(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    """In order of completion. Fresh processes, because the threads of numba, torch and Julia do not survive a fork."""
    others = set(active_children())
    methods = list(dict.fromkeys(run.method for run in runs))
    executor = ProcessPoolExecutor(jobs, get_context("spawn"), begin_worker, (methods,))
    try:
        waiting = {executor.submit(execute, run): run for run in runs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
        executor.shutdown()
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - others:
            process.terminate()
        raise


def begin_worker(methods: list[str]) -> None:
    # A terminal sends Ctrl-C to all processes; the first one decides what becomes of the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare(methods)
