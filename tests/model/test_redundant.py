"""Constant columns, copies and sums: what counts as one, what is said, and what a fitted model says of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpmmwrap import DPMM, NIW, load
from dpmmwrap.model.redundant import Redundant, find_redundant, sentence, without

N = 300


def three_columns(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, 5.0]


def test_columns_of_their_own_stay() -> None:
    assert find_redundant(three_columns()) == Redundant([], [])


def test_constant_columns() -> None:
    X = np.column_stack([np.full(N, 7.0), three_columns(), np.zeros(N), np.full(N, -1e9)])
    assert find_redundant(X) == Redundant([0, 4, 5], [])
    X[17, 4] = 1e-3
    assert find_redundant(X).constant == [0, 5], "one value that differs is a difference"


def test_what_is_constant_depends_on_the_precision() -> None:
    """Seconds since 1970, of half a minute: double precision tells them apart, single does not."""
    seconds = 1_700_000_000 + np.random.default_rng(0).normal(0, 30, size=N)
    X = np.column_stack([three_columns(), seconds])
    assert find_redundant(X).columns == []
    assert find_redundant(X.astype(np.float32)).constant == [3]
    assert find_redundant(np.column_stack([three_columns(), np.full(N, 0.1) + 1e-17])).constant == [3]


def test_a_value_that_is_not_in_the_sample_counts() -> None:
    X = np.random.default_rng(0).normal(size=(30_000, 2)).astype(np.float32)
    X[:, 1] = 1.0
    assert find_redundant(X).constant == [1]
    seen = set(np.random.default_rng(0).choice(30_000, 10_000, replace=False).tolist())
    X[next(row for row in range(30_000) if row not in seen), 1] = 5.0
    assert find_redundant(X).constant == []


def test_copies_and_sums_of_columns_before_them() -> None:
    a, b, c = three_columns().T
    assert find_redundant(np.column_stack([a, b, a, c])).combined == [2]
    assert find_redundant(np.column_stack([a, b, -3 * a + 1e6, c, a + b])).combined == [2, 4]
    noisy = a + np.random.default_rng(1).normal(size=N)
    assert find_redundant(np.column_stack([a, b, noisy])).combined == [], "correlated is not the same"


def test_a_typing_error_hides_no_copy_and_makes_none() -> None:
    a, b, _ = three_columns().T
    copied = a.copy()
    copied[3] *= 1e4
    assert find_redundant(np.column_stack([a, b, copied])).combined == [2]
    # Two columns that have nothing in common but one row that is far out in both.
    X = np.column_stack([a, b])
    X[5] = 1e6
    assert find_redundant(X).combined == []


def test_gaps_do_not_matter() -> None:
    a, b, c = three_columns().T
    X = np.column_stack([a, b, 2 * a, c, np.full(N, 4.0)])
    X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan
    assert find_redundant(X[:, [0, 1, 2, 4]]) == Redundant([3], [2])
    found = find_redundant(X)
    assert found.constant == [4] and found.empty == (3,), "a column without any value is not constant"


def test_few_rows_for_many_columns_show_copies_alone() -> None:
    X = np.random.default_rng(0).normal(size=(20, 30))
    assert find_redundant(X).combined == [], "twenty rows lie in a plane of twenty dimensions"
    assert find_redundant(np.column_stack([X, X[:, 4] * 2 + 1])).combined == [30]


def test_all_columns_come_back() -> None:
    a, b, c = three_columns().T
    X = np.column_stack([np.full(N, 7.0), a, b, 2 * a - b + 3, c])
    kept, restored = without(X, find_redundant(X))
    assert restored.kept.tolist() == [1, 2, 4] and kept.shape == (N, 3)
    np.testing.assert_allclose(restored.features(kept), X, atol=1e-8)
    np.testing.assert_allclose(restored.covariances(np.cov(kept.T)[None])[0], np.cov(X.T), atol=1e-8)
    variances = restored.covariances(np.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(variances, [[0.0, 1.0, 2.0, 4.0 + 2.0, 3.0]], atol=1e-8)


def test_it_is_said_once_and_short() -> None:
    said = sentence(Redundant([0], [2, 3, 4, 5]), ["a", "b", "c", "d", "e", "f"])
    assert said == (
        "left out, as they say nothing new: constant columns (a) and copies or combinations of others (c, d, e and 1 "
        "more)"
    )
    said = "left out, as they say nothing new: copies or combinations of others (number 3)"
    assert sentence(Redundant([], [2])) == said


QUICK = {"init": "kmeans", "max_iter": 25, "n_chains": 1, "backend": "native", "random_state": 0}


def clusters() -> tuple[np.ndarray, np.ndarray]:
    truth = np.repeat([0, 1, 2], 100)
    return np.random.default_rng(0).normal(size=(N, 2)) + 9 * np.eye(3, 2)[truth], truth


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_a_fitted_model_speaks_of_all_columns(covariance_type: str, tmp_path: Path) -> None:
    X, _ = clusters()
    more = np.column_stack([X[:, 0], np.full(N, 7.0), X[:, 1], 2 * X[:, 0] + X[:, 1]])
    plain = DPMM(**QUICK, covariance_type=covariance_type).fit(X)
    model = DPMM(**QUICK, covariance_type=covariance_type).fit(more)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    assert [note for note in model.notes_ if "left out" in note] == [model.notes_[0]]
    assert "constant columns (number 2)" in model.notes_[0] and "combinations of others (number 4)" in model.notes_[0]
    np.testing.assert_allclose(model.means_[:, [0, 2]], plain.means_, rtol=1e-6)
    np.testing.assert_allclose(model.means_[:, 3], 2 * plain.means_[:, 0] + plain.means_[:, 1], rtol=1e-6)
    points, _ = model.sample(50)
    np.testing.assert_allclose(points[:, 1], 7.0)
    np.testing.assert_allclose(points[:, 3], 2 * points[:, 0] + points[:, 2])
    model.save(tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(read.predict(more), plain.predict(X))
    assert read.n_inputs == 4
    with pytest.raises(ValueError, match="4 columns"):
        read.predict(X)


def test_a_prior_of_ones_own_is_for_all_columns() -> None:
    X, _ = clusters()
    more = np.column_stack([X, X[:, 0]])
    model = DPMM(**QUICK, prior=NIW(np.zeros(3), 0.1, np.eye(3), 6.0)).fit(more)
    assert model.mixture_.restored is None and not any("left out" in note for note in model.notes_)


def test_nothing_but_constants() -> None:
    with pytest.warns(UserWarning, match="no split was ever accepted"):
        model = DPMM(**QUICK).fit(np.ones((20, 2)))
    assert model.n_clusters_ == 1
    assert "every column is constant" in model.notes_[0]


# Mixed tables


def table(**more: object) -> pd.DataFrame:
    X, truth = clusters()
    words = np.array(["red", "green", "blue"])[truth]
    return pd.DataFrame({"width": X[:, 0], **more, "height": X[:, 1], "colour": words})


def test_constant_columns_of_a_mixed_table(tmp_path: Path) -> None:
    plain = DPMM(**QUICK, family="mixed").fit(table())
    frame = table(unit=3.0)
    model = DPMM(**QUICK, family="mixed").fit(frame)
    assert model.notes_ == ["left out, as they say nothing new: constant columns (unit)"]
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_array_equal(model.predict(frame), plain.predict(table()))
    np.testing.assert_allclose(model.mixture_.means[:, 1], 3.0)
    rows, _ = model.sample(20)
    assert rows.shape == (20, 4) and set(rows[:, 1]) == {3.0} and set(rows[:, 3]) <= {"red", "green", "blue"}
    assert model.groups().suggested == 3
    model.save(tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(read.predict(frame), model.predict(frame))
    assert read.input_names == ("width", "unit", "height", "colour")
    # A new value in it says nothing, either.
    np.testing.assert_array_equal(read.predict(table(unit=-8.0)), model.predict(frame))


def test_a_table_of_categories_and_a_constant(tmp_path: Path) -> None:
    frame = table(unit=3.0)[["unit", "colour"]].assign(again=lambda it: it["colour"])
    model = DPMM(**QUICK, family="mixed").fit(frame)
    assert model.n_clusters_ == 3 and model.prior_width_ is None
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(frame), model.labels_)
    assert set(model.sample(5)[0][:, 0]) == {3.0}
