"""Tables with words and gaps: which columns hold numbers, which words, and what is a gap."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap.files import InputError, MissingValues, WordsInstead, read_data, read_names

TABLE = 'age,sex,note\n31,f,"so, so"\nNA,m,\n-2.5,,fine\n1e2,NaN,#4\n'


def written(tmp_path: Path, text: str, name: str = "x.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def message_of(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_data(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def read(path: Path, **options: Any) -> dict[str, list[Any]]:
    return {name: column.tolist() for name, column in read_data(path, kind="table", **options).X.items()}


def test_a_csv_with_words_and_gaps(tmp_path: Path) -> None:
    data = read_data(written(tmp_path, TABLE), kind="table")
    assert data.names == ("age", "sex", "note")
    assert (len(data), data.dim) == (4, 3)
    np.testing.assert_array_equal(data.X["age"], [31, np.nan, -2.5, 100])
    assert data.X["sex"].tolist() == ["f", "m", "", ""]
    assert data.X["note"].tolist() == ["so, so", "", "fine", "#4"]
    assert data.complete().tolist() == [True, False, False, False]
    assert {name: column.tolist() for name, column in data.only([0, 3]).X.items()}["sex"] == ["f", ""]


def test_a_csv_needs_neither_pandas_nor_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert read(written(tmp_path, TABLE))["sex"] == ["f", "m", "", ""]
    assert "pyarrow, which is not installed" in message_of(written(tmp_path, "PAR1", "x.parquet"), kind="table")


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b\nx,1\ny,2\n", ("a", "b"), 2),
        ("39, State-gov, 77516\n50, Private, 83311\n", None, 2),
        ("p,x,s,p\ne,x,y,a\ne,b,s,l\n", None, 3),
        ("colour,size\nred,big\nblue,small\n", ("colour", "size"), 2),
        (",colour,size\n0,red,1\n1,blue,2\n", ("colour", "size"), 2),
        ("name,1990,2000\nx,1,2\ny,3,4\n", None, 3),
        ("name,value,1990\nx,1,2\ny,3,4\n", ("name", "value", "1990"), 2),
        ("a,,c\n1,x,2\n3,y,4\n", ("a", "2", "c"), 2),
        ("# by hand\n\na;b\nx;1\n\ny;2\n", ("a", "b"), 2),
    ],
    ids=[
        "header",
        "no header",
        "twice a letter",
        "words only",
        "row names",
        "years",
        "years, named",
        "unnamed",
        "marks",
    ],
)
def test_whether_the_first_line_names_columns(
    tmp_path: Path, text: str, names: tuple[str, ...] | None, rows: int
) -> None:
    path = written(tmp_path, text)
    data = read_data(path, kind="table")
    assert data.names == names == read_names(path)
    assert len(data) == rows
    assert names is not None or list(data.X) == [str(number + 1) for number in range(data.dim)]


def test_columns_that_are_words_whatever_they_hold(tmp_path: Path) -> None:
    path = written(tmp_path, "zip,kind,size\n01234,1,3\n99,2,4\n")
    assert read(path, words=["zip", "2"]) == {"zip": ["01234", "99"], "kind": ["1", "2"], "size": [3, 4]}
    assert "should have a column 'town', but it has the columns zip, kind, size" in message_of(
        path, kind="table", words=["town"]
    )
    bare = written(tmp_path, "1,x\n2,y\n", "bare.csv")
    assert "should have a column '3', but it has 2 columns without names" in message_of(bare, kind="table", words=["3"])


def test_a_number_mistyped_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,x\n2,y\n\n3.o,z\n")
    data = read_data(path, kind="table")
    assert data.X["a"].tolist() == ["1", "2", "3.o"]
    assert data.notes == ("the column 'a' is read as words because line 5 holds '3.o', not a number",)
    assert read_data(path, kind="table", words=["a"]).notes == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,x\n2\n", "2 fields per line, but line 3 holds 1"),
        ("a,a\n1,x\n2,y\n", "name each column differently, but two are called 'a'"),
        ("a,b\n1,x\ninf,y\n", "row 2 of the column 'a' is infinity"),
        ("a,b\n1,x\n1e99,y\n", "row 2 of the column 'a' is 1e+99, which single precision cannot hold"),
        ("a,b\n1,x\n", "at least 2 points, but it holds 1"),
        ("a,b\n", "no rows"),
        ("", "empty"),
        ("a,b\n1," + "x" * 2000 + "\n2,y\n", "its column 'b' holds texts of up to 2,000 letters"),
        ("a,b\n1," + "x" * 200_000 + "\n2,y\n", "field larger than field limit"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path: Path, text: str, said: str) -> None:
    assert said in message_of(written(tmp_path, text), kind="table")


def test_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "age": [31.0, None, -2.5],
            "size": pandas.array([1, 2, None], dtype="Int64"),
            "code": [7, 8, 7],
            "sex": ["f", None, "m"],
            "kind": pandas.Categorical(["NA", "b", None]),
            "ill": pandas.array([True, None, False], dtype="boolean"),
        },
        index=[4, 2, 9],
    )
    frame.to_parquet(tmp_path / "x.parquet")
    table = read(tmp_path / "x.parquet", words=["code"])
    np.testing.assert_array_equal(table.pop("age"), [31, np.nan, -2.5])
    np.testing.assert_array_equal(table.pop("size"), [1, 2, np.nan])
    assert table == {
        "code": ["7", "8", "7"], "sex": ["f", "", "m"], "kind": ["", "b", ""], "ill": ["True", "", "False"],
    }  # fmt: skip
    frame.assign(when=pandas.Timestamp("2020-01-01")).to_parquet(tmp_path / "x.parquet")
    assert "its column 'when' holds dates, such as '2020-01-01" in message_of(tmp_path / "x.parquet", kind="table")
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(WordsInstead, match="its column 'sex' holds words, such as 'f'") as caught:
        read_data(tmp_path / "x.parquet", gaps=True)
    assert caught.value.columns == ("sex", "kind")


def test_an_array_as_a_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.array([[1, 2], [3, np.nan]]), y=np.array([0, 1]))
    data = read_data(tmp_path / "x.npz", kind="table")
    assert list(data.X) == ["1", "2"] and data.names is None
    assert data.y is not None
    assert data.complete().tolist() == [True, False]


# Gaps in files of numbers


@pytest.mark.parametrize("gap", ["", "NA", "NaN", "nan", "N/A", "null"])
def test_gaps_in_a_csv_of_numbers(tmp_path: Path, gap: str) -> None:
    path = written(tmp_path, f"a,b\n1,2\n{gap},4\n5,{gap}\n")
    data = read_data(path, gaps=True)
    np.testing.assert_array_equal(data.X, [[1, 2], [np.nan, 4], [5, np.nan]])
    assert data.names == ("a", "b")
    assert data.complete().tolist() == [True, False, False]
    with pytest.raises(MissingValues, match=r"(line 3|row 2), column 'a'"):
        read_data(path)


def test_gaps_in_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, np.nan], [2, 3]]))
    assert isinstance(read_data(tmp_path / "x.npy", gaps=True).X, np.memmap)
    with pytest.raises(MissingValues, match="row 1, column 2"):
        read_data(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([[1, np.nan], [2, -np.inf]]))
    assert "row 2, column 2, counted from 1, is minus infinity" in message_of(tmp_path / "x.npy", gaps=True)


def test_gaps_in_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "b": [1.5, 2.5]}).to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_data(tmp_path / "x.parquet", gaps=True).X, [[1, 1.5], [np.nan, 2.5]])
    assert "row 2, column 'a', is not a number" in message_of(tmp_path / "x.parquet")


def test_words_and_slips_among_gaps(tmp_path: Path) -> None:
    path = written(tmp_path, "id,a,b,c\n1,,x,u\n2,3,y,v\n")
    with pytest.raises(WordsInstead, match=r"column 'b' holds words, such as 'x' in line 2") as caught:
        read_data(path, gaps=True)
    assert caught.value.columns == ("b", "c")
    path = written(tmp_path, "x,1\ny,2\nz,3\n")
    with pytest.raises(WordsInstead, match="column 1 holds words, such as 'y' in line 2") as caught:
        read_data(path)
    assert caught.value.columns == ("1",)
    path = written(tmp_path, "a,b\n1,\n2,3.o\n4,5\n6,7\n")
    assert "line 3, column 'b' holds '3.o'" in message_of(path, gaps=True)
    assert "line 2 holds 1" in message_of(written(tmp_path, "1,\n2\n"), gaps=True)
