"""Runs of the exact moves, one alone or several in turn, and how far they are from what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from dpmmwrap.families.student.points import StudentPoints
from dpmmwrap.families.student.statistics import ScaledPoints
from dpmmwrap.partitions import DirichletProcess, PartitionPrior
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import first_state, make_data
from dpmmwrap.sampler.moves import partition_prior, restricted_sweep
from dpmmwrap.sampler.moves.single_points import KeptClusters, SinglePoints
from dpmmwrap.sampler.moves.split_merge import SplitMerge
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.proposals import NO_CLUSTER_SEEDS, ClusterSeeds
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import State, next_key
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


def problem_of(X: Any, prior: Any, alpha: Process = 1.0, **changes: Any) -> Problem:
    """What the moves are given beside a state."""
    settings = Settings(process_of(alpha), prior, make_initializer("random"), max_iter=1, min_cluster_age=1, seed=0)
    settings = replace(settings, **changes)
    return Problem(make_data(X, settings), settings, X)


def start(
    problem: Problem,
    labels: np.ndarray | None = None,
    cluster_seeds: ClusterSeeds = NO_CLUSTER_SEEDS,
    scales: np.ndarray | None = None,
) -> State:
    """A state with these labels, without outliers; by default all in one cluster. Near pairs also about the likely
    seeds of clusters, if there are any. Where points have scales, with these, or 1."""
    data, outliers, state = problem.data, problem.outliers, first_state(problem)
    if labels is None:
        labels = np.zeros(data.n_rows, np.int32)
    state.n_clusters = int(labels.max()) + 1 + outliers
    state.labels[:] = labels + outliers
    data.points.begin(state.labels)
    # Where values are missing, with those that stand for them.
    X: Any = np.array(data.points.X) if data.points.imputes else problem.X
    if isinstance(data.points, StudentPoints):
        data.points.scales[:] = 1.0 if scales is None else scales
        X = ScaledPoints(X, data.points.scales)
    statistics = state.model.prior.statistics(X, state.labels, state.n_clusters, problem.settings.weights)
    state.collapsed = data.collapsed(state.model, statistics, state.n_clusters)
    if len(cluster_seeds.rows):
        state.cluster_seeds, state.near = cluster_seeds, problem.near.joined(cluster_seeds, data, problem.embed)
    return state


def uneven_cluster_seeds(n_rows: int) -> ClusterSeeds:
    """Rows that are taken more or less often, whatever their labels are."""
    shares = np.arange(1.0, n_rows + 1)
    return ClusterSeeds(np.arange(n_rows), np.cumsum(shares) / shares.sum())


def one_move(name: str, key: Any, state: State, problem: Problem) -> State:
    """A move by its name."""
    moves = {
        "sweep": restricted_sweep, "points": SinglePoints(POINTS), "pairs": SplitMerge(PROPOSALS),
        "kept": KeptClusters(),
    }  # fmt: skip
    move: Any = moves.get(name, partition_prior)
    state, _ = move.step(key, state, problem)
    return state


@contextmanager
def few_of_each() -> Iterator[None]:
    """`sampling.step` with few single points and few pairs."""
    few = {"POINTS": POINTS, "FEWEST_PROPOSALS": PROPOSALS, "MOST_PROPOSALS": PROPOSALS}
    with patch.multiple(sampling, **few):
        yield


def run(
    problem: Problem,
    draws: int,
    moves: tuple[str, ...] | None = None,
    seed: int = 0,
    cluster_seeds: ClusterSeeds = NO_CLUSTER_SEEDS,
    labels: np.ndarray | None = None,
    thin: int = 1,
) -> Seen:
    """Draws by these moves in turn, or by `sampling.step`; after a tenth as many that are left out."""
    # Single points are chosen among seeds by `sampling.step` only.
    state = start(problem, labels, cluster_seeds)
    if moves is not None:
        state.cluster_seeds = NO_CLUSTER_SEEDS
    rng = np.random.Generator(np.random.SFC64(seed))
    labels_seen, values = np.empty((draws, problem.data.n_rows), np.int16), np.zeros((2, draws))
    for number in range(-(draws // 10), draws):
        for _ in range(thin):
            if moves is None:
                state, _ = sampling.step(next_key(rng), state, problem)
            for name in moves or ():
                state = one_move(name, next_key(rng), state, problem)
        if number >= 0:
            labels_seen[number] = state.labels - problem.outliers
            now = state.partition_prior.values
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
