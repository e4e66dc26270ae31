"""The built-in sampler on a Dask cluster: the same chain, with points and labels on workers.

The labels are those of one machine, bit for bit, for any number of workers: the data's shape determines the chunks,
keys and row numbers determine the random numbers, and sums have a fixed order.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families import FAMILIES, family_named
from dpmmwrap.families.base import take
from dpmmwrap.numerics.agreement import ari_of_table
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.numerics.ordered_sums import total_of
from dpmmwrap.sampler.settings import Result, Settings, has_few_numbers

if TYPE_CHECKING:
    from dpmmwrap.model.inputs import FitData

OUTPUT_TRIES = 5


class ClusterError(RuntimeError):
    """The scheduler or workers were lost, or differ in their versions."""


def is_lazy(X: Any) -> bool:
    """Whether these are arrays or frames of Dask, without importing it."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def check_dask_can(family: str, n_draws: int, keep_labels: bool) -> None:
    """Refuse fits that need all points, or all labels of draws, in one place."""
    if not family_named(family).dask:
        others = [name for name in FAMILIES if family_named(name).dask]
        raise ValueError(f"the family {family} needs one machine: on Dask family should be {' or '.join(others)}")
    if n_draws and keep_labels:
        raise ValueError("on Dask the labels of draws are not kept: loss should be None")


@contextlib.contextmanager
def on_workers(estimator: Any, X: Any, client: Any = None) -> Iterator[FitData]:
    """The rows of X on the workers of a client, or of the current one, for the duration of a fit."""
    try:
        from dpmmwrap.backends.dask import loading
    except ImportError as error:
        raise ImportError(f"Dask is not installed ({error}): pip install 'dpmmwrap[dask]'") from error
    with loading.on_workers(estimator, X, client) as read:
        yield read


class DaskBackend:
    """The built-in sampler on the workers of a cluster, one chain after the other."""

    def fit(self, X: Any, settings: Settings) -> Result:
        from dpmmwrap.backends.dask.data import STARTS
        from dpmmwrap.backends.native import result_of, run_chain

        if not hasattr(settings.initializer, "rules"):
            raise ValueError(STARTS)
        if settings.checkpoint is not None:
            settings = replace(settings, checkpoint=shared_folder(X, settings.checkpoint) / "chain.npz")
        X.use_family(settings.prior)
        settings.bind(X, settings.full_ratio)

        def rand_index(one: Any, other: Any) -> float:
            """The adjusted Rand index of the best labels of two chains."""
            shape = [count_of(X, labels.chain) for labels in (one, other)]
            tables = X.cluster.ask(one.chain, query=("alike", (other.chain, *shape))).values()
            return ari_of_table(np.asarray(sum(tables)))

        with Interrupt() as interrupt:
            results = [run_chain(X, settings, number, interrupt) for number in range(settings.n_chains)]
            result = result_of(results, None, settings.hyperprior, rand_index)
            if settings.refine and has_few_numbers(X) and not result.interrupted:
                return refined_here(X, settings, result, interrupt)
        # The statistics of the clusters of the best labels, outliers last.
        labels: Any = result.labels
        count, origin = count_of(X, labels.chain), settings.prior.origin(X)
        parts = X.cluster.ask(labels.chain, query=("best_sums", (count, settings.prior, origin)))
        total = total_of({node: sums for part in parts.values() for node, sums in part.items()})
        statistics = settings.prior.statistics_from_sums(total, origin)
        if settings.outlier_weight > 0:
            statistics = take(statistics, np.roll(np.arange(count), -1))
        labels, sublabels = (
            array_of(X.cluster, handle, kind) for handle, kind in ((labels, np.int32), (result.sublabels, np.uint8))
        )
        return replace(result, statistics=statistics, labels=labels, sublabels=sublabels)


def refined_here(X: Any, settings: Settings, result: Result, interrupt: Interrupt) -> Result:
    """The end of the search as on one machine, for data that are small enough for the client."""
    import dask.array as da

    from dpmmwrap.sampler.refinement import refined

    handle: Any = result.labels
    parts = list(X.cluster.ask(handle.chain, query=("best", ())).values())
    labels, sublabels = (np.concatenate([part[which] for part in parts]) for which in range(2))
    points = X.everything()
    known = result.candidates[result.chain]._replace(labels=labels, sublabels=sublabels)
    best = refined(points, settings, [known], interrupt)
    sizes = tuple(len(part[0]) for part in parts)
    labels, sublabels = (da.from_array(values, chunks=(sizes,)) for values in (best.labels, best.sublabels))
    return replace(
        result,
        **best._replace(labels=labels, sublabels=sublabels)._asdict(),
        interrupted=interrupt.requested,
        statistics=settings.prior.statistics(points, best.labels),
    )


def shared_folder(X: Any, folder: Path) -> Path:
    """The folder of a checkpoint, which all workers must see."""
    from dpmmwrap.files import InputError, prepare_folder

    if folder.is_file():
        raise InputError(f"on Dask a checkpoint is a folder, and {folder} is a file")
    prepare_folder(folder)
    folder = folder.resolve()
    mark = folder / f"seen-{X.cluster.name}"
    mark.touch()
    try:
        seen = X.cluster.each(lambda part: ("sees", str(mark)))
    finally:
        mark.unlink(missing_ok=True)
    for part, is_seen in seen.items():
        if not is_seen:
            where = X.cluster.owner[part]
            raise InputError(f"the worker {where} does not see {folder}: a checkpoint needs storage that all share")
    return folder


def count_of(X: Any, chain: int) -> int:
    """The number of labels in the best clustering of a chain."""
    return int(max(X.cluster.ask(chain, query=("most", ())).values())) + 1


def array_of(cluster: Any, handle: Any, kind: Any) -> Any:
    """A Dask array of the labels of a chain, with its blocks on the workers that made them."""
    import dask
    import dask.array as da
    from distributed import wait

    from dpmmwrap.backends.dask import worker

    for _ in range(OUTPUT_TRIES):
        pieces = {
            part: cluster.client.submit(
                worker.kept_labels, cluster.name, part, handle.chain, handle.offset, handle.name, workers=[address],
                pure=False,
            )
            for part, address in cluster.owner.items()
        }  # fmt: skip
        with contextlib.suppress(TimeoutError):
            wait(list(pieces.values()), timeout=60)
        if all(piece.status == "finished" for piece in pieces.values()):
            blocks = [
                da.from_delayed(dask.delayed(pieces[part]), (cluster.stretches[part].n_rows,), meta=np.empty(0, kind))
                for part in sorted(pieces)
            ]
            return da.concatenate(blocks)
        # Lost workers are replaced before the next try.
        cluster.ask(handle.chain, query=("most", ()))
    raise ClusterError("workers that hold the labels were lost again and again: the labels cannot be returned")


def by_blocks(model: Any, method: str, X: Any, kind: Any, columns: int | None) -> Any:
    """A lazy Dask array of a method's results for blocks of rows: `columns` numbers for each row, or one if None."""
    light = copy.copy(model)
    # Without its results for the rows of the fit.
    for name in ("labels_", "sublabels_", "confidence_", "draws_", "_some_points", "trace_", "traces_"):
        light.__dict__.pop(name, None)
    empty = np.empty((0,) if columns is None else (0, columns), kind)
    if hasattr(X, "map_partitions") and hasattr(X, "columns"):
        rows = X.map_partitions(call, light, method, meta=empty)
        return rows if hasattr(rows, "chunks") else rows.to_dask_array()
    if X.ndim == 2 and X.numblocks[1] > 1 and not hasattr(X._meta, "tocsr"):
        X = X.rechunk({1: -1})
    if columns is None:
        return X.map_blocks(call, light, method, dtype=kind, drop_axis=1, meta=empty)
    return X.map_blocks(call, light, method, dtype=kind, chunks=(X.chunks[0], (columns,)), meta=empty)


def call(rows: Any, model: Any, method: str) -> Any:
    return getattr(model, method)(rows)
