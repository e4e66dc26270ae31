"""Chosen columns and several files: what is a feature, what names and labels the rows, and how files become one."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap.files import InputError, Selection, WordsInstead, read_data
from dpmmwrap.files.tables import delimiter_of


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_of_arrays_go_by_numbers(tmp_path: Path) -> None:
    X = np.arange(12.0).reshape(4, 3) % 5
    np.save(tmp_path / "x.npy", X)
    data = read_data(tmp_path / "x.npy", wanted=Selection(columns=("3", "1"), labels="2"))
    np.testing.assert_array_equal(data.X, X[:, [2, 0]])
    assert data.y is not None and data.y.tolist() == [1, 3, 2, 0]
    data = read_data(tmp_path / "x.npy", wanted=Selection(id="1"))
    assert data.ids is not None and data.ids.tolist() == ["0", "3", "1", "4"] and data.dim == 2
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix(X))
    data = read_data(tmp_path / "x.npz", kind="counts", wanted=Selection(drop=("2",), labels="3"))
    np.testing.assert_array_equal(data.X.toarray(), X[:, [0]])
    assert data.y is not None and len(set(data.y.tolist())) == 4
    with pytest.raises(InputError, match="should have a column '4', but it has 3 columns without names"):
        read_data(tmp_path / "x.npy", wanted=Selection(columns=("4",)))


def test_a_line_that_is_too_long_is_noticed_though_its_end_is_not_wanted(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "a,b,c", "1,2,3", "4,5,6,7")
    with pytest.raises(InputError, match="should hold 3 fields per line, but line 3 holds 4"):
        read_data(path, wanted=Selection(columns=("a",)))


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        (["a;b", "1,5;2,5", "3,5;4"], ";"),
        (["a\tb", "1\t2"], "\t"),
        (["a,b", "x;y,1", "z,2"], ","),
        (['"a;b",c', '"1;2",3'], ","),
        (["1,5;2,5", "2,5;1,5"], ";"),
        (["a", "b"], ","),
    ],
)
def test_what_stands_between_fields(lines: list[str], mark: str) -> None:
    assert delimiter_of(lines, ",;\t") == mark


def test_labels_of_several_files_are_numbered_together(tmp_path: Path) -> None:
    for name, y in (("a", ["cat", "dog"]), ("b", ["dog", "eel"])):
        np.savez(tmp_path / f"{name}.npz", X=np.eye(2), y=np.array(y))
    data = read_data([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert data.y is not None and data.y.tolist() == [0, 1, 1, 2]
    assert len(data) == 4
    np.savez(tmp_path / "b.npz", X=np.eye(2))
    with pytest.raises(InputError, match=r"b\.npz should name or label its rows like .*a\.npz"):
        read_data(tmp_path / "?.npz")


def test_tables_of_several_files(tmp_path: Path) -> None:
    """A column of words in one file is one in the others, too, and keeps what they say."""
    first = written(tmp_path / "a.csv", "size,code", "1,01", "2,02")
    second = written(tmp_path / "b.csv", "code,size", "x,3", "03,")
    data = read_data([first, second], kind="table")
    assert data.X["code"].tolist() == ["01", "02", "x", "03"]
    np.testing.assert_array_equal(data.X["size"], [1, 2, 3, np.nan])
    assert data.names == ("size", "code")


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    first = written(tmp_path / "a.csv", "a,b", "1,2", "3,4")
    for lines, said in (
        (("a,c", "1,2"), "should have a column 'b' like"),
        (("a,b,c", "1,2,3"), "has a column 'c', which"),
        (("1,2,3", "4,5,6"), "should have 2 columns like .*, but it has 3"),
        (("a,b", "x,y", "z,w"), "holds words"),
    ):
        with pytest.raises(InputError, match=said):
            read_data([first, written(tmp_path / "b.csv", *lines)])
    one = written(tmp_path / "b.csv", "1,2")
    assert read_data([first, one]).X.shape == (3, 2)
    assert read_data([first, first]).X.shape == (2, 2), "each file once"


def test_words_that_name_rows_are_told_from_categories(tmp_path: Path) -> None:
    lines = [f"p{number},{'xy'[number % 2]},{number % 5}" for number in range(20)]
    with pytest.raises(WordsInstead) as caught:
        read_data(written(tmp_path / "x.csv", "who,kind,size", *lines))
    assert (caught.value.columns, caught.value.distinct) == (("who", "kind"), ("who",))


@pytest.mark.parametrize(("first", "counted"), [(0, True), (1, True), (7, True), (None, False)])
def test_a_column_that_counts(tmp_path: Path, first: int | None, counted: bool) -> None:
    rng = np.random.default_rng(0)
    numbers = np.arange(30.0) + first if first is not None else rng.permutation(30)
    np.save(tmp_path / "x.npy", np.column_stack([rng.normal(size=30), numbers]))
    assert read_data(tmp_path / "x.npy").counting == (("2",) if counted else ())
