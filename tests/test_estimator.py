"""DPMM as scikit-learn and its users see it."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, homogeneity_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpmmwrap.backends import Native
from dpmmwrap.datasets import generate
from dpmmwrap.estimator import DPMM
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.posterior.mixture_file import load


@pytest.fixture(scope="module")
def data() -> Any:
    return generate(dim=3, clusters=5, points=2000, spread=60, seed=0)


def quick(**changes: Any) -> DPMM:
    """Full covariances, unless the changes say otherwise."""
    options: dict[str, Any] = {"backend": "native", "init": "kmeans", "max_iter": 40, "random_state": 0, "n_chains": 1}
    if not {"family", "prior"} & changes.keys():
        options["covariance_type"] = "full"
    return DPMM(**(options | changes))


@pytest.fixture(scope="module")
def fitted(data: Any) -> DPMM:
    return quick().fit(data.X)


COUNTS_ONLY = {
    "check_clustering": "hands over negative numbers, whatever the tag positive_only says",
    "check_estimator_sparse_array": "takes whoever has predict_proba for a classifier",
    "check_estimator_sparse_matrix": "takes whoever has predict_proba for a classifier",
}


KEPT_TOGETHER = {
    "check_sample_weight_equivalence_on_dense_data": "rows that repeat may go to different clusters, weighted ones not"
}


@pytest.mark.parametrize(
    ("options", "cannot"),
    [
        pytest.param({"init": "splitnet"}, {}, marks=pytest.mark.slow),
        pytest.param({"init": "random"}, {}, marks=pytest.mark.slow),
        pytest.param({"init": "kmeans"}, {}, marks=pytest.mark.slow),
        ({"init": "kmeans", "covariance_type": "full"}, {}),
        pytest.param({"init": "kmeans", "covariance_type": "diag"}, {}, marks=pytest.mark.slow),
        pytest.param({"init": "kmeans", "covariance_type": "spherical"}, {}, marks=pytest.mark.slow),
        pytest.param({"family": "multinomial"}, COUNTS_ONLY, marks=pytest.mark.slow),
        pytest.param({"family": "poisson"}, COUNTS_ONLY, marks=pytest.mark.slow),
        ({"family": "mixed"}, KEPT_TOGETHER),
    ],
    ids=["splitnet", "random", "kmeans", "full", "diag", "spherical", "multinomial", "poisson", "mixed"],
)
def test_check_estimator_passes_whole(options: dict[str, str], cannot: dict[str, str]) -> None:
    """In a process of its own: without SCIPY_ARRAY_API, set before scipy is imported, one check is skipped."""
    code = (
        "from sklearn.utils.estimator_checks import check_estimator; from dpmmwrap.estimator import DPMM;"
        f"model = DPMM(backend='native', max_iter=10, n_chains=1, **{options!r});"
        f"results = check_estimator(model, on_skip=None, on_fail=None, expected_failed_checks={cannot!r});"
        "print([r for r in results if r['status'] != 'passed' and not r['expected_to_fail']]); print(len(results))"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    bad, count = ran.stdout.splitlines()
    assert bad == "[]"
    assert int(count) > 40


def test_fitted_attributes(data: Any, fitted: DPMM) -> None:
    assert fitted.n_clusters_ == 5
    assert adjusted_rand_score(data.y, fitted.labels_) > 0.98
    assert fitted.labels_.dtype == np.int32 and set(fitted.labels_) == set(range(5))
    assert set(np.unique(fitted.sublabels_)) <= {0, 1}
    assert fitted.weights_.sum() == pytest.approx(1)
    assert fitted.means_.shape == (5, 3) and fitted.covariances_.shape == (5, 3, 3)
    for k in range(5):
        members = data.X[fitted.labels_ == k]
        np.testing.assert_allclose(fitted.means_[k], members.mean(axis=0), atol=0.3)
        # With kappa = 1 the prior's mean pulls: it adds the squared distance to it over n.
        np.testing.assert_allclose(fitted.covariances_[k], np.cov(members.T), rtol=0.3, atol=1.0)
    assert fitted.n_iter_ == len(fitted.trace_) == 40
    assert fitted.log_posterior_ == fitted.trace_.log_posterior[20:].max()
    assert fitted.n_features_in_ == 3 and fitted.backend_ == "native" and not fitted.interrupted_
    frame = fitted.trace_.to_pandas()
    assert list(frame.columns[:3]) == ["n_clusters", "log_posterior", "seconds"] and len(frame) == 40


@pytest.mark.parametrize("on_interrupt", ["raise", "return"])
def test_ctrl_c_keeps_the_result_so_far(data: Any, on_interrupt: str) -> None:
    def press(number: int, iteration: Any) -> None:
        if number == 3:
            signal.raise_signal(signal.SIGINT)

    model = DPMM(backend="native", init="kmeans", max_iter=1000, n_chains=1, random_state=0)
    if on_interrupt == "raise":
        with pytest.raises(KeyboardInterrupt, match="the estimator has the result so far"):
            model.fit(data.X, progress=press)
    else:
        assert model.fit(data.X, progress=press, on_interrupt="return") is model
    assert model.interrupted_ and model.n_iter_ == 3
    assert model.labels_.shape == (len(data.X),) and len(model.predict(data.X[:5])) == 5


def test_a_grid_search_stops_at_ctrl_c(data: Any) -> None:
    begun = []

    def press(number: int, iteration: Any) -> None:
        begun.append(number)
        signal.raise_signal(signal.SIGINT)

    model = DPMM(backend="native", init="kmeans", n_chains=1, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(model, {"alpha": [1.0, 10.0]}, cv=2).fit(data.X, progress=press)
    assert begun == [1]
    with pytest.raises(ValueError, match="on_interrupt should be one of raise, return, not 'ignore'"):
        model.fit(data.X, on_interrupt="ignore")


def test_predictions(data: Any, fitted: DPMM) -> None:
    assert (fitted.predict(data.X) == fitted.labels_).mean() > 0.99
    probabilities = fitted.predict_proba(data.X[:50])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), fitted.predict(data.X[:50]))
    assert fitted.score(data.X) == pytest.approx(fitted.score_samples(data.X).mean())
    assert fitted.score(data.X) > fitted.score(data.X + 5)
    X, y = fitted.sample(3000)
    assert X.shape == (3000, 3) and (fitted.predict(X) == y).mean() > 0.97


@pytest.mark.parametrize("kind", ["float64", "list", "pandas", "read only", "memory map", "fortran", "integers"])
def test_kinds_of_input(data: Any, fitted: DPMM, kind: str, tmp_path: Path) -> None:
    X: Any = data.X
    if kind == "float64":
        X = X.astype(np.float64)
    elif kind == "list":
        X = X.tolist()
    elif kind == "pandas":
        X = pandas.DataFrame(X, columns=["a", "b", "c"])
    elif kind == "read only":
        X = X.copy()
        X.setflags(write=False)
    elif kind == "memory map":
        np.save(tmp_path / "x.npy", X)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif kind == "fortran":
        X = np.asfortranarray(X)
    else:
        X = np.round(X * 1000).astype(int)
    labels = quick().fit_predict(X)
    assert adjusted_rand_score(labels, fitted.labels_) > 0.99
    if kind in ("read only", "memory map", "fortran"):
        np.testing.assert_array_equal(labels, fitted.labels_)


def test_float64_far_from_the_origin_keeps_its_digits(data: Any, fitted: DPMM) -> None:
    model = quick().fit(data.X.astype(np.float64) + 1e9)
    assert adjusted_rand_score(model.labels_, fitted.labels_) > 0.98
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.means_[order] - 1e9, fitted.means_[np.argsort(fitted.means_[:, 0])], atol=0.5)


def test_clone_pickle_and_pipeline(data: Any, fitted: DPMM) -> None:
    again = clone(fitted).fit(data.X)
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.predict(data.X), fitted.predict(data.X))
    assert len(restored.trace_) == 40
    piped = make_pipeline(StandardScaler(), quick()).fit_predict(data.X)
    assert adjusted_rand_score(piped, fitted.labels_) > 0.98


def test_save_and_load(data: Any, fitted: DPMM, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.npz")
    mixture = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(mixture.predict(data.X), fitted.predict(data.X))
    np.testing.assert_array_equal(mixture.score_samples(data.X[:9]), fitted.score_samples(data.X[:9]))


def test_many_first_clusters_merge_down(data: Any) -> None:
    trace = quick(init_clusters="many", max_iter=60).fit(data.X).trace_
    assert trace.n_clusters[0] > 20 and trace.n_clusters[-1] == 5


@pytest.mark.parametrize(("ratio", "few"), [("auto", True), ("jain-neal", True), ("reference", False)])
def test_auto_begins_with_few_clusters_where_splits_find_the_rest(data: Any, ratio: str, few: bool) -> None:
    """One, or as many cells as evidence says if that was better in short chains."""
    first = quick(init_clusters="auto", backend=Native(ratio=ratio), max_iter=1).fit(data.X).trace_.n_clusters[0]
    assert first <= 10 if few else 20 < first <= 150


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_a_few_large_clusters_are_not_cut_up(clusters: int) -> None:
    data = generate(dim=2, clusters=clusters, points=10_000, spread=50, seed=0)
    model = DPMM(random_state=0, backend="native").fit(data.X)
    assert model.n_clusters_ == clusters and model.covariance_type_ == "full"


def test_outlier_labels(data: Any) -> None:
    rng = np.random.default_rng(0)
    stray = rng.multivariate_normal(data.X.mean(axis=0), 6 * np.cov(data.X.T), size=40)
    X = np.concatenate([data.X, stray.astype(np.float32)])
    model = quick(outlier_weight=0.02, max_iter=60).fit(X)
    assert (model.labels_[-40:] == -1).mean() > 0.5
    assert (model.labels_[:-40] >= 0).mean() > 0.97
    assert model.n_clusters_ == model.labels_.max() + 1
    assert model.predict_proba(X).shape == (len(X), model.n_clusters_ + 1)
    assert ((model.predict(X) == -1) == (model.labels_ == -1)).mean() > 0.99


@pytest.fixture(scope="module")
def documents() -> tuple[np.ndarray, np.ndarray]:
    """Rows of counts in three topics, and which is whose."""
    rng = np.random.default_rng(0)
    topics = np.array([[6, 3, 1, 0, 0, 0], [0, 0, 5, 5, 0, 0], [1, 0, 0, 0, 4, 5]]) / 10
    y = rng.integers(0, 3, 300)
    return rng.multinomial(30, topics[y]).astype(float), y


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "64 bits", "twice"])
def test_kinds_of_sparse_input(documents: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    counts, y = documents
    dense = quick(family="multinomial").fit(counts)
    assert dense.n_clusters_ == 3 and adjusted_rand_score(y, dense.labels_) == 1
    X: Any = sparse.csr_array(counts)
    if kind == "64 bits":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    elif kind == "twice":
        # Each count in two entries at the same place.
        halves = np.repeat(X.data / 2, 2).astype(np.float32)
        X = sparse.csr_array((halves, np.repeat(X.indices, 2), 2 * X.indptr), X.shape)
    else:
        X = X.asformat(kind)
    model = quick(family="multinomial").fit(X)
    assert adjusted_rand_score(dense.labels_, model.labels_) == 1
    assert adjusted_rand_score(model.labels_, model.predict(X)) == 1
    # Of the same labels the same mixture.
    names = {int(model.labels_[row]): int(dense.labels_[row]) for row in range(len(y))}
    order = [next(theirs for theirs, ours in names.items() if ours == k) for k in range(3)]
    np.testing.assert_allclose(model.predict_proba(X)[:, order], dense.predict_proba(counts), atol=1e-6)
    np.testing.assert_allclose(model.score_samples(X), dense.score_samples(counts), rtol=1e-6)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_missing_values(data: Any, kind: str) -> None:
    X = data.X.copy()
    gaps = np.random.default_rng(0).random(X.shape) < 0.05
    X[gaps] = np.nan
    model = quick(covariance_type=kind, max_iter=60).fit(X)
    assert model.covariance_type_ == kind and model.n_missing_ == gaps.sum()
    assert homogeneity_score(data.y, model.labels_) > 0.9
    assert model.means_.shape == (model.n_clusters_, 3) and model.covariances_.shape[:2] == model.means_.shape
    assert (model.predict(X) == model.labels_).mean() > 0.9
    assert np.isfinite(model.score_samples(X)).all()
    again = quick(covariance_type=kind, max_iter=60).fit(X.astype(float) + 1e7)
    assert homogeneity_score(data.y, again.labels_) > 0.9


def test_who_cannot_do_with_missing_values_says_so(data: Any) -> None:
    X = np.where(np.arange(3) == np.arange(2000)[:, None], np.nan, data.X)
    with pytest.raises(ValueError, match="missing values need the built-in sampler"):
        quick(covariance_type="full", prior="reference", backend="julia").fit(X)
    with pytest.raises(ValueError, match="weights and missing values together need covariance_type='diag'"):
        quick(covariance_type="full").fit(X, sample_weight=np.full(2000, 2.0))


def test_priors_by_name(data: Any) -> None:
    assert quick(prior="reference").fit(data.X).n_clusters_ >= 5
    assert quick(prior=NIW.reference(3)).fit(data.X).n_clusters_ >= 5


def test_verbose_prints_progress(data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quick(max_iter=10, verbose=1).fit(data.X)
    assert capsys.readouterr().out.startswith("iteration 10: ")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"alpha": -1.0}, "alpha should be auto or a finite number above 0, not -1.0"),
        ({"alpha": "much"}, "alpha should be"),
        ({"max_iter": 0}, "max_iter should be auto or a whole number of at least 1, not 0"),
        ({"n_draws": True}, "n_draws should be a whole number of at least 0, not True"),
        ({"alpha": float("inf")}, "alpha should be auto or a finite number above 0, not inf"),
        ({"partition_prior": "chinese"}, "partition_prior should be dirichlet, pitman-yor, finite or a prior such as"),
        ({"partition_prior": "finite", "alpha": 2.0}, "alpha is for partition_prior dirichlet, not 'finite'"),
        ({"init": "magic"}, "init should be one of random, kmeans, splitnet or a callable, not 'magic'"),
        (
            {"backend": "fortran"},
            "backend should be auto, native, julia, dask, or one such as Julia(workers=4), not 'fortran'",
        ),
        ({"prior": NIW.reference(7)}, "the prior has 7 dimensions, but the data have 3"),
        ({"prior": "flat"}, "prior should be data, reference or a prior such as NIW, not 'flat'"),
        ({"prior": NIW.reference(3), "covariance_type": "diag"}, "a prior of the family gaussian, diag, not 'full'"),
        ({"init_clusters": "some"}, "init_clusters should be auto, many"),
        ({"init_clusters": np.zeros(3)}, "init_clusters should be 2000 labels"),
        ({"outlier_weight": 1.0}, "outlier_weight should be a number from 0 up to, not including, 1, not 1.0"),
        ({"loss": "mean"}, "loss should be one of binder, vi or None, not 'mean'"),
        ({"max_clusters": 0}, "max_clusters should be a whole number of at least 1 or None, not 0"),
        (
            {"family": "weibull"},
            "family should be one of gaussian, mixed, multinomial, poisson, student, not 'weibull'",
        ),
        ({"covariance_type": "tied"}, "covariance_type should be one of auto, diag, full, spherical, not 'tied'"),
        ({"categorical": [0]}, "categorical columns need the family mixed"),
        ({"family": "multinomial", "covariance_type": "full"}, "covariance_type is for the family gaussian"),
        ({"family": "multinomial"}, "Negative values in data passed to DPMM (family multinomial)"),
        ({"family": "mixed", "init": "splitnet"}, "init splitnet is for Gaussian clusters"),
        ({"family": "mixed", "categorical": ["d"]}, "categorical names the column 'd', but the table has 0, 1, 2"),
        ({"init": lambda points: np.zeros(3)}, "should return 2000 sublabels"),
        ({"init": lambda points: np.full(len(points), 2)}, "sublabels 0 or 1 only"),
    ],
)
def test_bad_parameters_get_one_sentence(data: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        quick(**({"init_clusters": 1} | changes)).fit(data.X)
    assert "\n" not in str(error.value)


def test_the_parameters_are_few_keyword_only_and_constrained() -> None:
    parameters = DPMM().get_params(deep=False)
    assert len(parameters) <= 22
    assert set(parameters) == set(DPMM._parameter_constraints)
    with pytest.raises(TypeError):
        DPMM(1.0)


def test_truth_of_the_wrong_length(data: Any) -> None:
    with pytest.raises(ValueError, match="truth should be 2000 labels"):
        quick().fit(data.X, truth=[1, 2, 3])
