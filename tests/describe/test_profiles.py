"""What sets clusters apart, against plain means and shares."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpmmwrap.describe import profiles
from dpmmwrap.describe.profiles import profiles_of
from dpmmwrap.families.tables import Columns


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that every table is gone over in several pieces."""
    monkeypatch.setattr(profiles, "CHUNK", 7)
    return


def a_table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, size=60)
    frame = pd.DataFrame(rng.normal(size=(60, 3)) + 1e6, columns=["a", "b", "c"])
    frame.loc[labels == 1, "b"] += 20
    frame.iloc[::5, 2] = np.nan
    return frame, labels


def test_numeric_features_by_their_means() -> None:
    frame, labels = a_table()
    found = profiles_of(frame.to_numpy(), labels, 3, names=list(frame))
    assert [str(feature) for feature in found.features] == ["a", "b", "c"]
    for k in range(3):
        here, elsewhere = frame[labels == k], frame[labels != k]
        np.testing.assert_allclose(found.here[k], here.mean(), rtol=1e-12)
        np.testing.assert_allclose(found.spread[k], here.std(ddof=0), rtol=1e-6)
        np.testing.assert_allclose(found.elsewhere[k], elsewhere.mean(), rtol=1e-12)
        apart = (here.mean() - elsewhere.mean()) / frame.std(ddof=0)
        np.testing.assert_allclose(found.apart[k], apart, atol=1e-6)
    best = found.traits(1, most=2)
    assert best[0].feature.name == "b" and best[0].apart > 1.5
    assert found.most_telling(1).tolist() == [1]
    assert found.looked_at == 60


def test_a_constant_feature_sets_nothing_apart() -> None:
    found = profiles_of(np.array([[1.0, 0.0], [1.0, 5.0], [1.0, 6.0]]), np.array([0, 1, 1]), 2)
    assert [trait.feature.name for trait in found.traits(0)] == ["feature 2"]


def test_zeros_are_zeros() -> None:
    """Not what rounding leaves of them."""
    X = np.random.default_rng(0).normal(5, 2, size=(300, 1)).round(1)
    labels = (np.arange(300) % 3 == 0).astype(np.int32)
    X[labels == 1] = 0.0
    profiles = profiles_of(X, labels, 2)
    assert profiles.here[1, 0] == profiles.elsewhere[0, 0] == profiles.spread[1, 0] == 0


def test_a_feature_that_is_always_missing_is_not_told() -> None:
    X = np.column_stack([np.full(4, np.nan), [0.0, 0.0, 5.0, 5.0]])
    found = profiles_of(X, np.array([0, 0, 1, 1]), 2)
    assert [trait.feature.name for trait in found.traits(0)] == ["feature 2"]


def test_categories_by_their_shares() -> None:
    table = {
        "town": np.array(["n", "n", "s", "e", "s", "s", "s", "n"]),
        "size": np.arange(8.0),
        "paid": np.array(["yes", "no"] * 4),
    }
    columns = Columns.learn(table, None)
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found = profiles_of(columns.points(table), labels, 2, columns=columns)
    # In the order of the columns.
    told = ["town = e", "town = n", "town = s", "size", "paid = no", "paid = yes"]
    assert [str(feature) for feature in found.features] == told
    np.testing.assert_allclose(found.here[0, :3], [0.25, 0.5, 0.25])
    np.testing.assert_allclose(found.elsewhere[0, :3], [0, 0.25, 0.75])
    np.testing.assert_allclose(found.apart[0, 2], -0.5 / 0.5)
    np.testing.assert_allclose(found.here[:, 3], [1.5, 5.5])
    names = [trait.feature.name for trait in found.traits(0)]
    assert sorted(names) == ["size", "town"], "a column is told once, and one that does not differ is not"


def test_a_level_that_is_missing_counts_for_no_share() -> None:
    table = {"town": np.array(["n", "", "s", "s"])}
    columns = Columns.learn(table, None)
    found = profiles_of(columns.points(table), np.array([0, 0, 1, 1]), 2, columns=columns)
    np.testing.assert_allclose(found.here, [[1, 0], [0, 1]])


@pytest.mark.parametrize("dense", [True, False])
def test_counts_by_their_shares(dense: bool) -> None:
    counts = np.array([[90, 10, 0, 0], [80, 20, 0, 0], [10, 10, 80, 0], [0, 20, 79, 1]] * 5, dtype=np.float32)
    labels = np.array([0, 0, 1, 1] * 5)
    X = counts if dense else sparse.csr_matrix(counts)
    found = profiles_of(X, labels, 2, counts=True)
    np.testing.assert_allclose(found.here[0], [0.85, 0.15, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.elsewhere[0], [0.05, 0.15, 0.795, 0.005], rtol=1e-6)
    first = found.traits(0)[0]
    assert first.feature.name == "feature 1" and 2**first.apart == pytest.approx(17, rel=0.05)
    # A rare word is as lopsided as the third, but says less.
    assert found.traits(1)[0].feature.name == "feature 3"


def test_of_much_data_some_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "NUMBERS", 100)
    X = np.random.default_rng(0).normal(size=(500, 2))
    found = profiles_of(X, np.arange(500) % 2, 2)
    assert found.looked_at == 50
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(found.here[0], X[::2].mean(axis=0))
