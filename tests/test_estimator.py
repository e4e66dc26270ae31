"""DPMM as scikit-learn and its users see it."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpmmwrap.datasets import generate
from dpmmwrap.estimator import DPMM
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.mixture import load


@pytest.fixture(scope="module")
def data() -> Any:
    return generate(dim=3, clusters=5, points=2000, spread=60, seed=0)


def quick(**changes: Any) -> DPMM:
    options: dict[str, Any] = {"backend": "native", "init": "kmeans", "max_iter": 40, "random_state": 0}
    return DPMM(**(options | changes))


@pytest.fixture(scope="module")
def fitted(data: Any) -> DPMM:
    return quick().fit(data.X)


@pytest.mark.parametrize("init", ["splitnet", "random", "kmeans"])
def test_check_estimator_passes_whole(init: str) -> None:
    """In a process of its own: without SCIPY_ARRAY_API, set before scipy is imported, one check is skipped."""
    code = (
        "from sklearn.utils.estimator_checks import check_estimator; from dpmmwrap.estimator import DPMM;"
        f"results = check_estimator(DPMM(backend='native', init={init!r}, max_iter=20), on_skip=None, on_fail=None);"
        "print([r for r in results if r['status'] != 'passed']); print(len(results))"
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
    assert fitted.log_posterior_ == fitted.trace_.log_posterior[-1]
    assert fitted.n_features_in_ == 3 and fitted.backend_ == "native" and not fitted.interrupted_
    frame = fitted.trace_.to_pandas()
    assert list(frame.columns[:3]) == ["n_clusters", "log_posterior", "seconds"] and len(frame) == 40


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


@pytest.mark.parametrize(("ratio", "most"), [("auto", 1), ("jain-neal", 1), ("reference", 150)])
def test_auto_begins_with_one_cluster_where_splits_find_the_rest(data: Any, ratio: str, most: int) -> None:
    first = quick(init_clusters="auto", acceptance_ratio=ratio, max_iter=1).fit(data.X).trace_.n_clusters[0]
    assert first == 1 if most == 1 else 20 < first <= most


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_a_few_large_clusters_are_not_cut_up(clusters: int) -> None:
    data = generate(dim=2, clusters=clusters, points=10_000, spread=50, seed=0)
    assert DPMM(random_state=0, backend="native").fit(data.X).n_clusters_ == clusters


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


def test_priors_by_name(data: Any) -> None:
    assert quick(prior="reference").fit(data.X).n_clusters_ >= 5
    assert quick(prior=NIW.reference(3)).fit(data.X).n_clusters_ >= 5


def test_verbose_prints_progress(data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quick(max_iter=10, verbose=1).fit(data.X)
    assert capsys.readouterr().out.startswith("iteration 10: ")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"alpha": -1.0}, "alpha should be a finite number above 0, not -1.0"),
        ({"alpha": "much"}, "alpha should be"),
        ({"max_iter": 0}, "max_iter should be a whole number of at least 1, not 0"),
        ({"min_cluster_age": 2.5}, "min_cluster_age should be"),
        ({"init": "magic"}, "init should be one of random, kmeans, splitnet or a callable, not 'magic'"),
        ({"backend": "fortran"}, "backend should be auto, native or julia"),
        ({"prior": NIW.reference(7)}, "the prior has 7 dimensions, but the data have 3"),
        ({"prior": "flat"}, "prior should be data, reference or an NIW"),
        ({"init_clusters": "some"}, "init_clusters should be auto, many"),
        ({"init_clusters": np.zeros(3)}, "init_clusters should be 2000 labels"),
        ({"outlier_weight": 1.0}, "outlier_weight should be"),
        ({"acceptance_ratio": "own"}, "acceptance_ratio should be one of auto, jain-neal, reference, printed"),
        ({"max_clusters": 0}, "max_clusters should be"),
        ({"init": lambda points: np.zeros(3)}, "should return 2000 sublabels"),
        ({"init": lambda points: np.full(len(points), 2)}, "sublabels 0 or 1 only"),
    ],
)
def test_bad_parameters_get_one_sentence(data: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        quick(**({"init_clusters": 1} | changes)).fit(data.X)
    assert "\n" not in str(error.value)


def test_truth_of_the_wrong_length(data: Any) -> None:
    with pytest.raises(ValueError, match="truth should be 2000 labels"):
        quick().fit(data.X, truth=[1, 2, 3])
