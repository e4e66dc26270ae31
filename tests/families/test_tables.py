"""Tables of named columns: what is categorical, what is missing, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from dpmmwrap.families.tables import MOST_LEVELS, Columns, table_of
from dpmmwrap.files import write_npz

TABLE = {
    "height": np.array([1.5, np.nan, 1.8, 1.7]),
    "colour": np.array(["red", "blue", "", "red"]),
    "children": np.array([0, 2, 1, 0]),
    "member": np.array([True, False, True, True]),
}


def learned(table: Any = TABLE, categorical: Any = None) -> Columns:
    return Columns.learn(*table_of(table)[:1], categorical, table_of(table)[1])


def test_words_and_truth_values_are_categorical_by_themselves() -> None:
    columns = learned()
    assert columns.categorical == (1, 3) and columns.numeric == (0, 2)
    assert [list(levels) for levels in columns.categories] == [["blue", "red"], ["False", "True"]]
    assert columns.levels.tolist() == [2, 2]


@pytest.mark.parametrize("named", [["colour", "children", "member"], [1, 2, 3], [-1, "colour", 2, "children"]])
def test_categorical_columns_by_name_or_place(named: list[Any]) -> None:
    columns = learned(categorical=named)
    assert columns.categorical == (1, 2, 3)
    assert columns.categories[1].tolist() == [0, 1, 2]


def test_points_are_numbers_and_codes_over_all_levels() -> None:
    points = learned(categorical=["colour", "children", "member"]).points(TABLE)
    np.testing.assert_array_equal(points.numeric, [[1.5], [np.nan], [1.8], [1.7]])
    np.testing.assert_array_equal(points.codes, [[1, 2, 6], [0, 4, 5], [-1, 3, 6], [1, 2, 6]])
    assert points.shape == (4, 4) and len(points) == 4
    np.testing.assert_array_equal(points[1:3].codes, points.codes[1:3])


def test_levels_that_were_never_seen_and_gaps_are_missing() -> None:
    columns = learned(categorical=["colour", "children", "member"])
    strange = {"height": [None, 1.0, 2.0], "colour": ["green", None, "blue"]}
    strange |= {"children": [7, np.nan, 2.0], "member": ["", 3, 0]}
    points = columns.points(strange)
    np.testing.assert_array_equal(points.codes, [[-1, -1, -1], [-1, -1, -1], [0, 4, -1]])
    assert np.isnan(points.numeric[0, 0])


def test_frames_arrays_and_mappings_are_read_alike() -> None:
    columns = learned()
    expected = columns.points(TABLE)
    frame = pandas.DataFrame(TABLE)
    array = np.array(frame.astype(object))
    for table in (
        frame,
        frame[["member", "children", "colour", "height"]],
        frame.assign(more=1),
        array,
        array.tolist(),
    ):
        points = columns.points(table)
        np.testing.assert_array_equal(points.numeric, expected.numeric)
        np.testing.assert_array_equal(points.codes, expected.codes)


@pytest.mark.parametrize(
    ("column", "numeric"),
    [
        (pandas.Series([1, None, 2], dtype="Int64"), True),
        (pandas.Series([1.5, None, 2], dtype="Float64"), True),
        (pandas.Series([1, None, 2], dtype=object), True),
        (pandas.Series(["a", None, "b"], dtype="string"), False),
        (pandas.Series(["a", None, "b"], dtype=object), False),
        (pandas.Series(["a", None, "b"]).astype("category"), False),
        (pandas.Series([True, None, False], dtype="boolean"), False),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pandas.Series) else "",
)
def test_gaps_of_pandas_are_missing(column: pandas.Series, numeric: bool) -> None:
    frame = pandas.DataFrame({"x": column})
    columns = learned(frame)
    assert columns.numeric == ((0,) if numeric else ())
    points = columns.points(frame)
    gaps = np.isnan(points.numeric[:, 0]) if numeric else points.codes[:, 0] < 0
    assert gaps.tolist() == [False, True, False]


def test_a_table_comes_back_from_its_points() -> None:
    columns = learned(categorical=["colour", "children", "member"])
    rows = columns.table(columns.points(TABLE)[[0, 1, 3]])
    assert rows[:, 0].tolist()[0::2] == [1.5, 1.7] and np.isnan(rows[1, 0])
    assert rows[:, 1:].tolist() == [["red", 0, "True"], ["blue", 2, "False"], ["red", 0, "True"]]


def test_columns_are_kept_in_a_file(tmp_path: Path) -> None:
    columns = learned(categorical=["colour", "children", "member"])
    write_npz(tmp_path / "columns.npz", columns.arrays())
    again = Columns.read(tmp_path / "columns.npz")
    assert (again.names, again.categorical, again.named) == (columns.names, columns.categorical, True)
    for one, other in zip(again.categories, columns.categories, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_column_of_gaps_has_one_level_that_nobody_has() -> None:
    table = {"a": np.array(["", ""]), "b": np.array([1.0, 2.0])}
    columns = learned(table)
    assert columns.levels.tolist() == [1]
    np.testing.assert_array_equal(columns.points(table).codes, [[-1], [-1]])


@pytest.mark.parametrize(
    ("table", "categorical", "sentence"),
    [
        (TABLE, ["weight"], "categorical names the column 'weight', but the table has height, colour"),
        (TABLE, [4], "categorical names the column 4, but there are 4"),
        (TABLE, ["member"], "the column 'colour' holds words"),
        ({"id": np.arange(MOST_LEVELS + 1).astype(str)}, None, "hardly categorical"),
        (np.zeros(3), None, "Expected 2D array, got 1D array"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, categorical: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        learned(table, categorical)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"height": [1.0], "colour": ["red"], "children": [0]}, "should have a column 'member'"),
        (np.zeros((2, 3)), "X has 3 features, but DPMM is expecting 4 features"),
        (TABLE | {"height": np.array(["tall"] * 4)}, "the column 'height' should hold numbers"),
        (TABLE | {"height": np.array([1.0, np.inf, 1.0, 1.0])}, "the column 'height' holds infinity"),
    ],
)
def test_other_tables_are_refused(table: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        learned().points(table)
