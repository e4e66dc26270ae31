"""Loading Dask's arrays and frames onto workers, checked and stored as on one machine."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from distributed import Client, Future, futures_of, get_client, wait
from sklearn.utils.validation import check_non_negative

from dpmmwrap.backends.dask import ClusterError, worker
from dpmmwrap.backends.dask.calls import PATIENCE
from dpmmwrap.backends.dask.cluster import Cluster
from dpmmwrap.backends.dask.part import Recipe
from dpmmwrap.backends.dask.points import RemotePoints
from dpmmwrap.families import family_for, family_named
from dpmmwrap.model.data_prior import is_given
from dpmmwrap.model.inputs import (
    TOO_WIDE,
    FitData,
    called,
    canonical,
    exposure_column,
    offset_of,
    useful_columns,
)
from dpmmwrap.model.warning import warn_caller
from dpmmwrap.numerics.cells import sample_rows
from dpmmwrap.numerics.chunks import Stretch

NO_GAPS = "on Dask, data with missing values need covariance_type='diag' or 'spherical'"
WORKERS_WITHIN = 30.0
"""Seconds to wait for the first worker."""


class Blocks(NamedTuple):
    """The rows of a Dask array or frame, block by block."""

    blocks: list[Any]
    """Delayed arrays, sparse matrices or frames."""
    edges: Any
    """The first row of each, and the end of the last."""
    n_columns: int
    dtype: Any
    sparse: bool
    names: list[str] | None

    @property
    def n_rows(self) -> int:
        return int(self.edges[-1])


def blocks_of(X: Any, client: Client) -> Blocks:
    """The rows of a collection. If their number is unknown, they are counted first."""
    import dask
    import dask.array as da

    names = None
    if hasattr(X, "to_dask_array"):
        names = [str(name) for name in X.columns]
        kinds = {str(kind): np.dtype(getattr(kind, "numpy_dtype", kind)) for kind in X.dtypes}
        words = sorted(name for name, kind in kinds.items() if kind.kind not in "fiub")
        if words:
            raise ValueError(f"on Dask all columns should hold numbers, not {', '.join(words)}")
        narrow = set(kinds.values()) == {np.dtype(np.float32)}
        lengths = lengths_of(client, X, "the lengths of partitions")
        X = X.astype("float32" if narrow else "float64").to_dask_array(lengths=lengths)
    elif not isinstance(X, da.Array):
        X = da.from_array(X, chunks=(max(1, (1 << 25) // max(1, X.shape[1] * 8)), -1))
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead")
    if any(np.isnan(X.chunks[0])):
        X._chunks = (lengths_of(client, X[:, 0], "the lengths of blocks"), *X.chunks[1:])
    sparse = hasattr(X._meta, "tocsr")
    if not sparse and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if X.dtype.kind not in "fiub":
        raise ValueError(f"on Dask all columns should hold numbers, not {X.dtype}")
    (optimised,) = dask.optimize(X) if not futures_of(X) else (X,)
    delayed = optimised.to_delayed(optimize_graph=False).ravel().tolist()
    edges = np.cumsum([0, *X.chunks[0]])
    return Blocks(delayed, edges, X.shape[1], X.dtype, sparse, names)


def lengths_of(client: Client, X: Any, what: str) -> tuple[int, ...]:
    """The number of rows of each block or partition."""
    import dask

    return tuple(int(one) for one in computed(client, [dask.delayed(len)(one) for one in X.to_delayed()], what))


def load_part(blocks: Blocks, cluster: Cluster, part: int, address: str) -> list[Future]:
    """Start the tasks that load the rows of a part from their blocks onto a worker."""
    import dask

    stretch, edges = cluster.stretches[part], blocks.edges
    begin, end = stretch.first_row, stretch.first_row + stretch.n_rows
    first = int(np.searchsorted(edges, begin, side="right")) - 1
    put, tasks = dask.delayed(worker.put_rows, pure=False), []
    for number in range(first, int(np.searchsorted(edges, end, side="left"))):
        low, high = int(max(begin, edges[number])), int(min(end, edges[number + 1]))
        if high > low:
            rows = low - int(edges[number]), high - int(edges[number])
            tasks.append(put(cluster.name, part, low - begin, blocks.blocks[number], *rows))
    futures: list[Future] = cluster.client.compute(
        tasks, workers=[address], allow_other_workers=False, optimize_graph=False, retries=0
    )
    return futures


def workers_by_data(client: Client, blocks: Blocks) -> tuple[list[str], list[int]]:
    """The workers, in the order of the blocks that they hold, and their threads."""
    client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    known = client.scheduler_info(n_workers=-1)["workers"]
    held: dict[str, list[int]] = {}
    with contextlib.suppress(Exception):
        where = client.who_has(futures_of(blocks.blocks)) if futures_of(blocks.blocks) else {}
        numbers = {str(block.key): number for number, block in enumerate(blocks.blocks)}
        for key, addresses in where.items():
            for address in addresses:
                held.setdefault(address, []).append(numbers.get(str(key), 0))
    order = sorted(known, key=lambda address: (np.mean(held[address]) if address in held else np.inf, address))
    return order, [int(known[address]["nthreads"]) for address in order]


@contextlib.contextmanager
def on_workers(estimator: Any, X: Any, client: Client | None) -> Iterator[FitData]:
    """The rows of a collection on the workers of a client, or of the current one, for the duration of a fit."""
    try:
        client = client or get_client()
    except ValueError as error:
        raise ValueError(
            "data on Dask need a client: make one first, as in `from dask.distributed import Client; client = Client()`"
        ) from error
    if client.asynchronous:
        raise ValueError("a fit needs a client with asynchronous=False")
    with client.as_current(), loaded(estimator, blocks_of(X, client), client) as read:
        yield read


@contextlib.contextmanager
def loaded(estimator: Any, blocks: Blocks, client: Client) -> Iterator[FitData]:
    """The rows on the workers."""
    if blocks.n_rows < 2:
        raise ValueError(f"Found array with {blocks.n_rows} sample(s) while a minimum of 2 is required by DPMM.")
    estimator.n_features_in_ = blocks.n_columns
    if blocks.names is not None:
        estimator.feature_names_in_ = np.array(blocks.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    try:
        addresses, threads = workers_by_data(client, blocks)
    except TimeoutError as error:
        raise ClusterError(f"no worker joined the cluster within {WORKERS_WITHIN:.0f} s") from error
    cluster = Cluster(client, addresses)
    try:
        doubt = cluster.check_versions(addresses)
        if doubt is not None:
            warn_caller(doubt)
        read = read_counts if family_named(estimator.family).input == "counts" else read_numbers
        yield read(estimator, cluster, blocks, threads)
    finally:
        cluster.close()


def read_counts(estimator: Any, cluster: Cluster, blocks: Blocks, threads: list[int]) -> FitData:
    """Rows of counts, dense or sparse."""
    if blocks.sparse and not family_named(estimator.family).sparse:
        raise ValueError(f"sparse blocks are not for the family {estimator.family}")
    bytes_per_row = 4 * blocks.n_columns
    if blocks.sparse:
        import dask

        tasks = [dask.delayed(lambda rows: int(canonical(rows.tocsr()).nnz))(block) for block in blocks.blocks]
        bytes_per_row = max(4, 8 * int(sum(computed(cluster.client, tasks, "the sparse blocks"))) // blocks.n_rows)
    points = brought(cluster, blocks, threads, bytes_per_row)
    missing, finite, positive = looked(cluster)
    if missing or not finite:
        raise ValueError("Input X contains NaN or infinity: counts should be numbers from 0 on")
    if not positive:
        check_non_negative(np.array([[-1.0]]), f"DPMM (family {estimator.family})")
    column = exposure_column(estimator)
    if column is not None and min(low[0] for low, _ in cluster.ask_points("extremes", [column])) <= 0:
        raise ValueError("the exposure should be above 0 in every row")
    points.follow(Recipe())
    return FitData(points, np.zeros(1))


def computed(client: Client, tasks: Any, what: str) -> list[Any]:
    """The results of tasks, within a time limit."""
    futures = client.compute(list(tasks))
    try:
        wait(futures, timeout=PATIENCE)
    except TimeoutError as error:
        raise ClusterError(f"waited {PATIENCE:.0f} s for {what}: are there enough workers?") from error
    results: list[Any] = client.gather(futures)
    return results


def read_numbers(estimator: Any, cluster: Cluster, blocks: Blocks, threads: list[int]) -> FitData:
    """Rows of numbers. NaN is a missing value if covariances are diagonal."""
    if blocks.sparse:
        raise ValueError(f"sparse blocks are for counts: use family='{family_for(sparse=True).name}'")
    prior, auto = estimator.prior, estimator.covariance_type == "auto"
    points = brought(cluster, blocks, threads, 4 * blocks.n_columns)
    missing, finite, _ = looked(cluster)
    if not finite:
        raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
    family, kind = family_named(estimator.family), getattr(prior, "family", estimator.covariance_type)
    if missing and (prior == "reference" or (kind in family.kinds and family.prior_class(kind).correlated)):
        raise ValueError(NO_GAPS)
    sample = points[sample_rows(blocks.n_rows, 0)]

    def extremes(columns: list[int]) -> tuple[Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            answers = cluster.ask_points("extremes", columns)
            return np.nanmin([low for low, _ in answers], axis=0), np.nanmax([high for _, high in answers], axis=0)

    useful, restored, notes = useful_columns(sample, prior, called(estimator), extremes=extremes)
    kept = None if restored is None else restored.kept
    if kept is not None:
        # The chunks, and so each worker's rows, depend on the number of columns.
        cluster.close()
        cluster.owner.clear()
        cluster.stretches.clear()
        points = brought(cluster, blocks, threads, 4 * len(kept))
    offset = offset_of(useful)
    columns = blocks.n_columns if kept is None else len(kept)
    points.shape = (blocks.n_rows, columns)
    if not points.follow(Recipe(kept, offset, missing=missing > 0)):
        raise ValueError(TOO_WIDE)
    points.dtype = np.dtype(np.float32)
    missing_left = missing if kept is None else int(sum(cluster.ask_points("gaps")))
    if missing_left and auto and columns > 1 and not is_given(prior):
        count = "1 value is" if missing_left == 1 else f"{missing_left:,} values are"
        notes = (
            *notes,
            f"{count} missing, and only for that reason clusters are ellipsoids along the axes: on one machine they "
            "may have any direction, which often takes fewer clusters",
        )
    return FitData(points, offset, None, missing_left, restored, notes)


def brought(cluster: Cluster, blocks: Blocks, threads: list[int], bytes_per_row: int) -> RemotePoints:
    """Load the rows onto the workers."""
    cluster.share_out(Stretch.whole(blocks.n_rows, bytes_per_row), threads)
    cluster.load = partial(load_part, blocks)
    cluster._placed(sorted(cluster.owner))
    kind = blocks.dtype if blocks.dtype == np.float32 else np.float64
    return RemotePoints(cluster, (blocks.n_rows, blocks.n_columns), kind, blocks.sparse)


def looked(cluster: Cluster) -> tuple[int, bool, bool]:
    """The number of missing values, whether all others are finite, and whether none is below zero."""
    missing, finite, positive = zip(*cluster.ask_points("look"), strict=True)
    return sum(missing), all(finite), all(positive)
