"""Runs on a handful of points, so that the loops of a family are compiled and kept before somebody waits for them.

Each task compiles a part of what a fit needs; they are about as long as each other, and hardly two of them compile the
same. What a task misses is compiled when it is first needed, as everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full import kernels as whitened_loops
from dpmmwrap.families.full import pairs
from dpmmwrap.families.full.kernels import ClusterTables, Neighbours, SubclusterTables, Sums, Tables
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.mixed.prior import Mixed, MixedPoints
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.numerics.labels import LabelOrder, contingency
from dpmmwrap.numerics.row_loops import nearest_centres, project
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.moves import restricted_sweep, single_points, split_merge
from dpmmwrap.sampler.moves.split_merge import Near, SequentialAllocation, Tools
from dpmmwrap.sampler.partition import Partition, partition_of
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.starts import make_initializer

ROWS, DIM, GROUPS = 60, 2, 3
ITERATIONS = 45
"""Two looks at stalled subclusters, and the last greedy steps."""
KEY = np.uint64(7)


def numbers() -> Any:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(ROWS, DIM)) + 9.0 * (np.arange(ROWS) % GROUPS)[:, None]).astype(np.float32)


def numbers_with_gaps() -> Any:
    X = numbers()
    X[::7, 0] = np.nan
    return X


def counts() -> Any:
    return np.random.default_rng(0).poisson(1.0 + 9.0 * np.eye(GROUPS)[np.arange(ROWS) % GROUPS]).astype(np.float32)


def codes() -> Any:
    return np.stack([np.arange(ROWS) % GROUPS, GROUPS + np.arange(ROWS) % 2], axis=1).astype(np.int32)


def nig() -> NIG:
    return NIG(np.zeros(DIM), 0.1, np.ones(DIM), 4.0)


def niw() -> NIW:
    return NIW(np.zeros(DIM), 0.1, np.eye(DIM), 4.0)


def table_prior() -> Mixed:
    return Mixed(nig(), CategoricalDirichlet.from_levels(np.array([GROUPS, 2])))


KINDS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "full": (numbers, niw),
    "diag": (numbers, nig),
    "gaps": (numbers_with_gaps, nig),
    "spherical": (numbers, lambda: SphericalNIG(np.zeros(DIM), 0.1, np.ones(1), 4.0)),
    "counts": (counts, lambda: Dirichlet(np.full(GROUPS, 0.1))),
    "sparse": (lambda: csr_array(counts()), lambda: Dirichlet(np.full(GROUPS, 0.1))),
    "mixed": (lambda: MixedPoints(numbers(), codes()), table_prior),
}
"""Data and a prior of each kind of loops."""


def chain_of(kind: str, first: int = 6, **options: Any) -> Chain:
    points, prior = (make() for make in KINDS[kind])
    settings = Settings(
        DirichletProcess(), prior, make_initializer("random"), max_iter=ITERATIONS, min_cluster_age=1, seed=0,
        init_clusters=first, restart_after=1, **options,
    )  # fmt: skip
    settings.bind(points, settings.full_ratio)
    return Chain(points, settings)


def search(kind: str) -> None:
    """What a search needs beside the exact moves."""
    chain = chain_of(kind, exact_moves=False)
    chain.run()
    if kind == "mixed":
        # A part's rows of a table of one cluster lie close together, of others not.
        chain_of(kind, first=1, exact_moves=False).run()
    label_rows()
    (data, model, _), state = chain.context, chain.state
    # Merges are seldom so likely that this is asked for.
    if state.n_clusters > 1:
        tables = data.draw_parameters(model, state, KEY)
        data.add_reverse_proposal_log_prob(state, tables, np.array([0]), np.array([1]), np.array([1e9]))


def label_rows() -> None:
    """The loops of bins and of 2-means."""
    points = numbers()
    project(points, np.ones(DIM))
    nearest_centres(points, np.ones((DIM, 3), np.float32), np.zeros(3, np.float32), np.zeros(ROWS, np.int32))


def sweep() -> None:
    """The longest of all loops, on its own: over no points."""
    X, dim = numbers(), DIM
    X.setflags(write=False)
    f4, f8, i8 = partial(np.zeros, dtype=np.float32), np.zeros, partial(np.zeros, dtype=np.int64)
    tables = Tables(
        ClusterTables(f4((1, dim, dim)), f4(1)),
        Neighbours(f4((1, dim)), f4((1, dim)), i8((1, 1)), f4((1, 1))),
        SubclusterTables(f4((2, dim, dim)), f4((2, dim)), f4(2)),
    )
    by_label = LabelOrder(np.zeros(0, np.int32), i8((0, 2)))
    sums = Sums(i8((0, 1, 2)), f8((0, 1, 2, dim)), f8((0, 1, 2, dim, dim)), f8((0, 1)))
    whitened_loops.sweep(
        X, np.zeros(0, np.int32), np.zeros(0, np.uint8), i8(1), i8(1), by_label, tables, KEY, False, sums
    )
    pairs.reverse_proposal_log_prob(X, i8(1), i8(1), by_label, tables, i8(0), i8(0), f8(0), f8((0, 0)))


def partition_for(kind: str, groups: int = GROUPS) -> tuple[Context, Partition, Tools]:
    context = chain_of(kind).context
    labels = (np.arange(ROWS) % groups).astype(np.int32)
    statistics = context.model.prior.statistics(context.data.take(np.arange(ROWS)), labels, groups)
    rows = np.arange(ROWS)
    near = Near(rows, (rows + 1) / ROWS, np.stack([(rows + 1) % ROWS, (rows + 2) % ROWS], axis=1))
    scratches: SimpleQueue[Any] = SimpleQueue()
    scratches.put(context.data.empty_clusters(context.model, 3))
    partition = partition_of(context, DirichletProcess(), labels, statistics, 8)
    return context, partition, Tools(near, SequentialAllocation(), scratches)


def sides_of_clusters(kind: str) -> None:
    """What brings subclusters in line after exact moves."""
    chain = chain_of(kind)
    chain.begin()
    data, state = chain.context.data, chain.state
    rows = data.members(state, np.array([0]))[0]
    data.set_sublabels(state, [rows], [np.zeros(len(rows), np.uint8)])


def exact_moves(kind: str) -> None:
    """Splits, merges and single points with all parameters integrated out."""
    sides_of_clusters(kind)
    context, partition, tools = partition_for(kind)
    rows = np.arange(ROWS)
    partition, _ = single_points.step(KEY, partition, context, 8)
    split_merge.step(KEY, partition, context, tools, 4)
    clusters, scratch, labels = partition.clusters, tools.scratches.get(), partition.labels
    # Whatever the moves above have done: each loop once.
    sides = (rows % 2).astype(np.int64)
    exact.shuffle(rows, 0, 1, KEY)
    exact.present_sides(rows, labels, 1, sides)
    exact.allocate(scratch, context.data.points.loop_points, rows, sides, KEY, True, exact.ONE_BY_ONE)
    split_merge.split_gain(clusters, scratch, 0)
    contingency(labels, labels, np.zeros((ROWS, ROWS), np.int64))


def draws(kind: str) -> None:
    """Draws from the posterior."""
    context, partition, tools = partition_for(kind)
    founders = single_points.likely_founders(KEY, partition, context)
    for number in range(3):
        partition, _ = sampling.step(np.uint64(number), partition, context, tools, founders)
        sampling.look(partition, context)
    # A point that may not leave its cluster is put back: seldom.
    context.data.add_to_statistics(context.data.statistics_of(context.model, partition), 0, 0, 1)
    if kind == "mixed":
        context, partition, _ = partition_for(kind, groups=1)
        restricted_sweep.step(KEY, partition, context)


def tasks() -> Iterator[tuple[str, Callable[[], None]]]:
    """All of them by name, the longest first."""
    yield "full search", partial(search, "full")
    yield "full sweep", sweep
    yield "full exact", partial(exact_moves, "full")
    for kind in KINDS:
        if kind != "full":
            yield f"{kind} search", partial(search, kind)
            yield f"{kind} exact", partial(exact_moves, kind)
    for kind in KINDS:
        yield f"{kind} draws", partial(draws, kind)
