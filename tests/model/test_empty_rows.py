"""Rows without any value: in no cluster, whatever is asked of the model."""

from pathlib import Path

import numpy as np
import pytest

from dpmmwrap import DPMM

QUICK = {"init": "kmeans", "max_iter": 15, "n_chains": 1, "backend": "native", "random_state": 0}
TRUTH = np.repeat([0, 1, 2], 50)
X = np.random.default_rng(0).normal(size=(150, 2)) @ [[1.0, 0.6], [0.0, 0.8]] + 12 * np.eye(3, 2)[TRUTH]
GONE = [0, 77, 149]


def with_gaps() -> np.ndarray:
    rows = np.column_stack([X, np.full(150, 7.0)])
    rows[GONE, :2] = np.nan
    # One of them has a value, but only in a column that says nothing.
    rows[GONE[1:], 2] = np.nan
    return rows


@pytest.mark.filterwarnings("ignore:the draws of")
def test_a_fit_with_draws(tmp_path: Path) -> None:
    rows = with_gaps()
    start = np.arange(150) % 4
    model = DPMM(**QUICK, n_draws=8, init_clusters=start).fit(rows, truth=TRUTH)
    plain = DPMM(**QUICK, n_draws=8, init_clusters=np.delete(start, GONE)).fit(np.delete(X, GONE, axis=0))
    assert model.covariance_type_ == plain.covariance_type_ and model.n_missing_ == 0
    np.testing.assert_array_equal(np.delete(model.labels_, GONE), plain.labels_)
    assert model.labels_[GONE].tolist() == [-1] * 3 and model.confidence_[GONE].tolist() == [1.0] * 3
    assert model.sublabels_.shape == (150,)
    assert model.draws_.labels.shape == (1, 8, 150) and (model.draws_.labels[..., GONE] == -1).all()
    np.testing.assert_array_equal(np.delete(model.draws_.labels, GONE, axis=2), plain.draws_.labels)
    assert model.coclustering([0, 1, 2])[0].tolist() == [1.0, 0.0, 0.0]
    assert model.credible_ball().n_clusters == plain.credible_ball().n_clusters
    assert model.groups().suggested == plain.groups().suggested
    model.write_report(tmp_path / "report.html", rows)
    assert "outlier" not in (tmp_path / "report.html").read_text(encoding="utf-8").split("</h1>")[1][:400]


def test_predictions() -> None:
    rows = with_gaps()
    model = DPMM(**QUICK, covariance_type="full").fit(rows)
    found = model.predict(rows)
    np.testing.assert_array_equal(found < 0, np.isin(np.arange(150), GONE))
    np.testing.assert_allclose(model.predict_proba(rows)[0], model.weights_)
    assert model.score_samples(rows)[0] == 0.0 and np.isfinite(model.score(rows))
    rows[3, 0] = np.nan
    assert model.predict(rows)[3] == found[3]


def test_too_few_rows_are_left() -> None:
    rows = np.full((5, 2), np.nan)
    rows[0] = 1.0
    with pytest.raises(ValueError, match="at least 2 rows should hold values, but 1 of the 5 rows do"):
        DPMM(**QUICK).fit(rows)
