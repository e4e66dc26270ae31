"""The folder of an experiment: a row of results.csv for each run, arrays for figures; running what is missing."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import math
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.evaluation.experiments import MEASURES, Outcome, Row, Run, execute
from dpmmwrap.evaluation.methods import prepare
from dpmmwrap.evaluation.samplers import CHANGED
from dpmmwrap.files import InputError, read_arrays, write_csv, write_npz

RESULTS = "results.csv"
WORDS = ("data", "model", "problem")
"""Columns of words, even if they look like numbers."""
Key = tuple[str, ...]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuse a folder that another process writes to, or each would overwrite the other's rows.

    The lock ends with the process, even after a crash. There is no lock on Windows.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"another dpmmwrap evaluate is writing to {folder}; use another --out") from error
        yield


class Store:
    """Keeps every finished run, so that no run is repeated.

    Rows of other runs (other data sets or settings) stay in the file, after those of this experiment.
    """

    def __init__(self, folder: Path, runs: Sequence[Run]) -> None:
        self.folder = folder
        self.runs = list(runs)
        self.columns = [*runs[0].identity(), *MEASURES]
        self.rows: dict[Key, dict[str, str]] = {}
        if (folder / RESULTS).exists():
            self.rows = {key(row): row for row in read_results(folder / RESULTS, self.columns)}

    def __contains__(self, run: Run) -> bool:
        kept = key(run.identity()) in self.rows
        return kept and (not run.settings.watch or self.arrays_path(run).exists())

    def waiting(self) -> list[Run]:
        """Missing runs, and those in which our methods failed: a later version may succeed."""
        rows = self.rows
        return [
            run
            for run in self.runs
            if run not in self or (run.method in CHANGED and rows[key(run.identity())]["problem"])
        ]

    def add(self, run: Run, outcome: Outcome) -> None:
        """Write the arrays first: a row means that its run is complete."""
        if outcome.arrays:
            self.arrays_path(run).parent.mkdir(exist_ok=True)
            write_npz(self.arrays_path(run), outcome.arrays, compressed=True)
        row = {**run.identity(), **outcome.measures}
        self.rows[key(row)] = {name: written(row[name]) for name in self.columns}
        # In the order of the plan.
        order = {key(run.identity()): number for number, run in enumerate(self.runs)}
        rows = sorted(self.rows.items(), key=lambda item: order.get(item[0], len(order)))
        write_csv(self.folder / RESULTS, {name: [row[name] for _, row in rows] for name in self.columns})

    def finished(self, part: str) -> list[Row]:
        """The rows of this experiment's finished runs."""
        runs = [run for run in self.runs if run.part == part and run in self]
        return [numbers(self.rows[key(run.identity())]) for run in runs]

    def kept(self) -> list[Row]:
        """All rows of the folder, including those of other runs."""
        return [numbers(row) for row in self.rows.values()]

    def arrays(self, part: str) -> list[tuple[Run, dict[str, np.ndarray[Any, Any]]]]:
        """The arrays for figures."""
        names = ("n_clusters", "log_posterior", "seconds", "labels")
        return [
            (run, read_arrays(self.arrays_path(run), required=names, optional=("nmi", "ari")))
            for run in self.runs
            if run.part == part and run in self
        ]

    def arrays_path(self, run: Run) -> Path:
        identity = run.identity()
        digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:8]
        name = f"d{run.source.dim}-k{run.source.clusters}-{run.method}-{run.number}-{digest}"
        return self.folder / "runs" / f"{name.lower()}.npz"


def key(row: dict[str, Any]) -> Key:
    """The columns that identify a run, as written in the file."""
    return tuple(written(value) for name, value in row.items() if name not in MEASURES)


def written(value: Any) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else str(value)


def numbers(row: dict[str, str]) -> Row:
    """A row with numbers instead of their texts; NaN for empty measures."""
    read: Row = dict(row)
    for name in row.keys() - set(WORDS):
        try:
            read[name] = int(row[name]) if row[name].lstrip("-").isdigit() else float(row[name])
        except ValueError:
            read[name] = math.nan if name in MEASURES else row[name]
    return read


def read_results(path: Path, columns: list[str]) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            rows = list(table)
            names = list(table.fieldnames or [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if names != columns:
        raise InputError(f"{path} belongs to another experiment; use another folder with --out")
    if any(None in row or None in row.values() for row in rows):
        raise InputError(f"{path} is damaged: a row has too few or too many fields; remove it, or use another --out")
    return rows


Finished = Callable[[Run, Outcome], None]


def run_all(store: Store, jobs: int, finished: Finished) -> None:
    """Run what is missing. Each run is kept as soon as it is finished, so Ctrl-C loses only the current ones."""
    waiting = store.waiting()
    if not waiting:
        return
    if jobs > 1:
        outcomes = in_processes(waiting, min(jobs, len(waiting)))
    else:
        prepare([run.method for run in waiting])
        outcomes = ((run, execute(run)) for run in waiting)
    for run, outcome in outcomes:
        store.add(run, outcome)
        finished(run, outcome)


def in_processes(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Outcome]]:
    """In the order of completion. Processes are spawned, as threads of numba, torch and Julia do not survive a fork."""
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
    # A terminal sends Ctrl-C to all processes; the main one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare(methods)
