"""Clusters with their parameters integrated out, against what each family says of itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from numba import njit
from scipy.special import gammaln

from dpmmwrap.families import collapsed
from dpmmwrap.families.base import Model
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.collapsed import add_cluster, add_point, add_rows, copy_clusters, log_predictive, prepare
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.poisson.prior import GammaPoisson, with_exposure_last
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels import exact

ROWS = 40
KINDS = ("full", "diag", "diag with gaps", "spherical", "counts", "sparse counts", "events", "mixed")
FAR = ("full", "diag", "diag with gaps", "spherical", "mixed")
every_case = pytest.mark.parametrize(
    ("kind", "origin"), [(kind, 0.0) for kind in KINDS] + [(kind, 3000.0) for kind in FAR]
)
UP, DOWN, BLOCK, UNION = 0, 1, 2, 3


@njit(cache=True)
def change(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, how: Any) -> None:
    """Rows one by one into cluster k, or out of it; those of side 1 at once; or all of the cluster after it."""
    if how in (UP, DOWN):
        for row in rows:
            add_point(clusters, k, X, row, 1.0 if how == UP else -1.0)
    elif how == BLOCK:
        add_rows(clusters, k, X, rows, sides, 1)
    else:
        add_cluster(clusters, k, clusters, k + 1, 1.0)


@njit(cache=True)
def predictives(clusters: Any, k: Any, X: Any, rows: Any) -> Any:
    found = np.empty(len(rows))
    prepare(clusters, k)
    for place in range(len(rows)):
        found[place] = log_predictive(clusters, k, X, rows[place])
    return found


class Case(NamedTuple):
    X: Any
    prior: Any
    data: Data
    clusters: Any
    """Three empty ones."""

    def check(self, k: int, rows: Any) -> None:
        """Cluster k is that of these rows: marginal likelihood, and predictive at all rows."""
        statistics = self.prior.statistics(self.X[np.asarray(rows)])
        expected = self.prior.log_marginal_likelihood(statistics)[0]
        assert collapsed.log_marginals(self.clusters, k, k + 1)[0] == pytest.approx(expected, rel=1e-8, abs=2e-5)
        found = predictives(self.clusters, k, self.data.points.loop_points, np.arange(ROWS))
        expected = self.prior.posterior(statistics).log_predictive(self.X)[0] - coefficients(self.prior, self.X)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=2e-5)

    def change(self, k: int, rows: Any, how: int, sides: Any = ()) -> None:
        sides = np.asarray(sides, np.int64)
        change(self.clusters, k, self.data.points.loop_points, np.asarray(rows, np.int64), sides, how)


def coefficients(prior: Any, X: Any) -> Any:
    """Of counts: the multinomial coefficients and the like, which no clustering changes and the loops leave out."""
    if isinstance(prior, GammaPoisson):
        rows = with_exposure_last(X, prior.exposure).astype(float)
        return (rows[:, :-1] * np.log(rows[:, -1:]) - gammaln(rows[:, :-1] + 1.0)).sum(axis=1)
    if isinstance(X, TablePoints) or (not scipy.sparse.issparse(X) and not (np.round(X) == X).all()):
        return 0.0
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    return gammaln(dense.sum(axis=1) + 1.0) - gammaln(dense + 1.0).sum(axis=1)


def case(kind: str, origin: float) -> Case:
    rng = np.random.default_rng(3)
    numbers = (rng.normal(size=(ROWS, 3)) * [1, 2, 0.5] + origin).astype(np.float32)
    gappy = np.where(rng.random(numbers.shape) < 0.2, np.float32(np.nan), numbers)
    counts = rng.poisson([2.0, 0.3, 1.0, 0.0, 5.0], (ROWS, 5)).astype(np.float32)
    # A row of nothing, and large counts.
    counts[7], counts[8] = 0.0, [300, 0, 20, 0, 1]
    events = np.insert(counts[:, :4], 2, np.linspace(0.3, 4.0, ROWS), axis=1).astype(np.float32)
    codes = np.stack([rng.integers(0, 3, ROWS), rng.integers(3, 5, ROWS)], axis=1).astype(np.int32)
    codes[rng.random(codes.shape) < 0.1] = -1
    middle = np.array([0.5, 0.0, -0.5]) + origin
    nig = NIG(middle, 0.3, np.array([3.0, 5.0, 1.0]), 4.0)
    levels = CategoricalDirichlet(np.array([3, 2]), np.array([0.5, 1.0, 1.5, 0.2, 0.7]))
    dirichlet = Dirichlet(np.array([0.5, 0.1, 1.0, 0.3, 2.0]))
    scale = np.array([[3.0, 1.0, 0.2], [1.0, 8.0, -0.5], [0.2, -0.5, 1.0]])
    X, prior = {
        "full": (numbers, NIW(middle, 0.3, scale, 5.5)),
        "diag": (numbers, nig),
        "diag with gaps": (gappy, nig),
        "spherical": (gappy, SphericalNIG(middle, 0.3, np.full(1, 3.0), 4.0)),
        "counts": (counts, dirichlet),
        "sparse counts": (scipy.sparse.csr_matrix(counts), dirichlet),
        "events": (events, GammaPoisson(np.array([0.5, 0.1, 1.0, 0.3]), np.array([0.2, 1.0, 0.5, 2.0]), 2)),
        "mixed": (TablePoints(gappy, codes), Mixed(nig, levels)),
    }[kind]
    data: Data = Data(prior.points(X, 1))
    return Case(X, prior, data, data.empty_clusters(Model(prior), 3))


@every_case
def test_points_come_and_go(kind: str, origin: float) -> None:
    some = case(kind, origin)
    some.change(0, range(25), UP)
    some.check(0, range(25))
    some.change(0, range(5, 25), DOWN)
    some.check(0, range(5))
    # Again and again: what rounding leaves does not add up.
    for _ in range(30):
        some.change(0, range(5, 25), UP)
        some.change(0, range(5, 25), DOWN)
    some.check(0, range(5))


@every_case
def test_many_rows_at_once(kind: str, origin: float) -> None:
    some = case(kind, origin)
    some.change(0, range(3), UP)
    some.change(0, np.arange(3, 30), BLOCK, np.arange(3, 30) % 2)
    some.check(0, [0, 1, 2, *range(3, 30, 2)])
    # None of them.
    some.change(0, np.arange(3, 30), BLOCK, np.zeros(27))
    some.check(0, [0, 1, 2, *range(3, 30, 2)])
    # Into an empty cluster.
    some.change(1, np.arange(30), BLOCK, np.ones(30))
    some.check(1, range(30))


@every_case
def test_clusters_are_joined(kind: str, origin: float) -> None:
    some = case(kind, origin)
    some.change(1, range(20), UP)
    some.change(0, range(20, 22), UP)
    some.change(0, [], UNION)
    some.check(0, range(22))
    some.check(1, range(20))
    # Into an empty one it is a copy.
    copy = case(kind, origin)
    copy.change(1, range(20), UP)
    copy.change(0, [], UNION)
    copy.check(0, range(20))


@every_case
def test_an_empty_cluster_is_the_prior(kind: str, origin: float) -> None:
    some = case(kind, origin)
    found = predictives(some.clusters, 0, some.data.points.loop_points, np.arange(ROWS))
    nothing = some.prior.posterior(some.prior.statistics(some.X[:0], np.zeros(0, np.int32), 1))
    expected = nothing.log_predictive(some.X)[0] - coefficients(some.prior, some.X)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=2e-5)
    assert collapsed.log_marginals(some.clusters, 0, 1)[0] == pytest.approx(0.0, abs=1e-9)


@every_case
def test_from_statistics_and_into_another_bundle(kind: str, origin: float) -> None:
    some = case(kind, origin)
    labels = (np.arange(ROWS) % 3).astype(np.int32)
    clusters = some.data.collapsed(Model(some.prior), some.prior.statistics(some.X, labels, 3), 5)
    for place in range(3):
        Case(*some[:3], clusters).check(place, np.flatnonzero(labels == place))
    copy_clusters(clusters, 3, some.clusters)
    for place in range(3):
        some.check(place, np.flatnonzero(labels == place))
    np.testing.assert_array_equal(some.clusters.counts[:3], [14, 13, 13])


@every_case
@pytest.mark.parametrize("first", [100, 4])
def test_the_probability_of_a_division(kind: str, origin: float, first: int) -> None:
    """One by one, or in blocks that double: each point given the sides so far, by the family's own predictive."""
    some = case(kind, origin)
    rng = np.random.default_rng(1)
    rows = rng.permutation(ROWS)
    sides = rng.integers(0, 2, ROWS)
    found = exact.allocate(some.clusters, some.data.points.loop_points, rows, sides, np.uint64(0), False, first, False)
    total, begin = 0.0, 2
    while begin < ROWS:
        end = begin + 1 if begin < first else min(ROWS, 2 * begin)
        known = [rows[:begin][sides[:begin] == side] for side in (0, 1)]
        logs = np.array(
            [
                np.log(len(own) + exact.SIDE_STRENGTH)
                + some.prior.posterior(some.prior.statistics(some.X[own])).log_predictive(some.X[rows[begin:end]])[0]
                for own in known
            ]
        )
        total += (logs[sides[begin:end], np.arange(end - begin)] - np.logaddexp(*logs)).sum()
        begin = end
    assert found == pytest.approx(total, rel=1e-6, abs=1e-4)
    for side in (0, 1):
        some.check(side, rows[sides == side])


@pytest.mark.parametrize("first", [100, 3])
def test_divisions_are_drawn_as_often_as_they_say(first: int) -> None:
    """All divisions of six points: their probabilities sum to one, and each comes up as often as it should."""
    some = case("full", 0.0)
    rows, points = np.arange(6), some.data.points.loop_points
    chances = np.zeros(64)
    for code in range(16):
        sides = np.array([0, 1, *((code >> place) & 1 for place in range(4))])
        chances[sides @ (1 << rows)] = np.exp(
            exact.allocate(some.clusters, points, rows, sides, np.uint64(0), False, first, False)
        )
    assert chances.sum() == pytest.approx(1.0)
    seen, draws = np.zeros(64), 20_000
    keys = np.random.default_rng(0).integers(0, 2**63, draws, dtype=np.uint64)
    for key in keys:
        sides = np.empty(6, np.int64)
        exact.allocate(some.clusters, points, rows, sides, key, True, first, False)
        seen[sides @ (1 << rows)] += 1
    errors = np.sqrt(np.maximum(chances * (1 - chances), 1e-9) / draws)
    assert np.abs(seen / draws - chances).max() / errors[chances > 0].max() < 4
    assert (np.abs(seen / draws - chances) < 5 * errors + 1e-4).all()
