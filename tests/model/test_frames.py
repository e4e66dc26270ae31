"""Tables of pandas, polars and pyarrow: fitted, saved and predicted by their columns' names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import load
from dpmmwrap.estimator import DPMM
from dpmmwrap.model.rows import word_columns

RNG = np.random.default_rng(0)
TRUTH = np.repeat([0, 1], 40)
NUMBERS = {"width": RNG.normal(size=80) + 9 * TRUTH, "height": RNG.normal(size=80) - 9 * TRUTH}
MIXED: dict[str, Any] = NUMBERS | {"kind": np.array(["a", "b"])[TRUTH].tolist()}
QUICK: dict[str, Any] = {"init": "kmeans", "max_iter": 10, "n_chains": 1, "backend": "native", "random_state": 0}


def maker(library: str) -> Callable[[dict[str, Any]], Any]:
    module = pytest.importorskip(library)
    return module.table if library == "pyarrow" else module.DataFrame  # type: ignore[no-any-return]


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def make(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    return maker(request.param)


def test_tables_of_numbers(make: Callable[..., Any], tmp_path: Path) -> None:
    model = DPMM(**QUICK).fit(make(NUMBERS))
    assert model.feature_names_in_.tolist() == ["width", "height"]
    assert model.mixture_.feature_names == ("width", "height")
    array = np.column_stack([*NUMBERS.values()])
    np.testing.assert_array_equal(model.labels_, DPMM(**QUICK).fit(array).labels_)
    model.save(tmp_path / "model.npz")
    mixture = load(tmp_path / "model.npz")
    # By name: in another order, among others.
    turned = make({"kind": MIXED["kind"], "height": NUMBERS["height"], "width": NUMBERS["width"]})
    np.testing.assert_array_equal(mixture.predict(turned), model.predict(make(NUMBERS)))
    with pytest.raises(ValueError, match="X should have a column 'height', but it has width"):
        mixture.predict(make({"width": [1.0]}))
    with pytest.raises(ValueError, match="the column 'kind' does not hold numbers: use family='mixed'"):
        DPMM(**QUICK).fit(make(MIXED))


def test_tables_of_numbers_and_words(make: Callable[..., Any], tmp_path: Path) -> None:
    gaps = MIXED | {"kind": [None, *MIXED["kind"][1:]], "width": [*NUMBERS["width"][:-1].tolist(), None]}
    model = DPMM(family="mixed", **QUICK).fit(make(gaps))
    assert model.n_missing_ == 2 and model.mixture_.columns is not None
    assert model.mixture_.input_names == ("width", "height", "kind")
    assert [levels.tolist() for levels in model.mixture_.columns.categories] == [["a", "b"]]
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(make(gaps)), model.predict(make(gaps)))


def test_categories_of_pyarrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(NUMBERS | {"kind": pyarrow.array(MIXED["kind"]).dictionary_encode()})
    assert word_columns(table) == ["kind"]
    model = DPMM(family="mixed", **QUICK).fit(table.to_batches()[0])
    assert len(model.predict(table)) == 80


def test_words_and_categories_that_are_used_as_numbers_get_a_note() -> None:
    pandas = pytest.importorskip("pandas")
    codes = np.arange(80) % 16
    table = pandas.DataFrame(NUMBERS | {"text": codes.astype(str), "kind": pandas.Categorical(codes * codes)})
    note = "the columns text, kind are of words or categories, but used as numbers"
    assert DPMM(**QUICK).fit(table).notes_[0].startswith(note)
    mixed = DPMM(**QUICK, family="mixed", categorical=["text", "kind"]).fit(table)
    assert [len(levels) for levels in mixed.mixture_.columns.categories] == [16, 16]
    assert DPMM(**QUICK).fit(table[["width", "height"]].astype(object)).notes_ == []


@pytest.mark.parametrize("options", [{}, {"family": "mixed"}])
def test_masked_values_are_missing(options: dict[str, Any], tmp_path: Path) -> None:
    X = np.column_stack([*NUMBERS.values()]).astype(np.float32)
    gaps = np.arange(160).reshape(X.shape) % 7 == 0
    masked, missing = np.ma.masked_array(np.where(gaps, 1e6, X), gaps), np.where(gaps, np.nan, X)
    model = DPMM(**QUICK, **options).fit(masked)
    np.testing.assert_array_equal(model.labels_, DPMM(**QUICK, **options).fit(missing).labels_)
    assert model.n_missing_ == gaps.sum()
    np.testing.assert_array_equal(model.predict(masked), model.predict(missing))
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").predict(masked), model.predict(missing))


def test_masked_counts_are_refused() -> None:
    counts = np.ma.masked_array(np.arange(12).reshape(4, 3), np.eye(4, 3))
    with pytest.raises(ValueError, match="NaN"):
        DPMM(**QUICK, family="multinomial").fit(counts)


def test_dates_are_no_categories() -> None:
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=40)
    for column in (days, [str(day.date()) for day in days]):
        table = pandas.DataFrame({"day": column, "width": np.arange(40.0), "kind": ["a", "b"] * 20})
        with pytest.raises(ValueError, match="the column 'day' holds dates, which are neither numbers nor categories"):
            DPMM(family="mixed").fit(table)


def test_an_id_of_a_frame_is_left_out() -> None:
    pandas = pytest.importorskip("pandas")
    width = np.random.default_rng(0).normal(size=40)
    table = pandas.DataFrame({"name": [f"n{i}" for i in range(40)], "width": width, "kind": ["a", "b"] * 20})
    settings = {"family": "mixed", "init": "kmeans", "max_iter": 5, "n_chains": 1, "backend": "native"}
    model = DPMM(**settings, random_state=0).fit(table)
    assert model.mixture_.columns.names == ("width", "kind")
    assert model.notes_[0].endswith("an id or a text, not a category; categorical=['name'] would keep it")
    assert model.mixture_.predict(table[["kind", "width"]]).tolist() == model.predict(table).tolist()


def test_fractions_are_no_counts() -> None:
    settings = {"family": "multinomial", "init": "kmeans", "max_iter": 3, "n_chains": 1, "backend": "native"}
    counts = np.random.default_rng(0).poisson(4.0, size=(30, 5)).astype(float)
    assert not any("whole numbers" in note for note in DPMM(**settings, random_state=0).fit(counts).notes_)
    assert "some counts are not whole" in DPMM(**settings, random_state=0).fit(counts + 0.5).notes_[0]


def test_columns_that_may_not_be_what_they_look_like() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(rng.normal(size=200)), rng.normal(size=200), rng.normal(size=200)])
    X[::20, 2] = -999
    notes = DPMM(**QUICK).fit(X).notes_
    assert notes[0] == (
        "the column number 3 holds -999 far from all its other values: if that stands for a missing value, put NaN in "
        "its place"
    )
    assert notes[1].endswith("into pieces: the column number 1; try the logarithm")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"income": X[:, 0], "kind": ["a", "b"] * 100})
    assert "the column 'income'; try the logarithm" in DPMM(**QUICK, family="mixed").fit(table).notes_[0]
