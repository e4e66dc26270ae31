"""Text and sheets as people write them: marks in numbers, comments, units, encodings, separators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap.files import (
    Data,
    Format,
    InputError,
    Selection,
    read_as_text,
    read_data,
)
from dpmmwrap.files.looks import holds_date_numbers, holds_dates
from dpmmwrap.files.numbers import is_number, read_number

ROWS = "\n".join(f"{i},{i * i}" for i in range(12)) + "\n"


def read(path: Path, text: str | bytes, kind: Any = "numbers", **format: Any) -> Data:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_data(path, kind=kind, gaps=True, wanted=Selection(format=Format(**format)))


@pytest.mark.parametrize("kind", ["numbers", "columns"])
def test_leading_zeros_are_those_of_codes(tmp_path: Path, kind: str) -> None:
    rows = [f"{i:02d},{1000 * i:05d},0.{i},0" for i in range(9, 19)]
    data = read(tmp_path / "codes.csv", "\n".join(["day,zip,share,none", *rows]), kind)
    assert data.notes == (
        "2 columns hold numbers with leading zeros, such as '09': if these are codes, use --drop day,zip, or "
        "--categorical day,zip",
    )
    assert read(tmp_path / "padded.csv", "\n".join(f"{i:03d},{i * i:03d}" for i in range(12)), kind).notes == ()
    (note,) = read(tmp_path / "one.csv", "zip\n" + "\n".join(f"{i:03d}" for i in range(12)), kind).notes
    assert note.startswith("the column 'zip' holds numbers with leading zeros, such as '000'")


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("3,750", ".", 3750),
        ("-1,234,567.5", ".", -1234567.5),
        ("$3,750.25", ".", 3750.25),
        ("-$5", ".", -5),
        ("12 €", ".", 12),
        ("12.5%", ".", 12.5),
        ("1'234.5", ".", 1234.5),
        ("1\u00a0234,5", ",", 1234.5),
        ("1.234,5", ",", 1234.5),
        ("3.750", ",", 3750),
        ("1e3", ".", 1000),
        ("1 234 567", ".", 1234567),
        ("1 234,5", ",", 1234.5),
        ("\u22125.5", ".", -5.5),
        ("(1,234)", ".", -1234),
        ("($5)", ".", -5),
        ("(0.5)", ".", -0.5),
    ],
)
def test_numbers(text: str, decimal: str, value: float) -> None:
    assert read_number(text, decimal)[0] == value


@pytest.mark.parametrize(
    "text",
    [
        "3,75",
        "0,125",
        "1_000",
        "$",
        "5$%",
        "--5",
        "$5$",
        "12%%",
        "1,23,456",
        "5 kg",
        "1.5,0",
        "1 2",
        "12 34",
        "(-5)",
        "(a)",
        "()",
        "(5",
    ],
)
def test_no_numbers(text: str) -> None:
    assert not is_number(text)
    assert not is_number("1.5", ","), "a point is no decimal mark there"


def test_brackets_and_blanks(tmp_path: Path) -> None:
    data = read(tmp_path / "x.csv", "a;b\n(1);1 200\n2;3 400\n\u22123;1\n")
    np.testing.assert_array_equal(data.X, [[-1, 1200], [2, 3400], [-3, 1]])
    assert data.notes == ("numbers are read without the marks in them: '(1)' as -1, '1 200' as 1200",)
    with pytest.raises(InputError, match=r"'\(3,750\)' may be -3750 or -3.75"):
        read(tmp_path / "x.csv", "a;b\n(3,750);1\n(1,250);2\n")
    blanks = read(tmp_path / "y.txt", "a b\n1 200\n2 300\n3 400\n")
    assert blanks.X.shape == (3, 2), "between columns"


@pytest.mark.parametrize("kind", ["numbers", "table"])
def test_thousands_between_commas(tmp_path: Path, kind: Any) -> None:
    data = read(tmp_path / "x.csv", 'price,share\n"3,750",12%\n"$1,200,000",5%\n980,7.5%\n', kind)
    columns = data.X if isinstance(data.X, dict) else dict(zip(data.names or (), data.X.T, strict=True))
    np.testing.assert_array_equal(columns["price"], [3750, 1_200_000, 980])
    np.testing.assert_array_equal(columns["share"], [12, 5, 7.5])
    (note,) = data.notes
    assert note == ("numbers are read without the marks in them: '3,750' as 3750, '$1,200,000' as 1200000, '12%' as 12")


@pytest.mark.parametrize("kind", ["numbers", "table"])
def test_what_may_be_thousands_or_decimals_is_asked(tmp_path: Path, kind: Any) -> None:
    text = "a;b\n3,750;1\n2,125;2\n4,500;3\n"
    with pytest.raises(InputError, match=r"'3,750' may be 3750 or 3.75"):
        read(tmp_path / "x.csv", text, kind)
    for format, value in (({"thousands": ","}, 3750), ({"decimal": ","}, 3.75)):
        data = read(tmp_path / "x.csv", text, kind, **format)
        assert (data.X["a"] if isinstance(data.X, dict) else data.X[:, 0])[0] == value


def test_signs_that_do_not_go_together(tmp_path: Path) -> None:
    for text in ("a,b\n12%,1\n0.12,2\n", "a,b\n$5,1\n€5,2\n"):
        with pytest.raises(InputError, match="one kind in its column 'a'"):
            read(tmp_path / "x.csv", text)


def test_comments_are_whole_lines(tmp_path: Path) -> None:
    text = '# by hand\nname,x\n"Animated Motion #5",1\nFilm #6,2\n# between\n#7,3\nb,4\n'
    data = read(tmp_path / "x.csv", text, "table")
    assert data.X["name"].tolist() == ["Animated Motion #5", "Film #6", "b"]
    np.testing.assert_array_equal(data.X["x"], [1, 2, 4])
    np.testing.assert_array_equal(read(tmp_path / "x.csv", "a,b\n1,2\n# no\n3,4\n").X, [[1, 2], [3, 4]])
    with pytest.raises(InputError, match="line 3, column 'b' holds '4 # four'"):
        read(tmp_path / "x.csv", "a,b\n1,2\n3,4 # four\n5,6\n")


@pytest.mark.parametrize("kind", ["numbers", "table"])
def test_units_under_the_names(tmp_path: Path, kind: Any) -> None:
    data = read(tmp_path / "x.csv", f"width,weight\nmm,kg\n{ROWS}", kind)
    assert len(data) == 12 and data.names == ("width", "weight")
    assert data.notes == ("the line below the column names ('mm', 'kg') is treated as units and left out",)
    # A slip is none.
    with pytest.raises(InputError, match="line 2, column 'width' holds 'mm'"):
        read(tmp_path / "x.csv", f"width,weight\nmm,5\n{ROWS}")


@pytest.mark.parametrize("kind", ["numbers", "table"])
def test_a_title_above_the_names(tmp_path: Path, kind: Any) -> None:
    title = "the text above the column names ('March, 2024') is treated as a title and left out"
    below = ROWS.replace(",", ";")
    data = read(tmp_path / "x.csv", f"March, 2024\nall of it\n\nwidth;weight\n{below}", kind)
    assert len(data) == 12 and data.names == ("width", "weight") and data.notes == (title,)
    data = read(tmp_path / "x.csv", f"March, 2024\n\nwidth;weight\nmm;kg\n{below}", kind)
    assert len(data) == 12 and data.names == ("width", "weight") and data.notes[0] == title and len(data.notes) == 2
    # One column of decimal commas has no title.
    with pytest.raises(InputError, match="1 fields per line"):
        read(tmp_path / "x.csv", "x\n1,5\n2,5\n3,5\n", kind)
    assert np.ravel([*read(tmp_path / "x.csv", "x\n1,5\n2,5\n", decimal=",").X]).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("kind", ["numbers", "table"])
def test_one_field_more_than_names(tmp_path: Path, kind: Any) -> None:
    """Rows that R names, and rows that end in a comma."""
    rows = ROWS.splitlines()
    data = read(
        tmp_path / "x.csv", "width,weight\n" + "".join(f'"row {i}",{row}\n' for i, row in enumerate(rows)), kind
    )
    assert data.names == ("width", "weight") and data.ids is not None and data.ids[3] == "row 3"
    blanks = "".join(f'"row {i}" {row}\n'.replace(",", " ") for i, row in enumerate(rows))
    data = read(tmp_path / "x.csv", f"width weight\n{blanks}", kind)
    assert data.names == ("width", "weight") and data.ids is not None and data.ids[3] == "row 3"
    data = read(tmp_path / "x.csv", "width,weight\n" + "".join(f"{row},\n" for row in rows), kind)
    assert data.names == ("width", "weight", "3") and data.ids is None and len(data) == 12


DATES = "2020-01-31", "31.1.2020", "1/31/20 12:00 AM", "31 Jan 2020", "January 31, 2020", "5-May-21", "2020-01", "12:30"


@pytest.mark.parametrize("text", DATES)
def test_dates(text: str) -> None:
    assert holds_dates([text, "", text, "unknown"])
    assert not holds_dates([text, "a", "b"])


@pytest.mark.parametrize("text", ["marble 12", "May", "mar 5", "A-2020-1", "1-2", ""])
def test_no_dates(text: str) -> None:
    assert not holds_dates([text, text])


def test_dates_as_numbers() -> None:
    days = np.array([20240100 + day for day in range(1, 29)], dtype=float)
    assert holds_date_numbers(days) and holds_date_numbers(np.append(days, np.nan))
    assert not holds_date_numbers(days + 0.5) and not holds_date_numbers(days + 50) and not holds_date_numbers(days[:5])


def test_units_above_decimal_commas(tmp_path: Path) -> None:
    text = "width;price\nmm;€\n" + "".join(f"{i},5;{i}.000,5\n" for i in range(1, 12))
    with pytest.raises(InputError, match="column 'width' holds '1,5'"):
        read(tmp_path / "x.csv", text)
    data = read(tmp_path / "x.csv", text, decimal=",")
    assert data.X[0].tolist() == [1.5, 1000.5] and len(data.notes) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = f"größe{'€' if encoding == 'cp1252' else ''},x\n{ROWS}".encode(encoding)
    with pytest.raises(InputError, match=f"it looks like {encoding}"):
        read(tmp_path / "x.csv", text)
    data = read(tmp_path / "x.csv", text, encoding=encoding)
    assert len(data) == 12 and (data.names or "")[0].startswith("größe")


@pytest.mark.parametrize(
    ("mark", "asked"), [("|", None), ("|", "|"), ("   ", None), (" ", " "), ("\t ", " "), ("!", "!")]
)
def test_separators(tmp_path: Path, mark: str, asked: str | None) -> None:
    data = read(tmp_path / "x.csv", f"a,b\n{ROWS}".replace(",", mark), separator=asked)
    assert data.names == ("a", "b")
    np.testing.assert_array_equal(data.X[:, 1], np.arange(12) ** 2)


def test_blanks_and_quotes(tmp_path: Path) -> None:
    data = read(tmp_path / "x.csv", 'name x\n"a b"  1\nc    2\n', "table", separator=" ")
    assert data.X["name"].tolist() == ["a b", "c"]


def test_what_stands_for_a_missing_value(tmp_path: Path) -> None:
    text = "a,b\n1,-999\n-999.0,2\n?,3\n"
    for kind in ("numbers", "table"):
        X = read(tmp_path / "x.csv", text, kind, missing=("-999", "?")).X
        found = np.column_stack([*X.values()]) if isinstance(X, dict) else X
        np.testing.assert_array_equal(found, [[1, np.nan], [np.nan, 2], [np.nan, 3]])
    np.save(tmp_path / "x.npy", np.array([[1, -999], [3, 4]]))
    data = read_data(tmp_path / "x.npy", gaps=True, wanted=Selection(format=Format(missing=("-999",))))
    np.testing.assert_array_equal(data.X, [[1, np.nan], [3, 4]])


def test_sheets_by_name_and_number(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["only", "words"])
    sheet = book.create_sheet("Points")
    for row in (["a", "b"], ["mm", "kg"], [1, 2], [3, 4], [5, 6]):
        sheet.append(row)
    book.save(tmp_path / "x.xlsx")
    for asked in ("Points", "2"):
        data = read_data(tmp_path / "x.xlsx", wanted=Selection(format=Format(sheet=asked)))
        np.testing.assert_array_equal(data.X, [[1, 2], [3, 4], [5, 6]])
    with pytest.raises(InputError, match="should have a sheet 'x', but it has Sheet, Points"):
        read_data(tmp_path / "x.xlsx", wanted=Selection(format=Format(sheet="x")))


def test_all_columns_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('when,price,n\n2020-01-01,"$3,750",01\n2020-01-02,NA,2\n')
    found = read_as_text(tmp_path / "x.csv")
    assert {name: column.tolist() for name, column in found.items()} == {
        "when": ["2020-01-01", "2020-01-02"], "price": ["$3,750", ""], "n": ["01", "2"],
    }  # fmt: skip
    np.save(tmp_path / "x.npy", np.array([[1.0, 2.5]]))
    assert {name: column.tolist() for name, column in read_as_text(tmp_path / "x.npy").items()} == {
        "1": ["1"],
        "2": ["2.5"],
    }
