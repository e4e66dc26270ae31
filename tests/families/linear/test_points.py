"""The linear families' loops against plain float64, and whole chains of every family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from innerloops import called
from scipy import sparse, stats
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Model
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.linear.points import WEIGHTS_KEY, Tables, pairs_to_try
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import CountPosteriors, Dirichlet
from dpmmwrap.families.poisson.prior import GammaPoisson
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.numerics.variates import derived_key, random_bits
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.gibbs_type import draw_weights
from dpmmwrap.sampler import checkpoint
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels.splits import Rules
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import RECORD, State
from dpmmwrap.starts import make_initializer

CLUSTERS, ALPHA = 5, 3.0
PROCESS = DirichletProcess(ALPHA)
KINDS = ["diag", "diag with gaps", "spherical", "counts", "sparse counts", "events", "mixed", "mixed with gaps"]
every_kind = pytest.mark.parametrize("kind", KINDS)


class Case(NamedTuple):
    """Points of a few clusters, and which is whose."""

    prior: Any
    X: Any
    labels: np.ndarray


def case(kind: str, rows: int, apart: float = 1.0, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLUSTERS, rows).astype(np.int32)
    widths = np.ones(3) if kind == "spherical" else np.array([1, 2, 0.5])
    numbers = rng.normal(size=(rows, 3)) * widths + apart * rng.normal(size=(CLUSTERS, 3))[labels]
    gappy = np.where(rng.random(numbers.shape) < 0.2, np.nan, numbers).astype(np.float32)
    numbers = numbers.astype(np.float32)
    nig, ball = NIG(np.zeros(3), 0.1, np.array([3.0, 9.0, 1.0]), 3.0), SphericalNIG(np.zeros(3), 0.1, np.ones(1), 3.0)
    # Proportions differ the more, the smaller the concentration is.
    proportions = rng.dirichlet(np.full(6, 2.0 / apart), CLUSTERS)
    counts = rng.multinomial(rng.integers(1, 4 + int(8 * apart), rows), proportions[labels]).astype(np.float32)
    # From the counts' own numbers, so that the other kinds stay what they are.
    exposures = np.linspace(0.5, 2.0, rows)
    means = (4.0 + 8 * apart) * proportions[labels] * exposures[:, None]
    events = np.column_stack([np.random.default_rng(seed + 1).poisson(means), exposures]).astype(np.float32)
    levels = np.array([rng.dirichlet(np.full(4, 2.0 / apart), CLUSTERS) for _ in range(2)])
    codes = np.stack([4 * c + (levels[c, labels].cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1) for c in (0, 1)])
    codes = np.minimum(codes, [[3], [7]]).T.astype(np.int32)
    mixed = Mixed(nig, CategoricalDirichlet.from_levels(np.array([4, 4])))
    prior, X = {
        "diag": (nig, numbers),
        "diag with gaps": (nig, gappy),
        "spherical": (ball, numbers),
        "counts": (Dirichlet(np.full(6, 0.5)), counts),
        "sparse counts": (Dirichlet(np.full(6, 0.5)), sparse.csr_matrix(counts)),
        "events": (GammaPoisson(np.ones(6), np.full(6, 0.5), 6), events),
        "mixed": (mixed, TablePoints(numbers, codes)),
        "mixed with gaps": (mixed, TablePoints(gappy, np.where(rng.random(codes.shape) < 0.2, -1, codes))),
    }[kind]
    if isinstance(X, TablePoints):
        X = TablePoints(np.ascontiguousarray(X.numeric), np.ascontiguousarray(X.codes, dtype=np.int32))
    return Case(prior, X, labels)


class Ready(NamedTuple):
    """Points with random sublabels and drawn parameters, as before a sweep."""

    case: Case
    data: Data
    state: State
    tables: Tables
    key: Any

    def sweep(self, key: int, greedy: bool = False) -> tuple[Any, np.ndarray]:
        return self.data.sweep(self.state, self.tables, np.uint64(key), greedy)


def ready(kind: str, rows: int, apart: float = 1.0, n_jobs: int = 1) -> Ready:
    some = case(kind, rows, apart)
    data = Data(some.prior.points(some.X, n_jobs))
    sublabels = np.random.default_rng(1).integers(0, 2, rows).astype(np.uint8)
    subclusters = some.prior.statistics(some.X, 2 * some.labels + sublabels, 2 * CLUSTERS)
    state = State(Model(some.prior), PROCESS, some.labels.copy(), sublabels, subclusters, np.zeros(CLUSTERS, RECORD))
    data.update_posteriors(state)
    key = np.uint64(12)
    state.tables = data.draw_parameters(state, key)
    return Ready(some, data, state, state.tables, key)


def log_densities(X: Any, drawn: Any) -> np.ndarray:
    """log density of every point for every drawn cluster (N, K), in float64 and by definition."""
    if isinstance(X, TablePoints):
        numeric = log_densities(X.numeric, drawn[0])
        table = np.concatenate([np.asarray(drawn[1], dtype=float), np.zeros((len(drawn[1]), 1))], axis=1)
        return numeric + table[:, X.codes].sum(axis=2).T
    if isinstance(drawn, tuple):
        factors, offsets = drawn[0].astype(float), drawn[1].astype(float)
        logs = stats.norm.logpdf(np.asarray(X, dtype=float)[:, None, :], offsets / factors, 1 / factors)
        return np.nansum(logs, axis=2)
    dense = np.asarray(X.todense() if sparse.issparse(X) else X, dtype=float)
    return dense @ np.asarray(drawn, dtype=float).T


def log_joint(points: Ready) -> tuple[np.ndarray, np.ndarray]:
    """log of weight times density for every point and cluster (N, K), and for its subclusters (N, K, 2).

    From the parameters themselves, drawn again by the same key, and not from the kernels' tables.
    """
    known, key = points.state.known, points.key
    weights, subweights = draw_weights(
        derived_key(key, WEIGHTS_KEY),
        PROCESS.for_weights(key, known.clusters.counts),
        known.clusters.counts,
        known.sides,
    )
    drawn: list[Any] = []
    for number, part in enumerate(known.posterior.parts):
        if isinstance(part, NIG):
            drawn.append(part.draw_tables(derived_key(key, number << 46), True)[0][:2])
        elif isinstance(part, CountPosteriors):
            # Counts go by the expected proportions.
            concentration = part.batch.concentration
            drawn.append(np.log(concentration / concentration.sum(axis=1, keepdims=True)))
        else:
            drawn.append(part.draw_tables(derived_key(key, number << 46)))
    logs = log_densities(points.case.X, drawn if len(drawn) > 1 else drawn[0])
    clusters, halves = logs[:, :CLUSTERS], logs[:, CLUSTERS:].reshape(len(logs), CLUSTERS, 2)
    return weights + clusters, subweights + halves


def uniforms(key: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that decide labels and sublabels, each from its own bits."""
    own = called(random_bits)
    bits = np.array([own(np.uint64(key), row) for row in range(rows)], dtype=np.uint64)
    return tuple(  # type: ignore[return-value]
        (((bits >> np.uint64(shift)) & np.uint64(0xFFFFFF)).astype(float) + 0.5) / 2**24 for shift in (40, 0)
    )


@every_kind
def test_labels_and_sublabels_are_those_of_the_plain_sum(kind: str) -> None:
    """Same uniforms, same labels, but for float32 rounding; over several chunks."""
    points = ready(kind, 21_000)
    assert len(points.data.chunks.bounds) > 2
    logs, sublogs = log_joint(points)
    points.sweep(77)
    for_labels, for_sides = uniforms(77, 21_000)
    totals = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    expected = (totals <= for_labels[:, None] * totals[:, -1:]).sum(axis=1)
    assert (points.state.labels != expected).mean() < 1e-3
    own = sublogs[np.arange(len(logs)), points.state.labels]
    right = for_sides < 1 / (1 + np.exp(own[:, 0] - own[:, 1]))
    assert (points.state.sublabels != right).mean() < 1e-3
    # All clusters and both sides are in play.
    assert np.bincount(points.state.labels, minlength=CLUSTERS).min() > 100
    assert 0.05 < points.state.sublabels.mean() < 0.95


@every_kind
def test_labels_and_sublabels_have_the_right_distribution(kind: str) -> None:
    """Many copies of one point: frequencies against exact probabilities."""
    rows = 40_000
    one = ready(kind, 300)
    logs, sublogs = (array[7] for array in log_joint(one))
    X = one.case.X[np.full(rows, 7)]
    state = State(
        one.state.model, PROCESS, np.zeros(rows, np.int32), np.zeros(rows, np.uint8), None, np.zeros(CLUSTERS, RECORD)
    )
    Data(one.case.prior.points(X, 1)).sweep(state, one.tables, np.uint64(5), False)
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    seen = np.bincount(state.labels, minlength=CLUSTERS)
    likely = shares > 1e-3
    assert likely.sum() > 1
    assert stats.chisquare(seen[likely], seen[likely].sum() * shares[likely] / shares[likely].sum()).pvalue > 1e-3
    right = 1 / (1 + np.exp(sublogs[:, 0] - sublogs[:, 1]))
    for k in np.flatnonzero(shares > 0.02):
        members = state.labels == k
        assert stats.binomtest(int(state.sublabels[members].sum()), int(members.sum()), right[k]).pvalue > 1e-4


@every_kind
def test_greedy_labels_are_the_most_likely(kind: str) -> None:
    points = ready(kind, 2000)
    logs, sublogs = log_joint(points)
    points.sweep(1, greedy=True)
    rows, labels = np.arange(2000), points.state.labels
    np.testing.assert_allclose(logs[rows, labels], logs.max(axis=1), rtol=1e-5, atol=1e-3)
    own = sublogs[rows, labels]
    np.testing.assert_allclose(own[rows, points.state.sublabels], own.max(axis=1), rtol=1e-5, atol=1e-3)


@every_kind
def test_statistics_are_those_of_the_new_labels(kind: str) -> None:
    points = ready(kind, 21_000)
    got, _ = points.sweep(9)
    names = 2 * points.state.labels + points.state.sublabels
    expected = points.case.prior.statistics(points.case.X, names, 2 * CLUSTERS)
    np.testing.assert_array_equal(got.counts, expected.counts)
    np.testing.assert_allclose(got.sums, expected.sums, rtol=1e-12, atol=1e-9)


@every_kind
def test_proposal_log_probs_are_those_of_the_sublabels(kind: str) -> None:
    """Each cluster's sum of log p(sublabel), in float64 over all points."""
    points = ready(kind, 21_000)
    _, sublogs = log_joint(points)
    _, log_probs = points.sweep(9)
    labels, sublabels = points.state.labels, points.state.sublabels.astype(int)
    own = sublogs[np.arange(len(labels)), labels]
    chosen = own[np.arange(len(labels)), sublabels]
    expected = np.bincount(labels, chosen - np.logaddexp(*own.T), minlength=CLUSTERS)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-4)


@every_kind
def test_the_reverse_proposal_has_the_probability_of_the_labels(kind: str) -> None:
    """Within a pair of clusters, the sum of log p(label); a hopeless sum is minus infinity."""
    points = ready(kind, 21_000)
    logs, _ = log_joint(points)
    points.state.subclusters, _ = points.sweep(9)
    points.data.update_posteriors(points.state)
    one, other = np.array([0, 3, 1]), np.array([2, 1, 0])
    expected = np.zeros(3)
    for pair, (i, j) in enumerate(zip(one, other, strict=True)):
        for k, rival in ((i, j), (j, i)):
            rows = points.state.labels == k
            expected[pair] -= np.logaddexp(0, logs[rows, rival] - logs[rows, k]).sum()
    assert (expected < -10).all()

    def added(margins: np.ndarray) -> np.ndarray:
        return points.data.add_reverse_proposal_log_prob(points.state, one, other, margins)

    ample = 2 * np.abs(expected)
    np.testing.assert_allclose(added(ample) - ample, expected, rtol=1e-4)
    np.testing.assert_array_equal(added(np.full(3, 1e-9)), -np.inf)


@every_kind
def test_the_number_of_threads_changes_no_bit(kind: str) -> None:
    results = []
    for n_jobs in (1, 2, 5):
        points = ready(kind, 31_000, n_jobs=n_jobs)
        statistics, log_probs = points.sweep(3)
        points.state.subclusters = statistics
        points.data.update_posteriors(points.state)
        one, other = np.array([0, 1]), np.array([2, 3])
        margins = points.data.add_reverse_proposal_log_prob(points.state, one, other, np.full(2, 1e6))
        sides = points.state.sublabels.copy()
        members = points.data.members(points.state, np.arange(CLUSTERS))
        anew = points.data.set_sublabels(points.state, members, [1 - sides[rows] for rows in members])
        points.data.close()
        results.append((points.state.labels, sides, *statistics, log_probs, margins, *anew))
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, second)


@every_kind
def test_set_sublabels_gives_the_same_statistics(kind: str) -> None:
    points = ready(kind, 3000)
    X, prior, state = points.case.X, points.case.prior, points.state
    members = points.data.members(state, np.array([1, 3]))
    before = state.sublabels.copy()
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, 2, len(rows)).astype(np.uint8) for rows in members]
    sides[1][:] = 1
    got = points.data.set_sublabels(state, members, sides)
    labels = np.full(3000, -1)
    for number, rows in enumerate(members):
        np.testing.assert_array_equal(rows, np.flatnonzero(state.labels == (1, 3)[number]))
        np.testing.assert_array_equal(state.sublabels[rows], sides[number])
        labels[rows] = 2 * number + sides[number]
    np.testing.assert_array_equal(state.sublabels[labels < 0], before[labels < 0])
    expected = prior.statistics(X, labels, 4)
    np.testing.assert_array_equal(got.counts, expected.counts)
    np.testing.assert_allclose(got.sums, expected.sums, rtol=1e-12, atol=1e-9)


def joint(prior: Any, X: Any, labels: np.ndarray) -> float:
    """log p(labels, X) by definition: the restaurant's seating probability, customer by customer, and f per table."""
    total, seats = 0.0, {}
    for number, label in enumerate(labels):
        total += np.log(seats.get(label, ALPHA)) - np.log(number + ALPHA)
        seats[label] = seats.get(label, 0) + 1
    return float(total) + sum(
        float(prior.log_marginal_likelihood(prior.statistics(X[np.flatnonzero(labels == label)]))[0]) for label in seats
    )


@every_kind
def test_splits_and_merges_are_accepted_by_the_ratio_of_the_joints(kind: str) -> None:
    points = ready(kind, 200, apart=0.3)
    prior, X, labels = points.case
    ample = np.full(CLUSTERS * (CLUSTERS + 1) // 2, 1e4)
    ample[:CLUSTERS] = -1e4
    rules = Rules(0, PROCESS.for_moves(points.state.counts), False, False, 0)
    found = points.data.evaluate_moves(rules, points.state, ample)
    assert not len(found.splits) and found.splits_proposed == CLUSTERS
    pairs = list(zip(found.one, found.other, strict=True))
    assert pairs == [(i, j) for i in range(CLUSTERS) for j in range(i + 1, CLUSTERS)]
    assert found.merges_proposed == len(pairs)
    now = joint(prior, X, labels)
    found_now = PROCESS.log_joint(points.state.counts, points.state.known.log_marginal)
    assert found_now == pytest.approx(now)
    for (i, j), margin in zip(pairs, found.margins, strict=True):
        after = joint(prior, X, np.where(labels == j, i, labels))
        assert margin - 1e4 == pytest.approx(after - now, abs=1e-6)
    for k, ratio in enumerate(found.split_ratios):
        after = joint(prior, X, np.where((labels == k) & (points.state.sublabels == 1), CLUSTERS, labels))
        assert ratio == pytest.approx(after - now, abs=1e-6)
    # A uniform number just above or below decides.
    for step in (-1e-3, 1e-3):
        least = np.append(found.split_ratios, found.margins - 1e4) - step
        decided = points.data.evaluate_moves(rules, points.state, -least)
        assert len(decided.splits) == (CLUSTERS if step > 0 else 0)
        if step < 0:
            assert not len(decided.one)


@every_kind
def test_each_pair_has_its_own_bound(kind: str) -> None:
    points = ready(kind, 200, apart=0.3)
    rules = Rules(0, PROCESS.for_moves(points.state.counts), True, True, 0)
    neg_log_uniform = np.append(np.full(CLUSTERS, -1e5), np.where(np.arange(10) % 2, 1e4, -1e4))
    found = points.data.evaluate_moves(rules, points.state, neg_log_uniform)
    pairs = [(i, j) for i in range(CLUSTERS) for j in range(i + 1, CLUSTERS)]
    assert list(zip(found.one, found.other, strict=True)) == pairs[1::2]


def test_of_many_clusters_the_nearest_are_tried() -> None:
    """Clusters along a line: each with its neighbours, each pair once, and no one with itself."""
    prior = NIG(np.zeros(1), 1.0, np.ones(1), 3.0)
    places = np.random.default_rng(0).permutation(60)
    X = np.repeat(places, 3)[:, None] + np.tile([-0.1, 0.0, 0.1], 60)[:, None]
    one, other = pairs_to_try(prior.statistics(X, np.repeat(np.arange(60), 3)), np.arange(60))
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    assert len(pairs) == len(one) and (one < other).all()
    near = {tuple(sorted((i, j))) for i in range(60) for j in range(60) if abs(places[i] - places[j]) == 1}
    assert near <= pairs and len(pairs) < 60 * 59 / 4
    few = pairs_to_try(prior.statistics(X, np.repeat(np.arange(60), 3)), np.array([4, 9, 30]))
    assert [side.tolist() for side in few] == [[4, 4, 9], [9, 30, 30]]


def settings_for(some: Case, **changes: Any) -> Settings:
    base = Settings(PROCESS, some.prior, make_initializer("kmeans"), 30, 2, 0, init_clusters=1, restart_after=3)
    return replace(base, **changes)


def consistent(chain: Chain, X: Any) -> None:
    """The state's statistics are those of the labels, whatever moves have been made."""
    state, count = chain.state, chain.state.n_clusters
    assert len(state.subclusters.counts) == 2 * count
    assert state.labels.min() >= 0 and state.labels.max() < count
    expected = chain.state.model.prior.statistics(X, 2 * state.labels + state.sublabels, 2 * count)
    np.testing.assert_array_equal(state.subclusters.counts, expected.counts)
    np.testing.assert_allclose(state.subclusters.sums, expected.sums, rtol=1e-9, atol=1e-7)
    again = chain.problem.data.points.compute_posteriors(state.model, state.subclusters)
    np.testing.assert_array_equal(state.known.log_marginal, again.log_marginal)


@every_kind
@pytest.mark.parametrize("first", [1, 30])
def test_the_state_stays_consistent_through_splits_and_merges(kind: str, first: int) -> None:
    some = case(kind, 600, apart=4.0)
    settings = settings_for(some, initializer=make_initializer("random"), init_clusters=first)
    if first == 30:
        settings = replace(settings, outlier_weight=0.02, outlier_prior=some.prior.outliers(some.X))
    settings.bind(some.X, settings.full_ratio)
    chain = Chain(some.X, settings)
    chain.begin()
    consistent(chain, some.X)
    moves = np.zeros(2, int)
    for _ in range(25):
        happened = chain.iterate()
        moves += happened.splits, happened.merges
        consistent(chain, some.X)
        assert np.isfinite(happened.log_posterior)
    assert moves[0 if first == 1 else 1] > 0


@every_kind
def test_finds_clusters_that_are_apart(kind: str) -> None:
    some = case(kind, 1500, apart=20.0, seed=1)
    found = NativeBackend().fit(some.X, settings_for(some, max_iter=60))
    assert found.trace.n_clusters[-1] == CLUSTERS
    # Of rows with one value the cluster may be in doubt.
    assert adjusted_rand_score(some.labels, found.labels) > (0.92 if "gaps" in kind else 0.98)


@every_kind
def test_a_resumed_run_is_the_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    some = case(kind, 500, apart=4.0)
    whole = NativeBackend().fit(some.X, settings_for(some, n_jobs=2))
    settings = settings_for(some, checkpoint=tmp_path / "run.npz")
    settings.bind(some.X, settings.full_ratio)
    first = Chain(some.X, settings)
    first.begin()
    for _ in range(11):
        first.state.trace.append(first.iterate())
    checkpoint.save(first.state, first.problem)
    resumed = NativeBackend().fit(some.X, settings)
    np.testing.assert_array_equal(whole.labels, resumed.labels)
    np.testing.assert_array_equal(whole.sublabels, resumed.sublabels)
    np.testing.assert_array_equal(whole.trace.log_posterior, resumed.trace.log_posterior)
    assert whole.trace.n_clusters[-1] > 1


def test_sparse_and_dense_counts_give_the_same_labels() -> None:
    """In one sweep, but for float32 rounding, and where clusters are apart in the end of a chain."""
    dense, thin = ready("counts", 21_000), ready("sparse counts", 21_000)
    for points in (dense, thin):
        points.sweep(4)
    assert (dense.state.labels != thin.state.labels).mean() < 1e-3
    assert (dense.state.sublabels != thin.state.sublabels).mean() < 2e-3
    labels = []
    for kind in ("counts", "sparse counts"):
        some = case(kind, 800, apart=20.0)
        labels.append(NativeBackend().fit(some.X, settings_for(some)).labels)
    assert adjusted_rand_score(*labels) > 0.999


def test_digests_tell_data_apart() -> None:
    digests = {some.prior.points(some.X, 1).digest() for some in (case(kind, 50) for kind in KINDS)}
    other = case("sparse counts", 50)
    moved = other.X.copy()
    moved.indices[0] = (moved.indices[0] + 1) % 6
    digests |= {other.prior.points(moved, 1).digest()}
    assert len(digests) == len(KINDS) + 1
