"""Weights of rows, as users see them: `fit(X, sample_weight=...)` and `--sample-weight`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM, NIG, NIW
from dpmmwrap.backends import Native
from dpmmwrap.cli import run

QUICK: dict[str, Any] = {"init": "kmeans", "n_chains": 1, "max_iter": 25, "random_state": 0, "backend": "native"}
PRIOR = NIW(np.zeros(2), 0.1, 5 * np.eye(2), 5.0)


def three_groups(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], 40)
    return rng.normal(size=(120, 2)) + 9.0 * np.eye(3, 2)[truth] - 4.0, truth


def test_a_weighted_fit_is_the_fit_of_repeated_rows() -> None:
    X, truth = three_groups()
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    model = DPMM(prior=PRIOR, **QUICK).fit(X, sample_weight=weights)
    repeated = DPMM(prior=PRIOR, **QUICK).fit(np.repeat(X, weights, axis=0))
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    order, other = np.lexsort(model.means_.T), np.lexsort(repeated.means_.T)
    np.testing.assert_allclose(model.weights_[order], repeated.weights_[other])
    np.testing.assert_allclose(model.means_[order], repeated.means_[other], rtol=1e-5)
    np.testing.assert_allclose(model.covariances_[order], repeated.covariances_[other], rtol=1e-4)
    assert model.log_posterior_ == pytest.approx(repeated.log_posterior_, abs=1.0)


@pytest.mark.parametrize("family", ["full", "diag", "spherical"])
def test_weights_of_one_change_nothing(family: str) -> None:
    X, _ = three_groups()
    settings = QUICK | {"covariance_type": family, "n_draws": 5, "thin": 1}
    one, other = DPMM(**settings).fit(X), DPMM(**settings).fit(X, sample_weight=np.ones(len(X)))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.n_clusters_ == other.n_clusters_ == 3


def test_counts_and_tables_have_weights() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 40)
    weights = rng.integers(1, 4, 80)
    counts = rng.poisson(np.array([[9.0, 1, 1], [1, 9, 4]])[truth])
    for X, family in ((counts, "multinomial"), (sparse.csr_matrix(counts), "multinomial"), (counts, "poisson")):
        model = DPMM(family=family, **QUICK).fit(X, sample_weight=weights)
        assert adjusted_rand_score(truth, model.labels_) > 0.8
    table = {"size": rng.normal(10.0 * truth, 1.0), "kind": np.array(["red", "blue"])[truth]}
    model = DPMM(family="mixed", **QUICK).fit(table, sample_weight=weights)
    assert adjusted_rand_score(truth, model.labels_) == 1.0


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(30_000, 2)) + 6.0 * rng.integers(3, size=(30_000, 1))).astype(np.float32)
    weights = rng.gamma(2.0, size=30_000)
    settings = QUICK | {"max_iter": 8, "prior": NIG(np.zeros(2), 0.1, np.full(2, 3.0), 3.0)}
    for prior in (settings["prior"], PRIOR):
        found = [
            DPMM(**(settings | {"prior": prior, "backend": Native(n_jobs=jobs)})).fit(X, sample_weight=weights)
            for jobs in (1, 3)
        ]
        np.testing.assert_array_equal(found[0].labels_, found[1].labels_)
        assert found[0].log_posterior_ == found[1].log_posterior_


def test_rows_without_weight_are_labelled_by_predict() -> None:
    X, truth = three_groups()
    X[5] = 1000.0
    weights = np.ones(len(X))
    weights[[5, 50, 100]] = 0.0
    model = DPMM(covariance_type="full", **(QUICK | {"n_draws": 5, "thin": 1})).fit(X, sample_weight=weights)
    kept = weights > 0
    alone = DPMM(covariance_type="full", **(QUICK | {"n_draws": 5, "thin": 1})).fit(X[kept])
    np.testing.assert_array_equal(model.labels_[kept], alone.labels_)
    np.testing.assert_array_equal(model.labels_[~kept], model.predict(X[~kept]))
    assert adjusted_rand_score(truth[[50, 100]], model.labels_[[50, 100]]) == 1.0
    assert model.weights_.sum() == pytest.approx(1.0) and (model.confidence_ <= 1.0).all()


def test_light_rows_are_noted() -> None:
    X, _ = three_groups()
    model = DPMM(covariance_type="full", **QUICK).fit(X, sample_weight=np.full(len(X), 0.9))
    assert any("the weights sum to 108, less than the 120 rows" in note for note in model.notes_)


def test_who_cannot_have_weights_says_so() -> None:
    X, _ = three_groups()
    with pytest.raises(ValueError, match="weights of rows need the built-in sampler"):
        DPMM(backend="julia", prior=PRIOR, n_chains=1).fit(X, sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="Pitman-Yor process sample_weight should be at least 1"):
        DPMM(partition_prior="pitman-yor", **QUICK).fit(X, sample_weight=np.full(len(X), 0.5))
    with pytest.raises(ValueError, match="not be negative"):
        DPMM(**QUICK).fit(X, sample_weight=np.full(len(X), -1.0))


def test_a_column_of_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, _ = three_groups()
    weights = np.repeat([0, 1, 2], 40)
    path = tmp_path / "points.csv"
    np.savetxt(path, np.column_stack([X, weights]), delimiter=",", header="a,b,times", comments="")
    options = ["--sample-weight", "times", "--covariance", "full", "--chains", "1", "--json", "--quiet"]
    assert run(["fit", str(path), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dimensions"] == 2 and found["points"] == 120 and found["empty"] == found["outliers"] == 0
    assert run(["fit", str(path), "--sample-weight", "a"]) == 2
    assert "sample_weight should not be negative" in capsys.readouterr().err
    assert run(["fit", str(path), "--sample-weight", "times", "--backend", "dask"]) == 2
    assert run(["fit", str(path), "--sample-weight", "none"]) == 2
    assert "should have a column 'none'" in capsys.readouterr().err
