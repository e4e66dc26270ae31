"""Runs of the exact moves, one alone or several in turn, and how far they are from what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from dpmmwrap.families.base import Model
from dpmmwrap.partitions import DirichletProcess, PartitionPrior
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import make_data
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.moves import partition_prior, restricted_sweep, single_points, split_merge
from dpmmwrap.sampler.moves.single_points import NO_FOUNDERS, Founders
from dpmmwrap.sampler.moves.split_merge import Tools
from dpmmwrap.sampler.partition import Partition, partition_of
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import next_key
from dpmmwrap.starts import make_initializer
from exactness.enumeration import Expected, Process

POINTS, PROPOSALS = 2, 2
"""Of each iteration. Few, so that no move sets right what another one has done wrong."""
BATCHES = 25
ALONE = {"points": ("points",), "pairs": ("pairs",), "sweep and points": ("sweep", "points")}
"""Moves that reach every partition without the others."""


class Seen(NamedTuple):
    """What was drawn."""

    labels: np.ndarray
    """(draws, N), -1 for outliers."""
    alpha: np.ndarray
    discount: np.ndarray | None = None

    @property
    def n_clusters(self) -> np.ndarray:
        ordered = np.sort(self.labels, axis=1)
        return (np.diff(ordered, axis=1, prepend=-1) > 0).sum(axis=1)


class Apart(NamedTuple):
    """How far draws are from what is expected."""

    clusters: float
    """Total variation distance of p(K | X)."""
    pairs: float
    """The largest difference of a pair's probability, or of an outlier's."""
    alpha: float
    """Of the mean of the concentration, as a share of it."""
    discount: float
    """Of the mean of the discount."""
    z: float
    """The largest of all differences, in Monte Carlo standard errors."""


def process_of(alpha: Process) -> PartitionPrior:
    """The package's object."""
    if isinstance(alpha, PartitionPrior):
        return alpha
    if isinstance(alpha, float):
        return DirichletProcess(alpha)
    return DirichletProcess("auto", alpha).at((alpha[0] / alpha[1],))


def context_of(X: Any, prior: Any, alpha: Process = 1.0, **changes: Any) -> Context:
    """What the moves are given beside a partition."""
    settings = Settings(process_of(alpha), prior, make_initializer("random"), max_iter=1, min_cluster_age=1, seed=0)
    settings = replace(settings, **changes)
    model = Model(prior, settings.outlier_weight, settings.outlier_prior)
    return Context(make_data(X, settings), model, settings)


def start(context: Context, labels: np.ndarray | None = None) -> Partition:
    """The partition of these labels, without outliers; by default all in one cluster."""
    data, model = context.data, context.model
    if labels is None:
        labels = np.zeros(data.n_rows, np.int32)
    count = int(labels.max()) + 1 + model.outliers
    labels = (labels + model.outliers).astype(np.int32)
    statistics = model.prior.statistics(data.take(np.arange(data.n_rows)), labels, count)
    return partition_of(context, context.settings.partition_prior, labels, statistics)


def tools_of(context: Context, founders: Founders = NO_FOUNDERS) -> Tools:
    """What split and merge moves need; near pairs also about the likely founders, if there are any."""
    embed = context.model.prior.embedder(context.data.take(np.arange(context.data.n_rows)))
    tools = Tools.of(context, embed)
    return tools.with_founders(founders, context, embed) if len(founders.rows) else tools


def uneven_founders(n_rows: int) -> Founders:
    """Rows that are taken more or less often, whatever their labels are."""
    shares = np.arange(1.0, n_rows + 1)
    return Founders(np.arange(n_rows), np.cumsum(shares) / shares.sum())


def one_move(name: str, key: Any, partition: Partition, context: Context, tools: Tools) -> Partition:
    """A move by its name."""
    if name == "sweep":
        return restricted_sweep.step(key, partition, context)[0]
    if name == "points":
        return single_points.step(key, partition, context, POINTS)[0]
    if name == "pairs":
        return split_merge.step(key, partition, context, tools, PROPOSALS)[0]
    return partition_prior.step(key, partition, context)


@contextmanager
def few_of_each() -> Iterator[None]:
    """`sampling.step` with few single points and few pairs."""
    few = {"POINTS": POINTS, "FEWEST_PROPOSALS": PROPOSALS, "MOST_PROPOSALS": PROPOSALS}
    with patch.multiple(sampling, **few):
        yield


def run(
    context: Context,
    draws: int,
    moves: tuple[str, ...] | None = None,
    seed: int = 0,
    founders: Founders = NO_FOUNDERS,
    labels: np.ndarray | None = None,
    thin: int = 1,
) -> Seen:
    """Draws by these moves in turn, or by `sampling.step`; after a tenth as many that are left out."""
    partition, tools = start(context, labels), tools_of(context, founders)
    rng = np.random.Generator(np.random.SFC64(seed))
    labels_seen, values = np.empty((draws, context.data.n_rows), np.int16), np.zeros((2, draws))
    for number in range(-(draws // 10), draws):
        for _ in range(thin):
            if moves is None:
                partition, _ = sampling.step(next_key(rng), partition, context, tools, founders)
            for name in moves or ():
                partition = one_move(name, next_key(rng), partition, context, tools)
        if number >= 0:
            labels_seen[number] = partition.labels - context.model.outliers
            now = partition.partition_prior.values
            values[: len(now), number] = now
    return Seen(labels_seen, *values)


def apart(seen: Seen, expected: Expected) -> Apart:
    """Of draws from what enumeration expects."""
    draws, count = seen.labels.shape
    one, other = np.triu_indices(count, 1)
    inside = seen.labels >= 0
    kinds = {
        "clusters": (seen.n_clusters[:, None] == np.arange(count + 1), expected.clusters),
        "pairs": ((seen.labels[:, one] == seen.labels[:, other]) & inside[:, one], expected.together[one, other]),
        "outside": (~inside, expected.outside),
        "alpha": (seen.alpha[:, None], np.array([expected.alpha])),
    }
    if seen.discount is not None:
        kinds["discount"] = (seen.discount[:, None], np.array([expected.discount]))
    z, gaps = 0.0, {}
    for name, (values, means) in kinds.items():
        gap = np.abs(values.mean(axis=0) - means)
        gaps[name] = gap
        if np.ptp(values.astype(float)) > 0:
            least = np.sqrt(means * (1 - means) / draws) if name not in ("alpha", "discount") else 0.0
            z = max(z, float((gap / np.maximum(standard_errors(values), np.maximum(least, 1e-12))).max()))
    return Apart(
        0.5 * float(gaps["clusters"].sum()),
        float(max(gaps["pairs"].max(), gaps["outside"].max())),
        float(gaps["alpha"][0] / expected.alpha),
        float(gaps["discount"][0]) if "discount" in gaps else 0.0,
        z,
    )


def standard_errors(values: np.ndarray) -> np.ndarray:
    """Of the means of the columns of a chain's draws, from the means of batches."""
    length = len(values) // BATCHES
    means = values[: length * BATCHES].reshape(BATCHES, length, -1).mean(axis=1)
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(BATCHES))
