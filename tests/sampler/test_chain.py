"""The whole chain: moves, empty and one-sided clusters, reproducibility, checkpoints, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_matrix
from scipy.special import gammaln

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.datasets import generate
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full import wishart
from dpmmwrap.families.full.pairs import kernel_tables
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import covariances_of, statistics_of
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.files import InputError
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.hastings import split_ratios
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.moves import subclusters
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.state import next_key
from dpmmwrap.starts import SplitCriterion, make_initializer

DATA = Path(__file__).parents[1] / "data"


def settings_for(X: np.ndarray, **changes: Any) -> Settings:
    prior = changes.pop("prior", None) or NIW.from_data(X)
    return replace(
        Settings(DirichletProcess(10.0), prior, make_initializer("kmeans"), 40, 5, 0, init_clusters=1), **changes
    )


def fit(X: np.ndarray, **changes: Any) -> Result:
    return NativeBackend().fit(X, settings_for(X, **changes))


@pytest.fixture(scope="module")
def easy() -> Any:
    return generate(dim=5, clusters=8, points=6000, spread=30, seed=1)


def consistent(chain: Chain) -> None:
    """The state's statistics are those of the labels, whatever moves have been made."""
    state = chain.state
    count = state.n_clusters
    assert len(state.subclusters.counts) == 2 * count
    assert state.labels.min() >= 0 and state.labels.max() < count
    expected = statistics_of(chain.problem.data.points.X, 2 * state.labels + state.sublabels, 2 * count)
    np.testing.assert_array_equal(state.subclusters.counts, expected.counts)
    busy = expected.counts > 0
    np.testing.assert_allclose(state.subclusters.means[busy], expected.means[busy], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(state.subclusters.scatters, expected.scatters, rtol=1e-4, atol=0.5)
    again = chain.problem.data.points.compute_posteriors(state.model, state.subclusters)
    np.testing.assert_array_equal(state.known.log_marginal, again.log_marginal)


@pytest.mark.parametrize("init_clusters", [1, 60])
@pytest.mark.parametrize("init", ["random", "kmeans"])
def test_the_state_stays_consistent_through_splits_and_merges(easy: Any, init_clusters: int, init: str) -> None:
    settings = settings_for(
        easy.X, initializer=make_initializer(init), init_clusters=init_clusters, min_cluster_age=2, restart_after=2
    )
    settings.bind(easy.X, settings.full_ratio)
    chain = Chain(easy.X, settings)
    chain.begin()
    consistent(chain)
    moves = np.zeros(2, int)
    for _ in range(30):
        happened = chain.iterate()
        moves += happened.splits, happened.merges
        consistent(chain)
    assert moves[0 if init_clusters == 1 else 1] > 0


def test_finds_well_separated_clusters(easy: Any) -> None:
    result = fit(easy.X, truth=easy.y)
    assert result.trace.n_clusters[-1] == 8
    assert result.trace.nmi[-1] > 0.99
    assert len(result.trace) == 40
    assert result.labels.dtype == np.int32 and result.sublabels.dtype == np.uint8


def test_same_seed_same_labels_for_any_number_of_threads(easy: Any) -> None:
    one, two = fit(easy.X, n_jobs=1), fit(easy.X, n_jobs=3)
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.sublabels, two.sublabels)
    np.testing.assert_array_equal(one.trace.log_posterior, two.trace.log_posterior)


@pytest.mark.parametrize("init", ["random", "kmeans"])
def test_other_units_give_the_same_clustering(init: str) -> None:
    """Powers of two are exact in floating point, so even the bits agree."""
    data = generate(dim=3, clusters=10, points=4000, spread=10, seed=2)
    units = np.array([1024.0, 2.0**-12, 4.0], np.float32)
    plain, scaled = (
        fit(X, initializer=make_initializer(init), init_clusters=3, max_iter=60) for X in (data.X, data.X * units)
    )
    assert plain.trace.n_clusters[-1] > 1
    np.testing.assert_array_equal(plain.labels, scaled.labels)


def test_split_is_accepted_as_often_as_the_ratio_says() -> None:
    """One cluster whose proposed split has an H between 0 and 1: frequency over seeds against H."""
    accepted = 0
    halves = np.arange(60) >= 30
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    X[halves, 0] += 3.03
    for seed in range(400):
        chain = Chain(X, settings_for(X, seed=seed, prior=NIW.reference(2), initializer=FirstThenRandom(halves)))
        chain.begin()
        chain.state.records["subclusters_born_at"] = -99
        known = chain.state.known
        prior = chain.state.partition_prior.for_moves(chain.state.counts)
        ratio = float(split_ratios(prior, 1, known.sides, known.log_marginal, np.zeros(1))[0])
        _, moves = subclusters.step(next_key(chain.state.rng), chain.state, chain.problem)
        consistent(chain)
        assert chain.state.n_clusters == 1 + len(moves.splits)
        accepted += len(moves.splits)
    assert -3 < ratio < -0.1
    assert stats.binomtest(accepted, 400, np.exp(ratio)).pvalue > 1e-3


def test_merge_is_accepted_as_often_as_the_ratio_says() -> None:
    """The full ratio: that of the joints, times the chance that the split back would give each point its label."""
    y = np.repeat([0, 1], 40)
    X = np.random.default_rng(2).normal(size=(80, 2)).astype(np.float32)
    X[:, 0] += 2.3 * y
    settings = settings_for(X, init_clusters=y.astype(np.int32), prior=NIW.reference(2))
    settings.bind(X, settings.full_ratio)

    def swept(key: int) -> tuple[Chain, float]:
        chain = Chain(X, settings)
        chain.begin()
        state, known = chain.state, chain.state.known
        prior, counts = state.partition_prior.for_weights(0, state.counts), known.clusters.counts
        drawn = wishart.draw_parameters(next_key(chain.state.rng), prior, counts, known.sides, known.posterior.batch)
        state.tables = kernel_tables(*drawn)
        state.subclusters, _ = chain.problem.data.sweep(state, state.tables, np.uint64(key), False)
        state.records["born_at"] = -99
        return chain, full_merge_ratio(chain, *drawn)

    accepted, key = 0, next(key for key in range(100) if -2 < swept(key)[1] < -0.3)
    for seed in range(400):
        chain, ratio = swept(key)
        _, moves = subclusters.step(next_key(np.random.default_rng(seed)), chain.state, chain.problem)
        consistent(chain)
        assert chain.state.n_clusters == 2 - len(moves.absorbed)
        accepted += len(moves.absorbed)
    assert stats.binomtest(accepted, 400, np.exp(ratio)).pvalue > 1e-3


def full_merge_ratio(chain: Chain, log_weights: Any, log_subweights: Any, gaussians: wishart.Gaussians) -> float:
    """By definition, in float64: log p(one cluster, X) - log p(two, X) + log q(two | one)."""
    X, labels, alpha = chain.problem.data.points.X.astype(float), chain.state.labels, chain.state.alpha
    two, one = (
        gammaln(some.counts).sum()
        + len(some.counts) * np.log(alpha)
        + chain.state.model.prior.log_marginal_likelihood(some).sum()
        for some in (statistics_of(X, labels, 2), statistics_of(X))
    )
    covariances = covariances_of(gaussians)
    logs = [log_weights[k] + stats.multivariate_normal(gaussians.means[k], covariances[k]).logpdf(X) for k in (0, 1)]
    chosen = np.where(labels == 0, *logs)
    return round(float(one - two + (chosen - np.logaddexp(*logs)).sum()), 4)


@pytest.mark.parametrize(("points", "gap"), [(10, 0.0), (10, 3.0)])
def test_the_number_of_clusters_is_distributed_nearly_as_the_posterior_says(points: int, gap: float) -> None:
    """Against all partitions of a few points: only the full ratio comes near the posterior.

    Near, not equal: clusters leave when they are empty, and come only by splits.
    """
    X = np.random.default_rng(0).normal(size=(points, 1)).astype(np.float32)
    X[points // 2 :] += gap
    prior = NIW(X.mean(axis=0).astype(float), 0.2, 3 * np.eye(1), 3.0)
    exact = posterior_of_clusters(X, prior, alpha=1.0)
    apart = {}
    for ratio in ("jain-neal", "reference"):
        start = make_initializer("random")
        settings = settings_for(
            X, partition_prior=DirichletProcess(1.0), prior=prior, initializer=start, max_iter=10**6,
            min_cluster_age=1, acceptance_ratio=ratio,
        )  # fmt: skip
        chain = Chain(X, settings)
        chain.begin()
        seen = np.bincount([chain.iterate().n_clusters for _ in range(3000)], minlength=points + 1)[1:] / 3000
        apart[ratio] = 0.5 * np.abs(seen - exact).sum()
    assert apart["jain-neal"] < 0.2
    assert apart["reference"] > 0.4


def a_few_points(family: str) -> tuple[Any, Any]:
    """A prior, and seven points of perhaps two clusters."""
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(7, 2)).astype(np.float32) + np.repeat([0, 2], [4, 3])[:, None].astype(np.float32)
    gappy = np.where(rng.random(numbers.shape) < 0.25, np.float32(np.nan), numbers)
    counts = np.concatenate([rng.multinomial(8, [0.6, 0.2, 0.2], 4), rng.multinomial(8, [0.2, 0.4, 0.4], 3)])
    codes = np.array([[0, 3], [0, 2], [0, 3], [1, 3], [1, 4], [1, -1], [0, 4]], np.int32)
    nig = NIG(np.ones(2), 0.3, np.full(2, 5.0), 3.0)
    mixed = Mixed(nig, CategoricalDirichlet.from_levels(np.array([2, 3])))
    return {
        "full": (NIW(np.ones(2), 0.3, 6 * np.eye(2), 4.0), numbers),
        "diag": (nig, numbers),
        "diag with gaps": (nig, gappy),
        "spherical": (SphericalNIG(np.ones(2), 0.3, np.full(1, 5.0), 3.0), numbers),
        "counts": (Dirichlet(np.ones(3)), counts.astype(np.float32)),
        "sparse counts": (Dirichlet(np.ones(3)), csr_matrix(counts.astype(np.float32))),
        "mixed": (mixed, TablePoints(gappy, codes)),
    }[family]


@pytest.mark.parametrize(
    "family",
    [
        *("full", "diag with gaps", "counts", "mixed"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("diag", "spherical", "sparse counts")),
    ],
)
def test_every_family_comes_near_its_posterior(family: str) -> None:
    """The number of clusters of seven points, against all their partitions."""
    prior, X = a_few_points(family)
    settings = Settings(DirichletProcess(1.0), prior, make_initializer("random"), 10**6, 1, 0)
    chain = Chain(X, settings)
    chain.begin()
    seen = np.bincount([chain.iterate().n_clusters for _ in range(2000)], minlength=8)[1:] / 2000
    exact = posterior_of_clusters(X, prior, alpha=1.0)
    assert exact.max() < 0.5
    assert 0.5 * np.abs(seen - exact).sum() < 0.25


def posterior_of_clusters(X: Any, prior: Any, alpha: float) -> np.ndarray:
    """p(K | X) for K = 1, 2, ..., by summing over all partitions, block by block."""
    n = X.shape[0]
    block = np.zeros(1 << n)
    for mask in range(1, 1 << n):
        rows = [i for i in range(n) if mask >> i & 1]
        block[mask] = alpha * np.exp(gammaln(len(rows)) + prior.log_marginal_likelihood(prior.statistics(X[rows]))[0])
    # ways[mask][k]: total weight of the partitions of a set into k blocks; the block of its first member comes first.
    ways = np.zeros((1 << n, n + 1))
    ways[0, 0] = 1.0
    for mask in range(1, 1 << n):
        first = mask & -mask
        others = part = mask ^ first
        while True:
            ways[mask, 1:] += block[first | part] * ways[others ^ part, :-1]
            if part == 0:
                break
            part = (part - 1) & others
    return ways[-1, 1:] / ways[-1].sum()


def test_overlapping_clusters_are_found_from_one() -> None:
    """Forty crowded clusters and a coin for a start: with the full ratio most are found, with the reference's none."""
    data = generate(dim=2, clusters=40, points=10_000, spread=50, seed=1)
    start = make_initializer("random")
    found = {
        ratio: fit(
            data.X, initializer=start, max_iter=150, min_cluster_age=3, acceptance_ratio=ratio, truth=data.y
        ).trace.nmi[-1]
        for ratio in ("jain-neal", "reference")
    }
    assert found["jain-neal"] > 0.8
    assert found["reference"] < 0.3


class FirstThenRandom:
    """Given sublabels for the first cluster, a coin for those after it."""

    def __init__(self, first: np.ndarray) -> None:
        self.first: np.ndarray | None = first

    def bind(self, X: np.ndarray, criterion: SplitCriterion) -> None:
        self.criterion = criterion

    def __call__(self, members: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
        first, self.first = self.first, None
        return [first] if first is not None else make_initializer("random")(members, rng)


@pytest.mark.parametrize(("ratio", "full"), [("auto", True), ("jain-neal", True), ("reference", False)])
def test_a_start_is_told_what_its_splits_are_judged_by(easy: Any, ratio: str, full: bool) -> None:
    start = FirstThenRandom(np.arange(len(easy.X)) % 2)
    settings = settings_for(easy.X, initializer=start, acceptance_ratio=ratio, max_iter=2)
    NativeBackend().fit(easy.X, settings)
    assert start.criterion == SplitCriterion(settings.prior, settings.partition_prior, full)


def test_max_clusters_is_kept(easy: Any) -> None:
    result = fit(easy.X, max_clusters=3)
    assert result.trace.n_clusters.max() == 3


def test_the_last_iterations_make_no_moves(easy: Any) -> None:
    trace = fit(easy.X).trace
    assert trace.splits_proposed[:-5].sum() > 0
    assert not trace.splits_proposed[-5:].any() and not trace.merges_proposed[-5:].any()


def test_labels_to_start_from(easy: Any) -> None:
    result = fit(easy.X, init_clusters=easy.y * 10 + 3, max_iter=3, truth=easy.y)
    assert result.trace.n_clusters[0] == 8
    assert result.trace.nmi[0] > 0.97


def test_more_first_clusters_than_points() -> None:
    X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
    settings = Settings(
        DirichletProcess(1.0), NIW.reference(2), make_initializer("random"), max_iter=1, min_cluster_age=1, seed=0,
        init_clusters=50,
    )  # fmt: skip
    settings.bind(X, settings.full_ratio)
    chain = Chain(X, settings)
    chain.begin()
    count = chain.state.n_clusters
    assert 1 < count <= 10 and set(chain.state.labels) == set(range(count))


@pytest.mark.parametrize(("restart_after", "starts_anew"), [(None, False), (3, True)])
def test_subclusters_that_have_settled_begin_anew(restart_after: int | None, starts_anew: bool) -> None:
    """Halves of one Gaussian keep both sides and are never accepted: only fresh starts call the start again."""
    X = np.random.default_rng(0).normal(size=(3000, 2)).astype(np.float32)
    calls = []

    def halves(points: np.ndarray) -> np.ndarray:
        calls.append(len(points))
        return points[:, 0] > np.median(points[:, 0])

    result = fit(
        X, initializer=make_initializer(halves), max_iter=100, min_cluster_age=2, restart_after=restart_after,
        exact_moves=False, prior=NIW(np.zeros(2), 0.1, 5 * np.eye(2), 5.0),
    )  # fmt: skip
    assert result.trace.n_clusters[-1] == 1
    assert (len(calls) > 1) == starts_anew


@pytest.mark.parametrize(("ratio", "restarts"), [("jain-neal", False), ("reference", True)])
def test_by_the_reference_ratio_restarts_do_not_wait_for_each_other(ratio: str, restarts: bool) -> None:
    """By the whole ratio a restart waits for the twentieth iteration, which this search does not reach. By the
    reference's, the wait does not grow with each start that led nowhere."""
    X = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
    calls = []

    def halves(points: np.ndarray) -> np.ndarray:
        calls.append(len(points))
        return points[:, 0] > np.median(points[:, 0])

    fit(
        X, initializer=make_initializer(halves), max_iter=19, min_cluster_age=2, restart_after=2,
        acceptance_ratio=ratio, exact_moves=False, prior=NIW(np.zeros(2), 0.1, 5 * np.eye(2), 5.0),
    )  # fmt: skip
    assert len(calls) > 3 if restarts else len(calls) == 1, calls


def test_by_the_reference_ratio_fresh_starts_are_judged_at_once() -> None:
    """Sweeps would blur what the start proposes."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1500, 2)) - 1.2, rng.normal(size=(1500, 2)) + 1.2]).astype(np.float32)
    calls, ended = [], []

    def start(points: np.ndarray) -> np.ndarray:
        if len(points) == len(X):
            calls.append(len(ended) + 1)
        return np.arange(len(points)) % 2 if len(calls) == 1 else points.sum(axis=1) > 0

    result = fit(
        X, initializer=make_initializer(start), max_iter=30, min_cluster_age=1, restart_after=1, exact_moves=False,
        acceptance_ratio="reference", progress=lambda number, happened: ended.append(number),
    )  # fmt: skip
    assert len(calls) == 2
    assert np.flatnonzero(result.trace.splits)[0] + 1 == calls[1]


def test_fresh_starts_free_a_blocked_cluster() -> None:
    """Two clusters, and a start that is hopeless at first and right the second time."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)) - 4, rng.normal(size=(300, 2)) + 4]).astype(np.float32)
    calls = []

    def start(points: np.ndarray) -> np.ndarray:
        calls.append(len(points))
        # First the outside of both groups against the inside: a split that Gibbs steps do not leave quickly.
        far = np.abs(points.sum(axis=1))
        return far > np.median(far) if len(calls) == 1 else points[:, 0] > 0

    fresh = fit(X, initializer=make_initializer(start), max_iter=60, min_cluster_age=2, restart_after=3)
    assert len(calls) > 1
    assert fresh.trace.n_clusters[-1] == 2


def test_duplicate_points_and_tiny_sets() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 20, axis=0).astype(np.float32)
    result = fit(X, max_iter=20)
    assert np.isfinite(result.trace.log_posterior).all()
    two = np.array([[0.0], [1.0]], np.float32)
    assert fit(two, max_iter=10).labels.shape == (2,)


def test_outliers_are_collected() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(500, 2)) * 0.3 + centre for centre in ([0, 0], [8, 0])])
    stray = rng.uniform(-30, 30, size=(25, 2))
    X = np.concatenate([X, stray]).astype(np.float32)
    broad = NIW(X.mean(axis=0), 1000.0, np.cov(X.T) * 4000, 1003.0)
    result = fit(X, outlier_weight=0.03, outlier_prior=broad, max_iter=60)
    assert (result.labels[:1000] >= 0).mean() > 0.95
    assert (result.labels[1000:] == -1).mean() > 0.6
    assert result.trace.n_clusters[-1] == len(np.unique(result.labels[result.labels >= 0]))


def test_ends_no_worse_than_the_reference() -> None:
    """Forty runs beside the reference's forty."""
    data = np.load(DATA / "reference_data.npz")
    for name, theirs in json.loads((DATA / "reference_runs.json").read_text())["runs"].items():
        X, y = data[f"X_{name}"], data[f"y_{name}"]
        prior = NIW.reference(X.shape[1])
        start = make_initializer("random")
        settings = {"prior": prior, "initializer": start, "max_iter": 100, "truth": y, "acceptance_ratio": "reference"}
        runs = [fit(X, seed=seed, **settings).trace for seed in range(40)]
        ours = np.array([run.log_posterior[-1] for run in runs])
        spread = np.std(theirs["log_posterior"])
        assert ours.mean() > np.mean(theirs["log_posterior"]) - 2.5 * spread / np.sqrt(40) - 1.0
        assert ours.max() < np.max(theirs["log_posterior"]) + 5 + 3 * spread
        as_many = {k + d for k in theirs["n_clusters"] for d in (0, 1)}
        assert sum(run.n_clusters[-1] not in as_many for run in runs) <= 2
        assert np.mean([run.nmi[-1] for run in runs]) > np.mean(theirs["nmi"]) - 0.04


class TestCheckpoints:
    def test_a_resumed_run_is_the_uninterrupted_one(self, easy: Any, tmp_path: Path) -> None:
        whole = fit(easy.X)
        path = tmp_path / "run.npz"
        settings = settings_for(easy.X, checkpoint=path, checkpoint_every=7)
        settings.bind(easy.X, settings.full_ratio)
        first = Chain(easy.X, settings)
        first.begin()
        from dpmmwrap.sampler import checkpoint

        for _ in range(14):
            first.state.trace.append(first.iterate())
        checkpoint.save(first.state, first.problem)
        resumed = NativeBackend().fit(easy.X, settings)
        np.testing.assert_array_equal(whole.labels, resumed.labels)
        np.testing.assert_array_equal(whole.sublabels, resumed.sublabels)
        np.testing.assert_array_equal(whole.trace.log_posterior, resumed.trace.log_posterior)
        again = NativeBackend().fit(easy.X, settings)
        np.testing.assert_array_equal(whole.labels, again.labels)

    @pytest.mark.parametrize(
        ("change", "word"),
        [
            ({"partition_prior": DirichletProcess(3.0)}, "partition prior"),
            ({"seed": 9}, "seed"),
            ({"max_iter": 41}, "iterations"),
        ],
    )
    def test_of_other_parameters_is_refused(self, easy: Any, tmp_path: Path, change: dict[str, Any], word: str) -> None:
        path = tmp_path / "run.npz"
        fit(easy.X, checkpoint=path, max_iter=40)
        with pytest.raises(InputError, match=word):
            fit(easy.X, checkpoint=path, **change)

    def test_of_other_data_is_refused(self, easy: Any, tmp_path: Path) -> None:
        path = tmp_path / "run.npz"
        fit(easy.X, checkpoint=path, max_iter=6)
        other = easy.X.copy()
        other[17, 2] += 1
        with pytest.raises(InputError, match="other data"):
            NativeBackend().fit(other, settings_for(easy.X, checkpoint=path, max_iter=6))

    def test_a_damaged_file_is_refused(self, easy: Any, tmp_path: Path) -> None:
        path = tmp_path / "run.npz"
        path.write_bytes(b"PK\x03\x04 not a checkpoint")
        with pytest.raises(InputError):
            fit(easy.X, checkpoint=path)

    def test_kill_at_any_moment_leaves_a_whole_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run.npz"
        code = (
            "from dpmmwrap import DPMM, Native;"
            "from dpmmwrap.datasets import generate;"
            "X = generate(2, 5, 3000, 50, 0).X;"
            f"backend = Native(checkpoint={str(path)!r}, checkpoint_every=1);"
            "model = DPMM(max_iter=100000, random_state=0, backend=backend, init='kmeans', covariance_type='full');"
            "model.fit(X)"
        )
        for delay in (0.05, 0.13):
            process = subprocess.Popen([sys.executable, "-c", code])
            deadline = time.monotonic() + 60
            before = path.stat().st_mtime_ns if path.exists() else 0
            while (not path.exists() or path.stat().st_mtime_ns == before) and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            with np.load(path) as arrays:
                assert arrays["labels"].shape == (3000,)
                assert len(arrays["trace_seconds"]) == arrays["counters"][0]


def test_ctrl_c_ends_after_the_iteration_with_the_result_so_far(easy: Any) -> None:
    def interrupt(number: int, iteration: Any) -> None:
        if number == 4:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    result = fit(easy.X, progress=interrupt)
    assert result.interrupted
    assert len(result.trace) == 4
    assert result.labels.shape == (len(easy.X),)
    assert signal.getsignal(signal.SIGINT) is before
