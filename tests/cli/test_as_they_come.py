"""Tables as people have them, through the command line: nothing goes wrong without a word."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import load
from dpmmwrap.cli.preparing import column_notes
from dpmmwrap.files import Data

QUICK = ("--init", "kmeans", "--iterations", 40, "--backend", "native", "--chains", 1)
rng = np.random.default_rng(0)
TRUTH = np.repeat([0, 1, 2], 40)
X = (rng.normal(size=(120, 2)) @ [[1.0, 0.7], [0.0, 0.7]] + 12 * np.eye(3, 2)[TRUTH]).round(4)
KINDS = np.array(["red", "green", "blue"])[TRUTH]
pytestmark = pytest.mark.usefixtures("no_pictures")


def written(path: Path, header: list[str], rows: Any) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(header)
        table.writerows(rows)
    return path


def lines_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_an_id_or_a_text_is_no_category(run, summary_of, tmp_path: Path) -> None:
    names = [f"car {i % 90}" for i in range(120)]
    path = written(tmp_path / "x.csv", ["name", "a", "b", "kind"], zip(names, *X.T, KINDS, strict=True))
    summary = summary_of(path, "--family", "mixed", "--out", tmp_path / "out")
    # A quick search may end with one cluster too many; names taken for categories made a dozen of them.
    assert summary["categorical"] == ["kind"] and summary["n_clusters"] <= 4 and summary["dimensions"] == 3
    assert summary["notes"][0] == (
        "the column 'name' is left out: with 90 different words in 120 rows it is an id or a text, not a category; "
        "--categorical name would keep it, --id name names the rows by it"
    )
    # New rows need not have it.
    found = run("predict", tmp_path / "out" / "model.npz", path)
    assert found.out.split() == [line["cluster"] for line in lines_of(tmp_path / "out" / "labels.csv")]
    assert "name" not in load(tmp_path / "out" / "model.npz").columns.names  # type: ignore[union-attr]
    kept = summary_of(path, "--categorical", "name,kind")
    assert kept["categorical"] == ["name", "kind"]


@pytest.mark.parametrize("family", ["gaussian", "mixed"])
def test_dates_are_refused(run, tmp_path: Path, family: str) -> None:
    days = [f"2020-{1 + i % 12:02}-{1 + i // 12:02}" for i in range(120)]
    path = written(tmp_path / "x.csv", ["day", "a"], zip(days, X[:, 0], strict=True))
    said = run("fit", path, "--family", family).sentence
    assert "its column 'day' holds dates, such as '2020-01-01'; use --drop day, or --id day" in said
    assert run("fit", path, "--id", "day", *QUICK).code == 0


def test_dates_as_numbers_and_ids_are_noticed(run, tmp_path: Path) -> None:
    days, own = [20200100 + 100 * (i % 12) + 1 + i // 12 for i in range(120)], rng.permutation(10**6)[:120]
    path = written(tmp_path / "x.csv", ["day", "userId", "a", "b"], zip(days, own, *X.T, strict=True))
    said = run("fit", path, *QUICK).out
    assert "note: the column 'day' holds dates written as numbers, such as 20240131" in said
    assert "note: the column 'userId' numbers the rows, as an id does" in said and "--id userId" in said
    said = run("fit", path, "--drop", "day", "--id", "userId", *QUICK).out
    assert "note" not in said


def test_copied_rows_are_noticed() -> None:
    (note,) = column_notes(Data(np.repeat(X[:40], 3, axis=0)))
    assert note.startswith("only 40 of the 120 rows are different: each copy counts as a point")
    assert not column_notes(Data(X)) and not column_notes(Data(np.repeat(X[:40], 3, axis=0).round())), "by nature"


def test_a_line_of_totals_is_noticed() -> None:
    rounded = X.round(3)
    (note,) = column_notes(Data(np.vstack([rounded, rounded.sum(axis=0)])))
    assert note.startswith("the last row is the sum of all others, as totals are")
    gaps = np.vstack([rounded, rounded.sum(axis=0)])
    gaps[0] = np.nan
    for other in (rounded, gaps, 1e-9 * rounded, np.vstack([rounded, np.zeros(X.shape[1])])):
        assert not column_notes(Data(other))


def test_a_table_of_names_alone(run, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", ["a", "b"], [])
    assert run("fit", path).sentence == f"dpmmwrap: {path} should hold points, but it has no rows"


def test_codes_for_missing_values_are_noticed(run, summary_of, tmp_path: Path) -> None:
    coded = X.copy()
    coded[::9, 1] = -999
    path = written(tmp_path / "x.csv", ["a", "b"], coded)
    (note,) = [note for note in summary_of(path)["notes"] if "-999" in note]
    assert note.startswith("the column 'b' holds -999 far from all its other values")
    assert note.endswith("use --missing -999")
    summary = summary_of(path, "--missing", "-999")
    assert summary["missing"] == 14 and not any("-999" in note for note in summary["notes"])


def test_marks_for_missing_values(run, summary_of, tmp_path: Path) -> None:
    """As in the UCI repository's files, in which ? stands for a missing value."""
    years, signs = (np.array(["2007", "2008"])[TRUTH % 2], np.array(["+", "-"])[TRUTH % 2])
    first = ["?", "?", "-", *map(str, X[3:, 0])]
    rows = [*zip(first, X[:, 1], years, signs, KINDS, strict=True)]
    path = written(tmp_path / "x.csv", ["a", "b", "year", "sign", "kind"], rows)
    quick = summary_of(path, "--columns", "a,b")
    assert quick["missing"] == 3
    assert "'?' is read as a missing value in the column 'a'" in quick["notes"]
    assert "'-' is read as a missing value in the column 'a'" in quick["notes"]
    mixed = summary_of(path, "--family", "mixed", "--out", tmp_path / "out")
    assert mixed["missing"] == 3, "among words - is a word"
    assert mixed["categorical"] == ["year", "sign", "kind"]
    # Levels are written as in the file, also where a word of a new file makes the column one of words.
    assert "2007.0" not in (tmp_path / "out" / "report.html").read_text()
    others = written(
        tmp_path / "y.csv", ["a", "b", "year", "sign", "kind"], [("NA", "", row[2], "", "") for row in rows]
    )
    asked = run("predict", tmp_path / "out", others, "--proba", "--out", tmp_path / "p.npy")
    assert asked.code == 0, asked.err
    others.write_text(others.read_text() + "NA,,unknown,,\n")
    asked = run("predict", tmp_path / "out", others, "--proba", "--out", tmp_path / "q.npy")
    assert asked.code == 0, asked.err
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), np.load(tmp_path / "q.npy")[:-1])


def test_other_words_for_missing_values(run, summary_of, tmp_path: Path) -> None:
    table = np.array(X, dtype=str)
    table[:3] = "not done"
    path = written(tmp_path / "x.csv", ["a", "b"], table)
    advice = ": if that stands for a missing value, use --missing 'not done'"
    assert run("fit", path).sentence.endswith(f"line 2, column 'a' holds 'not done'; {advice[2:]}")
    notes = summary_of(path, "--family", "mixed")["notes"]
    said = "2 columns are read as words because line 2 of 'a', for example, holds 'not done', not a number"
    assert said + advice in notes
    assert summary_of(path, "--missing", "not done")["empty"] == 3


def test_units_behind_numbers(run, summary_of, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", ["a", "b"], ((f"{x:.1f} kg", y) for x, y in X))
    said = run("fit", path).sentence
    assert "column 'a' holds numbers with a unit, such as '" in said and said.endswith("leave out 'kg'")
    ages = written(tmp_path / "y.csv", ["a", "b", "age"], ((*x, f"{20 + i % 9}y") for i, x in enumerate(X)))
    notes = summary_of(ages, "--family", "mixed")["notes"]
    assert any("its numbers have a unit ('y')" in note for note in notes)
    others = written(tmp_path / "z.csv", ["a", "b", "c"], ((*x, f"{i % 9}th") for i, x in enumerate(X)))
    others.write_text(others.read_text().replace("1th", "1st"))
    assert not any("unit" in note for note in summary_of(others, "--family", "mixed")["notes"])


def test_a_mixed_table_without_categories(summary_of, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", ["title", "a", "b"], ((f"song {i}", *x) for i, x in enumerate(X)))
    notes = summary_of(path, "--family", "mixed")["notes"]
    assert any(note.endswith("--family gaussian also tries clusters in which they are correlated") for note in notes)


def test_few_whole_numbers_of_a_table_are_categories(run, summary_of, tmp_path: Path) -> None:
    grades = rng.integers(1, 6, 120)
    path = written(
        tmp_path / "x.csv", ["a", "sick", "grade", "kind"], zip(X[:, 0], TRUTH % 2, grades, KINDS, strict=True)
    )
    summary = summary_of(path, "--family", "mixed", "--scale")
    assert summary["categorical"] == ["sick", "grade", "kind"]
    assert (
        "used as categories, because they hold few different whole numbers: sick, grade (if they are none, name the "
        "categorical columns: --categorical)"
    ) in summary["notes"]
    assert summary_of(path, "--categorical", "kind")["categorical"] == ["kind"]


def test_logarithms(run, summary_of, tmp_path: Path) -> None:
    income = np.exp(np.random.default_rng(1).normal(8, 1.0, 300))
    age = np.random.default_rng(2).normal(40, 9, 300)
    path = written(tmp_path / "x.csv", ["income", "age"], zip(income, age, strict=True))
    plain = summary_of(path)
    (note,) = [note for note in plain["notes"] if "--log" in note]
    assert note.startswith("the column 'income' is so skewed") and note.endswith("--log income")
    out = tmp_path / "out"
    logged = summary_of(path, "--log", "income", "--out", out)
    assert logged["n_clusters"] == 1 < plain["n_clusters"] and logged["logged"] == ["income"]
    assert not any("--log" in note for note in logged["notes"])
    model = load(out / "model.npz")
    assert model.feature_names == ("log income", "age") and model.input_names == ("income", "age")
    assert model.means[0, 0] == pytest.approx(8, abs=0.2)
    assert run("predict", out / "model.npz", path).out.split() == ["0"] * 300
    bad = written(tmp_path / "bad.csv", ["income", "age"], [[0, 40], [5, 41]])
    assert (
        "the column 'income' should be above 0 for its logarithm, but it holds 0"
        in run("fit", bad, "--log", 1).sentence
    )
    assert "but it holds 0" in run("predict", out / "model.npz", bad).sentence


@pytest.mark.parametrize("mixed", [False, True])
def test_profiles_are_in_the_units_of_the_data(run, tmp_path: Path, mixed: bool) -> None:
    prices = np.exp(np.random.default_rng(1).normal(0, 0.3, 120) + np.array([3.0, 6.0, 9.0])[TRUTH])
    path = written(tmp_path / "x.csv", ["price", "kind"], zip(prices, KINDS if mixed else X[:, 0], strict=True))
    family = ("--family", "mixed") if mixed else ()
    done = run("fit", path, "--log", "price", "--scale", *family, *QUICK, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "prepared       logarithm of price, standardised" in done.out
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    # exp(9), and not 9 or 1.2.
    typical = np.exp(np.log(prices[TRUTH == 2]).mean())
    assert f"{typical:,.0f}" in page


def test_rows_and_columns_without_values(run, summary_of, tmp_path: Path) -> None:
    rows = [[a, b, "", 5] for a, b in X.tolist()]
    rows[7] = rows[50] = ["", "", "", ""]
    rows[60][:3] = ["", "", ""]
    path = written(tmp_path / "x.csv", ["a", "b", "c", "d"], rows)
    out = tmp_path / "out"
    summary = summary_of(path, "--out", out)
    assert summary["covariance_type"] == "full", "nothing that is clustered by is missing"
    assert (summary["n_clusters"], summary["empty"], summary["outliers"], summary["missing"]) == (3, 3, 0, 0)
    assert "3 rows have no value in the columns in use, and therefore no cluster" in summary["notes"][0]
    assert "constant columns (d) and columns without any value (c)" in summary["notes"][1]
    lines = lines_of(out / "labels.csv")
    assert [i for i, line in enumerate(lines) if line["cluster"] == "-1"] == [7, 50, 60]
    assert (lines[7]["probability"], lines[7]["outlier"]) == ("", "0")
    done = run("predict", out / "model.npz", path)
    assert done.out.split() == [line["cluster"] for line in lines]
    assert done.err.startswith("dpmmwrap: note: 3 rows have no value in the columns in use, and therefore")
    run("predict", out / "model.npz", path, "--out", tmp_path / "y.csv")
    assert lines_of(tmp_path / "y.csv")[50] == {"row": "51", "cluster": "-1", "probability": "", "outlier": "0"}
    assert summary_of(path, "--pca", 1, "--drop", "d")["empty"] == 3
    assert summary_of(path, "--covariance", "full", "--skip-missing")["points"] == 117


def test_a_row_without_values_needs_no_label(run, summary_of, tmp_path: Path) -> None:
    rows = [*zip(*X.T, KINDS, strict=True), ("", "", "")]
    path = written(tmp_path / "x.csv", ["a", "b", "kind"], rows)
    summary = summary_of(path, "--labels", "kind", "--out", tmp_path / "out")
    assert (summary["empty"], summary["true_clusters"], summary["ari"]) == (1, 3, 1.0)
    rows[5] = (*X[5], "")
    assert "but row 6 has none" in run("fit", written(path, ["a", "b", "kind"], rows), "--labels", "kind").sentence


def test_rows_without_values_in_mixed_tables(run, summary_of, tmp_path: Path) -> None:
    rows = [[a, b, kind] for a, b, kind in zip(*X.T, KINDS, strict=True)]
    rows[3] = rows[4] = rows[90] = ["", "", ""]
    path = written(tmp_path / "x.csv", ["a", "b", "kind"], rows)
    summary = summary_of(path, "--family", "mixed", "--out", tmp_path / "out")
    assert summary["n_clusters"] == 3 and summary["empty"] == 3
    labels = np.load(tmp_path / "out" / "labels.npy")
    assert np.flatnonzero(labels < 0).tolist() == [3, 4, 90]
    printed = run("predict", tmp_path / "out" / "model.npz", path).out.split()
    np.testing.assert_array_equal(np.array(printed, int), labels)


def test_a_missing_value_does_not_choose_the_covariances(summary_of, tmp_path: Path) -> None:
    rows = [[a, b] for a, b in X.tolist()]
    rows[7][0] = ""
    path = written(tmp_path / "x.csv", ["a", "b"], rows)
    summary, skipped = summary_of(path), summary_of(path, "--skip-missing")
    assert summary["missing"] == 1 and summary["covariance_type"] == skipped["covariance_type"] == "full"
    assert summary["n_clusters"] == skipped["n_clusters"]


def test_labels_beside_the_data(run, tmp_path: Path) -> None:
    names = [f"n{i}" for i in range(120)]
    path = written(tmp_path / "x.csv", ["name", "a", "b", "cluster"], zip(names, *X.T, KINDS, strict=True))
    options = ("--id", "name", "--drop", "cluster", *QUICK, "--out", tmp_path / "out", "--with-data")
    assert run("fit", path, *options).code == 0
    line = lines_of(tmp_path / "out" / "labels.csv")[5]
    assert [*line] == ["id", "cluster", "group", "probability", "outlier", "name", "a", "b", "data_cluster"]
    assert (line["id"], line["name"], line["a"], line["data_cluster"]) == ("n5", "n5", str(X[5, 0]), "red")
    assert "--with-data adds columns to labels.csv, and needs --out" in run("fit", path, "--with-data").sentence


def test_ids_that_are_not_distinct(run, tmp_path: Path) -> None:
    names = [f"n{i // 2}" for i in range(120)]
    path = written(tmp_path / "x.csv", ["name", "a", "b"], zip(names, *X.T, strict=True))
    done = run("fit", path, "--id", "name", *QUICK, "--out", tmp_path / "out")
    assert "note: some rows have the same name, so labels.csv also has the rows' numbers" in done.out
    line = lines_of(tmp_path / "out" / "labels.csv")[5]
    assert (line["row"], line["id"]) == ("6", "n2")


def test_the_largest_cluster_comes_first(run, tmp_path: Path) -> None:
    order = np.argsort(np.random.default_rng(3).random(120))
    few = [i for i in order if TRUTH[i] != 0 or i % 3 == 0]
    np.save(tmp_path / "x.npy", X[few][::-1])
    for more in ((), ("--draws", 5)):
        done = run("fit", tmp_path / "x.npy", *QUICK, *more, "--json", "--out", tmp_path / "out")
        sizes = json.loads(done.out)["sizes"]
        labels = np.load(tmp_path / "out" / "labels.npy")
        assert sizes == sorted(sizes, reverse=True) == np.bincount(labels).tolist()
        model = load(tmp_path / "out" / "model.npz")
        assert model.counts.tolist() == sizes
        np.testing.assert_array_equal(model.predict(X[few][::-1]), labels)


def test_rows_are_counted_from_1_on_the_page(run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    run("fit", tmp_path / "x.npy", *QUICK, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Rows are counted from 1." in page
    ids = json.loads(page[page.index('"ids":') + 6 :][: page[page.index('"ids":') + 6 :].index("]") + 1])
    assert ids[0] == "1" and ids[-1] == "120"


class Pipe:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_a_pipe_in(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.csv", ["a", "b"], X)
    np.save(tmp_path / "x.npy", X)
    for content in (path.read_bytes(), (tmp_path / "x.npy").read_bytes()):
        monkeypatch.setattr("sys.stdin", Pipe(content))
        done = run("fit", "-", *QUICK, "--out", tmp_path / "out")
        assert done.code == 0, done.err
        assert done.out.startswith("standard input: 120 points in 2 dimensions")
    monkeypatch.setattr("sys.stdin", Pipe(path.read_bytes()))
    assert len(run("predict", tmp_path / "out" / "model.npz", "-").out.split()) == 120
    monkeypatch.setattr("sys.stdin", Pipe(b"a,b\n1,2\n3,x\n5,6\n"))
    assert "dpmmwrap: standard input should hold numbers, but line 3" in run("fit", "-").sentence


def test_options_that_a_file_needs(run, tmp_path: Path) -> None:
    text = "größe;x\n" + "".join(f"{i},500;{i * i}\n" for i in range(1, 12))
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode("latin-1"))
    assert run("fit", path).sentence.endswith("it looks like latin-1; use --encoding latin-1")
    said = run("fit", path, "--encoding", "latin-1").sentence
    assert said.endswith("'1,500' may be 1500 or 1.5; use --thousands , or --decimal ,")
    assert run("fit", path, "--encoding", "latin-1", "--thousands", ",", *QUICK).code == 0
    assert "'klingon' is not a text encoding" in run("fit", path, "--encoding", "klingon").sentence
    assert "expected one character, tab or blank, not 'ab'" in run("fit", path, "--sep", "ab").sentence
    np.save(tmp_path / "x.npy", X)
    assert (
        "x.npy is not a text file: --sep and --encoding are for those"
        in run("fit", tmp_path / "x.npy", "--sep", ";").sentence
    )
    assert "x.npy has no sheets: --sheet is for Excel files" in run("fit", tmp_path / "x.npy", "--sheet", 2).sentence
    out = tmp_path / "out"
    run("fit", path, "--encoding", "latin-1", "--sep", ";", "--decimal", ",", *QUICK, "--out", out)
    assert "use --encoding latin-1" in run("predict", out / "model.npz", path).sentence
    assert run("predict", out / "model.npz", path, "--encoding", "latin-1", "--decimal", ",").code == 0


def test_predict_says_how_it_understood_a_file(run, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", ["a", "b"], [["mm", "$"], *((f"{a:.3f}", f"${b + 2000:,.2f}") for a, b in X)])
    assert run("fit", path, *QUICK, "--out", tmp_path / "out").code == 0
    done = run("predict", tmp_path / "out" / "model.npz", path)
    assert len(done.out.split()) == 120
    units, marks = done.err.splitlines()
    assert units.startswith("dpmmwrap: note: the line below the column names ('mm', '$')")
    assert marks.startswith("dpmmwrap: note: numbers are read without the marks in them: '$")


def test_small_things(run, three: Path, tmp_path: Path) -> None:
    assert "nope.npz should be a file, but it does not exist" in run("predict", "nope.npz", three).sentence
    np.save(tmp_path / "x.npy", np.array([[1, 2], [39.1, 4]]))
    said = run("fit", tmp_path / "x.npy", "--family", "multinomial").sentence
    assert "should hold counts, whole numbers of 0 or more, but row 2, column 1, counted from 1, is 39.1" in said
    assert "--device cuda is for the network" in run("fit", three, "--device", "cuda").sentence
