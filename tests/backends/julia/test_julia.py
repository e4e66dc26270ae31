"""The Julia backend on a real Julia: memory, starts, parameters, workers, interruptions, errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from innerloops import called
from processes import running
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import dpmmwrap
from dpmmwrap import DPMM, cli, load
from dpmmwrap.backends import Julia
from dpmmwrap.backends import julia as backend
from dpmmwrap.backends.julia import Callbacks, JuliaBackend, JuliaError
from dpmmwrap.backends.julia import setup as julia_setup
from dpmmwrap.backends.julia.rescaling import rescaling_of
from dpmmwrap.datasets import generate
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.numerics.cells import many_clusters
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.hastings import MergeRule, log_merge_ratio_by, split_ratios
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.starts import SplitCriterion, make_initializer

SEED, ALPHA = 1, 10.0
MISSING = julia_setup.find().missing
pytestmark = [
    pytest.mark.julia,
    pytest.mark.skipif(MISSING is not None, reason=f"the Julia backend cannot run: {MISSING}"),
]


@pytest.fixture(scope="module")
def bridge() -> Any:
    return backend.start_julia()


@pytest.fixture(scope="module")
def ratios(bridge: Any) -> Any:
    """Single numbers of the package, a module of the bridge's tests."""
    import juliacall

    return juliacall.Main.include(str(julia_setup.bridge_folder() / "test" / "ratios.jl"))


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 5, 3000)
    angles = 2 * np.pi * truth / 5
    X = 20 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + rng.standard_normal((3000, 2))
    return X.astype(np.float32), truth


@pytest.fixture(scope="module")
def counts() -> tuple[np.ndarray, np.ndarray]:
    """Rows of counts of unlike lengths, in five clusters."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 5, 1500)
    proportions = rng.dirichlet(np.full(12, 0.5), 5)
    lengths = rng.integers(40, 120, 1500)
    return rng.multinomial(lengths, proportions[truth]).astype(np.float32), truth


def settings_for(X: np.ndarray, **changes: Any) -> Settings:
    prior = changes.pop("prior", None) or NIW.from_data(X)
    base = Settings(DirichletProcess(10.0), prior, make_initializer("kmeans"), 40, 5, 0, init_clusters=1)
    return replace(base, **changes)


def fit(X: np.ndarray, workers: int = 0, **changes: Any) -> Result:
    return JuliaBackend(workers=workers).fit(X, settings_for(X, **changes))


def nmi(result: Result, truth: np.ndarray) -> float:
    return float(normalized_mutual_info_score(truth, result.labels))


def chain_for(bridge: Any, X: np.ndarray, **changes: Any) -> Any:
    settings = settings_for(X, **changes)
    points = bridge.points(X.ctypes.data, X.shape[1], X.shape[0])
    labels = backend.first_labels(settings, len(X))
    own = backend.julia_settings(bridge, settings, rescaling_of(X, settings.prior))
    return bridge.Chain(own, points, labels, None)


def address(view: Any) -> int:
    return int(np.asarray(view).ctypes.data)


def test_nothing_is_copied(bridge: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    X, _ = data
    chain = chain_for(bridge, X)
    points, labels, sublabels = bridge.addresses(chain)
    assert points == X.ctypes.data
    assert labels == address(bridge.labels(chain))
    assert sublabels == address(bridge.sublabels(chain))
    assert torch.from_numpy(np.asarray(bridge.sublabels(chain))).data_ptr() == sublabels
    assert np.asarray(chain.data).shape == X.T.shape
    # What is written on one side is read on the other.
    np.asarray(bridge.labels(chain))[7] = 3
    assert bridge.labels(chain)[7] == 3


def test_a_start_of_python_writes_into_the_memory_of_julia(bridge: Any) -> None:
    import juliacall

    X = np.random.default_rng(0).standard_normal((20_000, 2)).astype(np.float32)

    class Free:
        def bind(self, X: np.ndarray, criterion: SplitCriterion) -> None: ...

        def __call__(self, members: list[np.ndarray], rng: Any) -> list[np.ndarray]:
            return [sides]

    sides = np.zeros(len(X), np.uint8)
    sides[::2] = 1
    chain, everything = chain_for(bridge, X), juliacall.convert(juliacall.Main.seval("Vector{Int64}"), [1])
    callbacks = Callbacks(chain, settings_for(X, initializer=Free()), Interrupt())
    start = backend.with_lock()(callbacks.start)
    bridge.begin_subclusters_b(chain, start, everything)
    assert callbacks.error is None
    assert (np.asarray(bridge.sublabels(chain)) == 1 + sides).all()


def widest_gap(points: np.ndarray) -> np.ndarray:
    """A start of the user's own: cut where the points leave the widest gap, along their longer axis."""
    values = points[:, points.var(axis=0).argmax()]
    ordered = np.sort(values)
    return values > ordered[np.diff(ordered).argmax()]


# By the reference's ratio a random start does not get far from one cluster: there merges have to do the work.
@pytest.mark.parametrize(
    ("init", "ratio"),
    [("random", "auto"), ("random", "reference"), ("kmeans", "auto"), ("splitnet", "auto"), (widest_gap, "auto")],
)
def test_every_start_works(data: tuple[np.ndarray, np.ndarray], init: Any, ratio: str) -> None:
    X, truth = data
    # From one cluster, random starts take their time.
    iterations = 150 if (init, ratio) == ("random", "auto") else 60
    model = DPMM(backend=Julia(ratio=ratio), init=init, max_iter=iterations, random_state=0)
    model.fit(X, truth=truth)
    assert model.backend_ == "julia"
    assert normalized_mutual_info_score(truth, model.labels_) > 0.95
    assert model.trace_.nmi[-1] == pytest.approx(normalized_mutual_info_score(truth, model.labels_))
    assert model.trace_.n_clusters[-1] == model.n_clusters_ == len(np.unique(model.labels_))
    assert (model.trace_.merges if ratio == "reference" else model.trace_.splits).sum() >= 4
    assert (model.trace_.splits <= model.trace_.splits_proposed).all()
    assert (model.predict(X) == model.labels_).mean() > 0.99
    assert model.startup_seconds_ >= 0


def test_clusters_that_overlap_are_found_from_one(bridge: Any) -> None:
    """What the whole Hastings ratio is for; by the reference's, the same chain stays with too few."""
    crowded = generate(2, 10, 3000, 50, 1)
    found = {
        ratio: DPMM(backend=Julia(ratio=ratio), init="kmeans", init_clusters=1, max_iter=100, random_state=0).fit(
            crowded.X
        )
        for ratio in ("jain-neal", "reference")
    }
    built_in = DPMM(backend="native", covariance_type="full", init="kmeans", random_state=0).fit(crowded.X)
    best = normalized_mutual_info_score(crowded.y, built_in.labels_)
    by_ratio = {ratio: normalized_mutual_info_score(crowded.y, model.labels_) for ratio, model in found.items()}
    assert by_ratio["jain-neal"] > best - 0.03
    assert by_ratio["reference"] < by_ratio["jain-neal"]


def test_the_concentration_is_learned_and_the_search_ends_when_it_is_flat(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = data
    model = DPMM(backend="julia", init="kmeans", random_state=0).fit(X)
    assert model.stopped_by_ == "flat" and model.n_iter_ < 200
    assert model.alpha_ == model.trace_.alpha[-1] != 10.0
    assert len(np.unique(model.trace_.alpha)) > 10
    fixed = DPMM(backend="julia", init="kmeans", alpha=3.0, max_iter=8, random_state=0).fit(X)
    assert fixed.alpha_ == 3.0 and (fixed.trace_.alpha == 3.0).all() and fixed.n_iter_ == 8
    plain = DPMM(backend=Julia(ratio="reference"), init="kmeans", random_state=0).fit(X)
    assert plain.alpha_ == 10.0 and plain.n_iter_ == 100


def test_the_truth_changes_nothing_but_the_trace(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, truth = data
    with_truth, without = (fit(X, truth=known, max_iter=15) for known in (truth, None))
    assert (with_truth.labels == without.labels).all()
    assert (with_truth.sublabels == without.sublabels).all()
    assert np.isnan(without.trace.nmi).all() and not np.isnan(with_truth.trace.nmi).any()


def test_the_command_line_gives_the_same_labels(data: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    X, truth = data
    np.savez(tmp_path / "data.npz", X=X, y=truth)
    out = tmp_path / "out"
    options = ["--backend", "julia", "--init", "kmeans", "--iterations", "20", "--seed", "7", "--quiet"]
    assert cli.run(["fit", str(tmp_path / "data.npz"), *options, "--out", str(out)]) == 0
    model = DPMM(backend="julia", init="kmeans", max_iter=20, random_state=7).fit(X)
    assert (np.load(out / "labels.npy") == model.labels_).all()


@pytest.mark.parametrize("deviations", [140, 200, 1e4, 1e6])
def test_data_far_from_the_origin(data: tuple[np.ndarray, np.ndarray], deviations: float) -> None:
    X, truth = data
    shift = np.array([1.0, -0.5]) * deviations * X.std()
    far = (X + shift).astype(np.float32)
    model = DPMM(backend="julia", init="kmeans", max_iter=40, random_state=0).fit(far)
    assert normalized_mutual_info_score(truth, model.labels_) > 0.95
    near = DPMM(backend="julia", init="kmeans", max_iter=40, random_state=0).fit(X)
    # Single precision itself has a step of a tenth of a deviation there.
    assert model.log_posterior_ == pytest.approx(near.log_posterior_, rel=0.05)
    exact = DPMM(backend="julia", init="kmeans", max_iter=40, random_state=0).fit(X.astype(np.float64) + shift)
    assert normalized_mutual_info_score(truth, exact.labels_) > 0.95
    assert np.abs(exact.means_ - shift).max() < 100


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_data_of_any_size(data: tuple[np.ndarray, np.ndarray], size: float) -> None:
    X, truth = data
    tiny = X * np.float32([size, 1.0])
    model = DPMM(backend="julia", init="kmeans", max_iter=40, random_state=0).fit(tiny)
    plain = DPMM(backend="julia", init="kmeans", max_iter=40, random_state=0).fit(X)
    assert normalized_mutual_info_score(truth, model.labels_) > 0.95
    assert model.log_posterior_ == pytest.approx(plain.log_posterior_ - len(X) * np.log(size), rel=0.02)


@pytest.mark.parametrize(
    ("kind", "options"), [("data", {"covariance_type": "full"}), ("counts", {"family": "multinomial"})]
)
def test_same_names_and_shapes_as_the_built_in_sampler(
    kind: str, options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    X, _ = request.getfixturevalue(kind)
    fitted = [DPMM(backend=name, max_iter=20, random_state=0, **options).fit(X) for name in ("julia", "native")]
    one, other = ({key: value for key, value in vars(model).items() if key.endswith("_")} for model in fitted)
    assert one.keys() == other.keys()
    for key, value in one.items():
        assert type(value) is type(other[key]), key
        if isinstance(value, np.ndarray):
            assert value.dtype == other[key].dtype, key


def test_first_clusters(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, truth = data
    with_labels = fit(X, init_clusters=truth, max_iter=8)
    assert with_labels.trace.n_clusters[0] == 5
    assert nmi(with_labels, truth) > 0.99
    with_number = fit(X, init_clusters=12, max_iter=1, min_cluster_age=5)
    assert with_number.trace.n_clusters[0] <= 12
    for ratio, begins in (("auto", 1), ("reference", 50)):
        auto = DPMM(backend=Julia(ratio=ratio), max_iter=2, random_state=0).fit(X)
        assert (auto.trace_.n_clusters[0] == 1) == (begins == 1)
        assert auto.trace_.n_clusters[0] >= begins


def test_same_seed_same_labels_and_other_parameters_between(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = data
    first = fit(X, seed=3)
    limited = fit(X, seed=4, max_clusters=3, partition_prior=DirichletProcess(100.0), min_cluster_age=2)
    again = fit(X, seed=3)
    assert limited.trace.n_clusters.max() <= 3
    assert (first.labels == again.labels).all()
    assert (first.sublabels == again.sublabels).all()


def test_outliers_get_minus_one(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, truth = data
    far = np.float32([[400, 400], [-400, 400], [400, -400]])
    model = DPMM(backend="julia", outlier_weight=0.01, init_clusters=1, max_iter=50, random_state=0)
    model.fit(np.vstack([X, far]))
    assert (model.labels_[-3:] == -1).all()
    assert (model.labels_ == -1).mean() < 0.05
    assert normalized_mutual_info_score(truth, model.labels_[:-3]) > 0.9


@pytest.mark.parametrize(("family", "dim"), [("full", 2), ("full", 7), ("multinomial", 12)])
def test_the_numbers_agree_with_our_own(bridge: Any, ratios: Any, family: str, dim: int) -> None:
    """The marginal likelihood directly; the Hastings ratios where the package's decision flips."""
    rng = np.random.default_rng(dim)
    prior: Any
    if family == "full":
        X = rng.standard_normal((400, dim)).astype(np.float32)
        prior = NIW(rng.standard_normal(dim), 0.7, (dim + 4.0) * (np.eye(dim) + 0.1), dim + 4.0)
    else:
        X = rng.multinomial(60, rng.dirichlet(np.ones(dim)), 400).astype(np.float32)
        prior = Dirichlet(rng.uniform(0.05, 2.0, dim))
    theirs = backend.julia_prior(bridge, prior)

    def sides(shift: float) -> tuple[np.ndarray, np.ndarray]:
        """Two groups of points, so far from each other."""
        return X[:250], X[250:] + np.float32(shift) * np.eye(1, dim, dtype=np.float32)

    def cluster(shift: float) -> Any:
        left, right = (as_julia(bridge, side) for side in sides(shift))
        return ratios.divided_cluster(theirs, left, right)

    for side in sides(1.0):
        got = ratios.log_marginal_likelihood(theirs, as_julia(bridge, side))
        assert got == pytest.approx(prior.log_marginal_likelihood(prior.statistics(side))[0], rel=1e-5)
    for decide, our_ratio in ((ratios.splits, our_split_ratio), (ratios.merges, our_merge_ratio)):
        shift = flip(lambda shift, decide=decide: bool(decide(cluster(shift), ALPHA, SEED)))
        logs = np.array([prior.log_marginal_likelihood(prior.statistics(side))[0] for side in sides(shift)])
        whole = float(prior.log_marginal_likelihood(prior.statistics(np.concatenate(sides(shift))))[0])
        got = our_ratio(np.array([250.0, 150.0]), whole, logs)
        assert got == pytest.approx(ratios.log_threshold(SEED), abs=1e-5 * abs(whole))


def as_julia(bridge: Any, X: np.ndarray) -> Any:
    """A Julia matrix of its own with these rows as columns."""
    X = np.ascontiguousarray(X)
    return bridge.Base.copy(bridge.points(X.ctypes.data, X.shape[1], X.shape[0]))


def our_split_ratio(counts: np.ndarray, whole: float, parts: np.ndarray) -> float:
    prior = DirichletProcess(ALPHA).for_moves(counts)
    return float(split_ratios(prior, 1, counts[None], np.append(whole, parts), np.zeros(1))[0])


def our_merge_ratio(counts: np.ndarray, whole: float, parts: np.ndarray) -> float:
    prior = DirichletProcess(ALPHA).for_moves(counts)
    return float(called(log_merge_ratio_by)(MergeRule(prior, 2, True), *counts, whole - parts.sum()))


def flip(decided: Any) -> float:
    """The number from 0 to 30 at which a decision changes, by bisection."""
    low, high = 0.0, 30.0
    assert decided(low) != decided(high)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) == decided(high) else (middle, high)
    return high


@pytest.mark.parametrize(("kind", "prior"), [("data", NIW), ("counts", Dirichlet)])
def test_the_log_posterior_agrees_with_our_own(kind: str, prior: Any, request: pytest.FixtureRequest) -> None:
    X, _ = request.getfixturevalue(kind)
    settings = settings_for(X, prior=prior.from_data(X))
    result = JuliaBackend().fit(X, settings)
    clusters = settings.prior.statistics(X, result.labels)
    ours = settings.partition_prior.log_joint(clusters.counts, settings.prior.log_marginal_likelihood(clusters))
    assert result.trace.log_posterior[-1] == pytest.approx(ours, rel=1e-5)


def test_an_exception_in_a_start_comes_out_once_and_leaves_nothing_behind(
    bridge: Any, data: tuple[np.ndarray, np.ndarray]
) -> None:
    X, truth = data

    def broken(points: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("a start of mine")

    with pytest.raises(ZeroDivisionError, match="a start of mine") as caught:
        DPMM(backend="julia", init=broken, init_clusters=1).fit(X)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("a start of mine\n") == 1
    assert "in broken" in shown
    assert not bridge.running()
    assert nmi(fit(X), truth) > 0.95


def test_a_wrong_answer_of_a_start_is_told(data: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="should return 3000 sublabels"):
        DPMM(backend="julia", init=lambda points: [0, 1], init_clusters=1).fit(data[0])


def test_a_fit_inside_a_start_is_refused(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = data

    def nested(points: np.ndarray) -> np.ndarray:
        fit(X)
        return np.zeros(len(points), np.uint8)

    with pytest.raises(JuliaError, match="a fit is already running"):
        DPMM(backend="julia", init=nested, init_clusters=1).fit(X)


def test_another_thread_gets_a_clear_error(data: tuple[np.ndarray, np.ndarray]) -> None:
    caught: list[BaseException] = []

    def work() -> None:
        try:
            fit(data[0])
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread only" in str(caught[0])


def test_other_threads_run_while_julia_does(data: tuple[np.ndarray, np.ndarray]) -> None:
    """Python's lock is free during Julia's own work: a thread that counts is not held up."""
    ticks, ended = [0], threading.Event()

    def count() -> None:
        while not ended.wait(0.002):
            ticks[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    iterations: list[int] = []
    before = ticks[0]

    def progress(number: int, iteration: Any) -> None:
        iterations.append(number)

    X = np.random.default_rng(0).standard_normal((200_000, 2)).astype(np.float32)
    fit(X, max_iter=8, progress=progress)
    ended.set()
    thread.join()
    # Had the lock been held, one tick per iteration would be the most.
    assert ticks[0] - before > 4 * len(iterations)


def test_what_the_package_cannot_do_is_said(data: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="the ratio printed needs the built-in sampler"):
        fit(data[0], acceptance_ratio="printed")


def test_missing_values_are_refused_in_one_sentence(data: tuple[np.ndarray, np.ndarray]) -> None:
    X = data[0].copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"^missing values need the built-in sampler: backend should be native"):
        DPMM(backend="julia").fit(X)


@pytest.mark.parametrize("ratio", ["auto", "reference"])
def test_a_start_is_told_by_what_its_splits_are_accepted(data: tuple[np.ndarray, np.ndarray], ratio: Any) -> None:
    told: list[SplitCriterion] = []

    class Listening:
        def bind(self, X: np.ndarray, criterion: SplitCriterion) -> None:
            told.append(criterion)

        def __call__(self, members: list[np.ndarray], rng: Any) -> list[np.ndarray]:
            return make_initializer("random")(members, rng)

    settings = settings_for(data[0], initializer=Listening(), max_iter=2, acceptance_ratio=ratio)
    JuliaBackend().fit(data[0], settings)
    assert told == [SplitCriterion(settings.prior, settings.partition_prior, full_ratio=ratio == "auto")]


def test_another_family_is_refused(data: tuple[np.ndarray, np.ndarray]) -> None:
    prior = NIG(np.zeros(2), 1.0, np.ones(2), 3.0)
    with pytest.raises(ValueError, match="NIG needs the built-in sampler"):
        fit(data[0], prior=prior)


def most_varied(rows: np.ndarray) -> np.ndarray:
    """A start of the user's own for counts: by the feature whose share varies most."""
    shares = rows / rows.sum(axis=1, keepdims=True)
    values = shares[:, shares.var(axis=0).argmax()]
    return values > values.mean()


@pytest.mark.parametrize("first", [1, "many"])
@pytest.mark.parametrize("init", ["random", "kmeans", most_varied])
def test_counts_are_found_by_every_start(
    counts: tuple[np.ndarray, np.ndarray], init: Any, first: Any, tmp_path: Path
) -> None:
    X, truth = counts
    model = DPMM(family="multinomial", backend="julia", init=init, init_clusters=first, max_iter=60, random_state=0)
    model.fit(X, truth=truth)
    assert model.backend_ == "julia"
    # With "many" the labels of small cells go to Julia.
    assert model.trace_.n_clusters[0] == 1 if first == 1 else model.trace_.n_clusters[0] > 20
    assert model.n_clusters_ == model.trace_.n_clusters[-1]
    # What remains of many may be a cluster of a few points more.
    assert model.n_clusters_ == 5 if first == 1 else model.n_clusters_ in (5, 6)
    assert adjusted_rand_score(truth, model.labels_) > 0.99
    assert model.trace_.nmi[-1] == pytest.approx(normalized_mutual_info_score(truth, model.labels_))
    assert (model.predict(X) == model.labels_).mean() > 0.99
    # From many clusters the search may want more than these iterations.
    assert first == "many" or model.notes_ == []
    model.save(tmp_path / "model.npz")
    kept = load(tmp_path / "model.npz")
    assert kept.family == "multinomial"
    assert (kept.predict(X) == model.predict(X)).all()


def test_a_prior_of_counts_arrives_as_it_is(bridge: Any, counts: tuple[np.ndarray, np.ndarray]) -> None:
    concentration = np.random.default_rng(0).uniform(0.01, 3.0, 12)
    chain = chain_for(bridge, counts[0], prior=Dirichlet(concentration))
    arrived = getattr(chain.model.model_hyperparams.distribution_hyper_params, "α")  # noqa: B009
    assert (np.asarray(arrived) == concentration.astype(np.float32)).all()


# Proportions that are zero in double precision are drawn from so little.
def test_a_small_concentration_finds_the_same(counts: tuple[np.ndarray, np.ndarray]) -> None:
    X, truth = counts
    result = fit(X, prior=Dirichlet(np.full(12, 1e-3)))
    assert adjusted_rand_score(truth, result.labels) > 0.99


def test_counts_by_columns_are_read_by_rows(counts: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = counts
    prior = Dirichlet.from_data(X)
    wide = np.zeros((len(X), 24), np.float32)
    wide[:, ::2] = X
    for same in (np.asfortranarray(X), wide[:, ::2]):
        assert (fit(same, prior=prior).labels == fit(X, prior=prior).labels).all()


def test_outliers_among_counts_get_minus_one(counts: tuple[np.ndarray, np.ndarray]) -> None:
    X, truth = counts
    # Like the data as a whole, and like no cluster of them.
    strange = np.round(np.tile(2000 * X.sum(axis=0) / X.sum(), (3, 1))).astype(np.float32)
    for name in ("julia", "native"):
        model = DPMM(family="multinomial", backend=name, outlier_weight=0.01, init_clusters=1, random_state=0)
        model.fit(np.concatenate([X, strange]))
        assert (model.labels_[-3:] == -1).all()
        assert (model.labels_ == -1).mean() < 0.02
        assert adjusted_rand_score(truth, model.labels_[:-3]) > 0.95


def test_counts_that_single_precision_cannot_add_up_are_told(counts: tuple[np.ndarray, np.ndarray]) -> None:
    X = counts[0] * np.float32(1000)
    with pytest.warns(UserWarning, match="rounds beyond 16,777,216 counts"):
        fit(X, prior=Dirichlet.from_data(X), max_iter=2)


def test_sparse_counts_are_refused(counts: tuple[np.ndarray, np.ndarray]) -> None:
    X = counts[0]
    refused = r"sparse counts need the built-in sampler, or X as a dense array: backend should be native"
    for asked in ("julia", Julia(workers=2)):
        with pytest.raises(ValueError, match=refused):
            DPMM(family="multinomial", backend=asked).fit(csr_array(X))
    with pytest.raises(ValueError, match=refused):
        fit(csr_array(X), prior=Dirichlet.from_data(X))


def test_auto_means_julia_where_it_gives_all_that_is_asked(
    data: tuple[np.ndarray, np.ndarray], counts: tuple[np.ndarray, np.ndarray]
) -> None:
    model = DPMM(prior="reference", n_chains=1, max_iter=2).fit(data[0])
    assert (model.backend_, model.backend_reason_) == ("julia", "Julia is set up and supports all settings")
    assert DPMM(family="multinomial", n_chains=1, max_iter=2).fit(counts[0]).backend_ == "julia"
    sparse = DPMM(family="multinomial", n_chains=1, max_iter=2).fit(csr_array(counts[0]))
    assert sparse.backend_reason_.startswith("Julia is set up, but sparse counts need the built-in sampler")


def test_what_is_waited_for_is_told(data: tuple[np.ndarray, np.ndarray]) -> None:
    command = [sys.executable, "-c", WAITING]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    assert said[:2] == ["starting Julia", "compiling"]
    assert said[2:4] == ["1", "2"]
    assert 0.1 < float(said[4]) < 120


WAITING = """
import numpy as np
from dpmmwrap import DPMM

class Told:
    def __call__(self, number, iteration):
        print(number)

    def waits_for(self, words):
        print(words)

X = np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
model = DPMM(backend="julia", init="kmeans", max_iter=2, random_state=0).fit(X, progress=Told())
print(model.startup_seconds_)
"""


def test_workers_are_kept_between_fits(data: tuple[np.ndarray, np.ndarray]) -> None:
    import juliacall

    X, truth = data
    processes = juliacall.Main.seval("import Distributed; () -> Distributed.workers()")
    with dpmmwrap.julia_workers(2):
        numbers = list(processes())
        assert len(numbers) == 2
        for asked, reason in (("auto", "worker processes need it"), (Julia(workers=2), "it was asked for")):
            model = DPMM(init="kmeans", backend=asked, max_iter=30, random_state=0).fit(X)
            assert (model.backend_, model.backend_reason_) == ("julia", reason)
            assert normalized_mutual_info_score(truth, model.labels_) > 0.95
            assert list(processes()) == numbers
        with pytest.raises(ValueError, match="2 workers of Julia are kept, so a fit cannot start 3 others"):
            fit(X, workers=3)
        with pytest.raises(ValueError, match="are running already"), dpmmwrap.julia_workers(2):
            pass
    assert juliacall.Main.seval("Distributed.nprocs()") == 1
    with pytest.raises(ValueError, match="4 workers need at least as many points, but there are 3"):
        fit(X[:3], workers=4, prior=NIW.reference(2))
    assert juliacall.Main.seval("Distributed.nprocs()") == 1


def test_two_workers_give_the_same_quality_and_are_gone_afterwards(
    bridge: Any, data: tuple[np.ndarray, np.ndarray]
) -> None:
    import juliacall

    X, truth = data
    for init, first in (("kmeans", 1), ("random", many_clusters(X, 0))):
        result = fit(X, workers=2, truth=truth, initializer=make_initializer(init), init_clusters=first, max_iter=60)
        assert nmi(result, truth) > 0.95
        assert result.trace.nmi[-1] == pytest.approx(nmi(result, truth))
        assert juliacall.Main.seval("import Distributed; Distributed.nprocs()") == 1


def test_two_workers_divide_counts(counts: tuple[np.ndarray, np.ndarray]) -> None:
    X, truth = counts
    for init in ("kmeans", "random"):
        model = DPMM(
            family="multinomial", init=init, init_clusters=1, backend=Julia(workers=2), max_iter=60, random_state=0
        ).fit(X)
        assert model.backend_ == "julia"
        assert adjusted_rand_score(truth, model.labels_) > 0.99


def test_a_killed_worker_gives_a_clear_error(bridge: Any, data: tuple[np.ndarray, np.ndarray]) -> None:
    import juliacall

    ask = "[Distributed.remotecall_fetch(getpid, p) for p in Distributed.workers()]"
    workers_of = juliacall.Main.seval(f"import Distributed; () -> {ask}")

    def kill(number: int, iteration: Any) -> None:
        if number == 5:
            os.kill(int(workers_of()[0]), signal.SIGKILL)

    with pytest.raises(JuliaError, match=r"worker process \d+ of Julia ended during the fit"):
        fit(data[0], workers=2, progress=kill, max_iter=1000)
    assert not bridge.running()
    assert juliacall.Main.seval("Distributed.nprocs()") == 1


INTERRUPTED = """
import sys
import numpy as np
from dpmmwrap import DPMM

X = np.random.default_rng(0).standard_normal((5000, 2)).astype(np.float32)
told = lambda number, iteration: print(number, flush=True)
model = DPMM(backend="julia", init="kmeans", max_iter=100_000, random_state=0)
model.fit(X, progress=told, on_interrupt="return")
print("kept", model.interrupted_, model.n_iter_, len(model.labels_), flush=True)
"""


def test_control_c_keeps_the_result_so_far() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "3\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    word, interrupted, iterations, points = said.splitlines()[-1].split()
    assert (word, interrupted, points) == ("kept", "True", "5000")
    assert 3 <= int(iterations) < 100_000
