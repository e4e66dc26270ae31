"""The compiled loops against plain NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from innerloops import called
from scipy import stats

from dpmmwrap.families.base import Model
from dpmmwrap.families.full.kernels import Tables
from dpmmwrap.families.full.pairs import kernel_tables
from dpmmwrap.families.full.points import FullPoints
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import Gaussians, gaussians_of, statistics_of
from dpmmwrap.families.full.wishart import Statistics
from dpmmwrap.numerics.variates import random_bits
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.state import RECORD, State


class Parameters(NamedTuple):
    """Drawn weights and Gaussians of the clusters, then of the subclusters."""

    log_weights: np.ndarray
    log_subweights: np.ndarray
    gaussians: Gaussians

    @property
    def tables(self) -> Tables:
        return kernel_tables(*self)


class Points(NamedTuple):
    """The data, and a state with labels and nothing else."""

    data: Data
    state: State

    @classmethod
    def of(cls, X: np.ndarray, labels: np.ndarray, clusters: int, n_jobs: int = 1) -> Points:
        nothing = statistics_of(X[:0], n_clusters=0)
        state = State(
            Model(NIW.reference(X.shape[1])),
            DirichletProcess(1.0),
            labels,
            np.zeros(len(X), np.uint8),
            nothing,
            np.zeros(clusters, RECORD),
        )
        return cls(Data(FullPoints(X, n_jobs)), state)

    def sweep(self, parameters: Parameters, key: int, greedy: bool) -> tuple[Statistics, np.ndarray]:
        return self.data.sweep(self.state, parameters.tables, np.uint64(key), greedy)

    @property
    def X(self) -> np.ndarray:
        return self.data.points.X

    @property
    def labels(self) -> np.ndarray:
        return self.state.labels

    @property
    def sublabels(self) -> np.ndarray:
        return self.state.sublabels


def random_parameters(count: int, dim: int, spread: float, seed: int = 0) -> Parameters:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, dim)) * spread
    submeans = np.repeat(means, 2, axis=0) + rng.normal(size=(2 * count, dim))
    covariances = stats.wishart(dim + 2, np.eye(dim)).rvs(3 * count, random_state=seed).reshape(-1, dim, dim) / dim
    precision = np.linalg.inv(covariances)
    # W lower triangular with W'W = P: reverse, factor, reverse back.
    factors = np.swapaxes(np.linalg.cholesky(precision[:, ::-1, ::-1])[:, ::-1, ::-1], 1, 2)
    log_weights = np.log(rng.dirichlet(np.full(count, 5.0)))
    log_subweights = np.log(rng.dirichlet([3.0, 3.0], count))
    gaussians = gaussians_of(np.concatenate([means, submeans]), np.tril(factors))
    return Parameters(log_weights, log_subweights, gaussians)


def points_of(parameters: Parameters, rows: int, seed: int = 1, strays: int = 5) -> Points:
    """Points of the mixture, with random labels to begin with; a few lie far away from everything."""
    rng = np.random.default_rng(seed)
    count = len(parameters.log_weights)
    source = rng.integers(0, count, rows)
    dim = parameters.gaussians.means.shape[1]
    normal = rng.normal(size=(rows, dim, 1))
    steps = np.linalg.solve(parameters.gaussians.precision_factors[source], normal)[:, :, 0]
    X = parameters.gaussians.means[source] + steps
    X[:strays] *= 30
    labels = np.where(rng.random(rows) < 0.9, source, rng.integers(0, count, rows)).astype(np.int32)
    return Points.of(X.astype(np.float32), labels, count)


def log_joint(X: np.ndarray, log_weights: np.ndarray, means: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """log of weight times density for every point and cluster, in float64 and without any skipping."""
    z = np.einsum("kij,nkj->nki", factors, X[:, None, :].astype(np.float64) - means)
    halves = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return log_weights + halves - 0.5 * (z**2).sum(axis=2)


def plain_labels(logs: np.ndarray, uniforms: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Inverse of the distribution function over clusters in the given order (per point)."""
    ordered = np.take_along_axis(logs, order, axis=1)
    shares = np.exp(ordered - ordered.max(axis=1, keepdims=True))
    totals = np.cumsum(shares, axis=1)
    place = (totals <= uniforms[:, None] * totals[:, -1:]).sum(axis=1)
    return np.take_along_axis(order, place[:, None], axis=1)[:, 0]


@pytest.mark.parametrize(
    ("count", "dim", "spread"), [(1, 2, 1.0), (5, 1, 3.0), (20, 2, 4.0), (30, 7, 3.0), (12, 20, 5.0)]
)
def test_labels_are_those_of_the_plain_sum(count: int, dim: int, spread: float) -> None:
    """Skipping clusters that cannot win changes nothing: same uniforms, same labels, but for float32 rounding."""
    parameters = random_parameters(count, dim, spread)
    points = points_of(parameters, 4000)
    old = points.labels.copy()
    key = np.uint64(77)
    points.sweep(parameters, 77, greedy=False)
    means, factors = parameters.gaussians.means[:count], parameters.gaussians.precision_factors[:count]
    logs = log_joint(points.X, parameters.log_weights, means, factors)
    # The kernel goes through a point's old cluster first, then its neighbours in their order.
    order = parameters.tables.neighbours.order[old].astype(np.int64)
    assert (order[:, 0] == old).all()
    own = called(random_bits)
    bits = np.array([own(key, row) for row in range(len(old))], dtype=np.uint64)
    uniforms = ((bits >> np.uint64(40)).astype(np.float64) + 0.5) / 2**24
    expected = plain_labels(logs, uniforms, order)
    assert (points.labels != expected).mean() < 1e-3


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_greedy_labels_are_the_most_likely(dim: int) -> None:
    parameters = random_parameters(9, dim, 2.0)
    points = points_of(parameters, 3000)
    points.sweep(parameters, 1, greedy=True)
    means, factors = parameters.gaussians.means[:9], parameters.gaussians.precision_factors[:9]
    logs = log_joint(points.X, parameters.log_weights, means, factors)
    best = logs.max(axis=1)
    chosen = np.take_along_axis(logs, points.labels[:, None].astype(int), axis=1)[:, 0]
    np.testing.assert_allclose(chosen, best, rtol=1e-4, atol=1e-2)


def test_labels_and_sublabels_have_the_right_distribution() -> None:
    """Many copies of one point between overlapping clusters: frequencies against exact probabilities."""
    parameters = random_parameters(6, 2, 0.8, seed=3)
    rows = 60_000
    X = np.tile(np.array([0.2, -0.1], np.float32), (rows, 1))
    points = Points.of(X, np.zeros(rows, np.int32), 6)
    points.sweep(parameters, 5, greedy=False)
    means, factors = parameters.gaussians.means, parameters.gaussians.precision_factors
    logs = log_joint(X[:1], parameters.log_weights, means[:6], factors[:6])[0]
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    assert (shares > 0.01).sum() > 2
    assert stats.chisquare(np.bincount(points.labels, minlength=6), rows * shares).pvalue > 1e-3
    sublogs = log_joint(X[:1], parameters.log_subweights.ravel(), means[6:], factors[6:])[0].reshape(6, 2)
    right = 1 / (1 + np.exp(sublogs[:, 0] - sublogs[:, 1]))
    for k in np.flatnonzero(shares > 0.01):
        members = points.labels == k
        p = stats.binomtest(int(points.sublabels[members].sum()), int(members.sum()), right[k]).pvalue
        assert p > 1e-4


def test_proposal_log_probs_are_those_of_the_sublabels() -> None:
    """Each cluster's sum of log p(sublabel), in float64 over all points."""
    parameters = random_parameters(7, 3, 2.0)
    points = points_of(parameters, 30_000)
    _, log_probs = points.sweep(parameters, 9, greedy=False)
    means, factors = parameters.gaussians.means[7:], parameters.gaussians.precision_factors[7:]
    logs = log_joint(points.X, parameters.log_subweights.ravel(), means, factors).reshape(-1, 7, 2)
    own = logs[np.arange(len(logs)), points.labels]
    chosen = np.take_along_axis(own, points.sublabels[:, None].astype(int), axis=1)[:, 0]
    expected = np.bincount(points.labels, chosen - np.logaddexp(*own.T), minlength=7)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4)


def test_the_reverse_proposal_has_the_probability_of_the_labels() -> None:
    """Within a pair of clusters, the sum of log p(label); a hopeless sum may be cut short, but not above its bound."""
    parameters = random_parameters(5, 3, 1.0)
    points = points_of(parameters, 30_000)
    points.sweep(parameters, 9, greedy=False)
    means, factors = parameters.gaussians.means[:5], parameters.gaussians.precision_factors[:5]
    logs = log_joint(points.X, parameters.log_weights, means, factors)
    one, other = np.array([0, 3, 1]), np.array([2, 1, 0])
    expected = np.zeros(3)
    for pair, (i, j) in enumerate(zip(one, other, strict=True)):
        for k, rival in ((i, j), (j, i)):
            rows = points.labels == k
            expected[pair] -= np.logaddexp(0, logs[rows, rival] - logs[rows, k]).sum()
    assert (expected < -10).all()
    ample = 2 * np.abs(expected)
    points.state.tables = parameters.tables

    def added(margins: np.ndarray) -> np.ndarray:
        return points.data.add_reverse_proposal_log_prob(points.state, one, other, margins)

    np.testing.assert_allclose(added(ample) - ample, expected, rtol=1e-4)
    np.testing.assert_array_equal(added(-expected / 2), -np.inf)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_statistics_are_those_of_the_new_labels(offset: float) -> None:
    parameters = random_parameters(7, 3, 2.0)
    shifted = parameters.gaussians._replace(means=parameters.gaussians.means + offset)
    parameters = parameters._replace(gaussians=shifted)
    points = points_of(parameters, 30_000, strays=0)
    got, _ = points.sweep(parameters, 9, greedy=False)
    expected = statistics_of(points.X, 2 * points.labels + points.sublabels, 14)
    np.testing.assert_array_equal(got.counts, expected.counts)
    # A point relative to its cluster's mean is rounded to float32 once; all sums are float64.
    np.testing.assert_allclose(got.means, expected.means, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(got.scatters, expected.scatters, rtol=1e-6, atol=1e-4)


def test_the_order_left_by_a_sweep_serves_the_next_one() -> None:
    parameters = random_parameters(6, 3, 2.0)
    kept, sorted_anew = points_of(parameters, 30_000), points_of(parameters, 30_000)
    for key in range(3):
        for points in (kept, sorted_anew):
            points.sweep(parameters, key, greedy=False)
        assert kept.state.by_label is not None
        sorted_anew.state.by_label = None
        np.testing.assert_array_equal(kept.labels, sorted_anew.labels)
        np.testing.assert_array_equal(kept.sublabels, sorted_anew.sublabels)
    to_label = np.tile(np.array([[0], [0], [1], [2], [3], [4]], np.int32), 2)
    kept.data.relabel(kept.state, to_label, np.tile(np.array([0, 1], np.uint8), (6, 1)))
    assert kept.state.by_label is None


def test_set_sublabels_gives_the_same_statistics() -> None:
    points = points_of(random_parameters(4, 5, 2.0), 5000)
    # On a grid, where the difference of two points is exact in float32.
    points = Points.of(np.round(points.X * 1024) / 1024, points.labels, 4)
    members = points.data.members(points.state, np.array([1, 3]))
    np.testing.assert_array_equal(members[1], np.flatnonzero(points.labels == 3))
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, 2, len(rows)).astype(np.uint8) for rows in members]
    got = points.data.set_sublabels(points.state, members, sides)
    for number, rows in enumerate(members):
        np.testing.assert_array_equal(points.sublabels[rows], sides[number])
        expected = statistics_of(points.X[rows], sides[number], 2)
        place = slice(2 * number, 2 * number + 2)
        np.testing.assert_array_equal(got.counts[place], expected.counts)
        np.testing.assert_allclose(got.means[place], expected.means, rtol=1e-9)
        np.testing.assert_allclose(got.scatters[place], expected.scatters, rtol=1e-9)


def test_the_number_of_threads_changes_no_bit() -> None:
    parameters = random_parameters(15, 4, 2.0)
    results = []
    for n_jobs in (1, 2, 5):
        points = points_of(parameters, 60_000)
        points = Points.of(points.X, points.labels, 15, n_jobs)
        statistics, log_probs = points.sweep(parameters, 3, greedy=False)
        points.data.close()
        results.append((points.labels, points.sublabels, statistics.means, statistics.scatters, log_probs))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
