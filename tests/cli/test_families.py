"""`dpmmwrap fit` and `predict` for every family: diagonal and spherical clusters, counts, tables, and gaps in them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap import load
from dpmmwrap.cli import answers

QUICK = ("--init", "kmeans", "--init-clusters", 1, "--iterations", 15, "--backend", "native", "--chains", 1)
WRITTEN = {
    *("labels.csv", "labels.npy", "groups.npy", "model.npz", "trace.csv", "summary.json", "report.html"),
    *("clusters.png", "groups.png", "trace.png", "dpmmwrap-files.json"),
}
MIXED = ["age", "height", "sex", "colour", "code"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CHUNK_ROWS", 33)


def write_rows(path: Path, names: list[str] | None, rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        if names:
            table.writerow(names)
        table.writerows(rows)
    return path


def patients(gap: str = "") -> tuple[list[list[object]], np.ndarray]:
    """Two numeric and three categorical columns, one of which looks like numbers; every tenth row has a gap."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    rows = []
    for number, k in enumerate(truth):
        row: list[object] = [f"{rng.normal() + 9 * k:.3f}", f"{rng.normal() - 9 * (k == 1):.3f}"]
        row += ["fm"[int(rng.random() < 0.9 * (k == 2))], ["red", "dark blue", "green"][k], ["01", "2", "7"][k]]
        if number % 10 == 9:
            row[number // 10 % 5] = gap
        rows.append(row)
    return rows, truth


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows, truth = patients()
    np.savetxt(tmp_path / "truth.txt", truth, fmt="%d")
    return write_rows(tmp_path / "patients.csv", MIXED, rows)


# Covariances


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_covariances_by_name(run, summary_of, three: Path, tmp_path: Path, covariance: str) -> None:
    out = tmp_path / "out"
    summary = summary_of(three, "--covariance", covariance, "--out", out)
    assert (summary["family"], summary["covariance_type"]) == ("gaussian", covariance)
    assert summary["covariance_reason"] == "it was asked for"
    assert summary["ari"] == 1 and summary["missing"] == 0 and summary["categorical"] is None
    assert {path.name for path in out.iterdir()} == WRITTEN
    assert load(out / "model.npz").family == covariance
    labels = run("predict", out / "model.npz", three).out.split()
    np.testing.assert_array_equal(np.load(out / "labels.npy"), np.array(labels, dtype=int))


def test_the_reason_stands_in_the_table(run, gappy: Path) -> None:
    done = run("fit", gappy, *QUICK)
    assert "covariances: they make the data more probable than" in done.out
    assert f"missing        {np.isnan(np.load(gappy)).sum()} values" in done.out


def test_one_cluster_is_one_cluster(run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(50, 2)))
    done = run("fit", tmp_path / "x.npy", *QUICK, "--iterations", 1, "--max-clusters", 1)
    assert "1 iteration\n" in done.out


# Missing values


@pytest.mark.parametrize("ending", ["npy", "csv", "parquet"])
def test_gaps_are_clustered_with(run, summary_of, gappy: Path, tmp_path: Path, ending: str) -> None:
    X = np.load(gappy)
    path, out = gappy.with_suffix(f".{ending}"), tmp_path / "out"
    if ending == "csv":
        write_rows(path, ["a", "b", "c"], [["NA" if np.isnan(v) else v for v in row] for row in X.tolist()])
    elif ending == "parquet":
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.DataFrame(X, columns=list("abc")).to_parquet(path)
    for covariance in ("full", "diag", "spherical"):
        summary = summary_of(path, "--covariance", covariance, "--labels", tmp_path / "truth.npy", "--out", out)
        assert summary["missing"] == np.isnan(X).sum()
        assert summary["ari"] > 0.9
        assert {path.name for path in out.iterdir()} == WRITTEN
        assert len(run("predict", out / "model.npz", path).out.split()) == 180


def test_who_needs_every_value(run, gappy: Path) -> None:
    assert "principal components need every value: use --skip-missing" in run("fit", gappy, "--pca", 2).sentence
    assert "use --backend native, or --skip-missing" in run("fit", gappy, "--backend", "julia").sentence
    np.save(gappy, np.abs(np.load(gappy)))
    assert "NaN); use --skip-missing" in run("fit", gappy, "--family", "multinomial").sentence


def test_skipping_rows(run, summary_of, gappy: Path, tmp_path: Path) -> None:
    whole = ~np.isnan(np.load(gappy)).any(axis=1)
    out = tmp_path / "out"
    options = ("--covariance", "full", "--skip-missing", "--labels", tmp_path / "truth.npy", "--out", out)
    summary = summary_of(gappy, *options)
    assert (summary["skipped"], summary["points"], summary["missing"]) == ((~whole).sum(), whole.sum(), 0)
    assert summary["ari"] == 1
    np.testing.assert_array_equal(np.load(out / "rows.npy"), np.flatnonzero(whole))
    assert len(np.load(out / "labels.npy")) == whole.sum()
    assert f"left out       {(~whole).sum()} rows" in run("fit", gappy, *QUICK, *options[:3]).out
    assert len(run("predict", out / "model.npz", gappy).out.split()) == len(whole)
    page = (out / "report.html").read_text(encoding="utf-8")
    # Rows go by their numbers in the file.
    ids = json.loads(page.split('id="data">')[1].split("</script>")[0])["ids"]
    assert ids == [str(row + 1) for row in np.load(out / "rows.npy")]
    assert "Rows are counted from 1." in page
    assert "--skip-missing --out" in page.split('id="command">')[1]


def test_skipping_all_rows_or_none(run, summary_of, three: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, np.nan], [np.nan, 2], [3, 4]]))
    said = run("fit", tmp_path / "x.npy", "--skip-missing").sentence
    assert "at least 2 points without missing values, but it holds 1" in said
    assert summary_of(three, "--skip-missing", "--out", tmp_path / "out")["skipped"] == 0
    assert not (tmp_path / "out" / "rows.npy").exists()


def test_infinity_is_never_a_gap(run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, np.inf], [np.nan, 2], [3, 4]]))
    for option in ("--covariance=diag", "--skip-missing", "--family=mixed", "--family=multinomial"):
        assert "infinity" in run("fit", tmp_path / "x.npy", option).sentence


# Counts


def test_sparse_counts(run, summary_of, counts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = summary_of(counts, "--family", "multinomial", "--out", out)
    assert (summary["family"], summary["covariance_type"], summary["covariance_reason"]) == ("multinomial", None, None)
    assert (summary["points"], summary["dimensions"], summary["ari"]) == (150, 30, 1)
    assert {path.name for path in out.iterdir()} == WRITTEN
    labels = np.load(out / "labels.npy")
    assert [int(line) for line in run("predict", out / "model.npz", counts).out.split()] == labels.tolist()
    run("predict", out / "model.npz", counts, "--proba", "--out", tmp_path / "p.npy")
    np.testing.assert_allclose(np.load(tmp_path / "p.npy").sum(axis=1), 1)
    assert "150 points of 30 counts" in run("fit", counts, "--family", "multinomial", *QUICK).out


def test_scipys_own_file_and_dense_counts_are_the_same(run, summary_of, counts: Path, tmp_path: Path) -> None:
    with np.load(counts) as found:
        X = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), found["shape"])
        np.savetxt(tmp_path / "truth.txt", found["y"], fmt="%d")
    sparse.save_npz(tmp_path / "scipy.npz", X)
    np.savetxt(tmp_path / "dense.csv", X.toarray(), fmt="%d", delimiter=",")
    for name in ("scipy.npz", "dense.csv"):
        path = tmp_path / name
        summary = summary_of(
            path, "--family", "multinomial", "--labels", tmp_path / "truth.txt", "--out", tmp_path / name[:3]
        )
        assert summary["ari"] == 1
    assert (tmp_path / "sci" / "labels.npy").read_bytes() == (tmp_path / "den" / "labels.npy").read_bytes()
    # A model of counts takes either.
    assert len(run("predict", tmp_path / "sci" / "model.npz", tmp_path / "dense.csv").out.split()) == 150


def test_sparse_files_where_none_can_be_used(run, counts: Path, three: Path, tmp_path: Path) -> None:
    said = run("fit", counts).sentence
    assert "should hold points, but it holds a sparse matrix; sparse counts are for --family multinomial" in said
    assert "sparse counts are for --family multinomial" in run("fit", counts, "--family", "mixed").sentence
    run("fit", three, *QUICK, "--out", tmp_path / "out")
    assert "not multinomial" in run("predict", tmp_path / "out" / "model.npz", counts).sentence


def test_counts_of_other_words(run, counts: Path, tmp_path: Path) -> None:
    run("fit", counts, "--family", "multinomial", *QUICK, "--out", tmp_path / "out")
    sparse.save_npz(tmp_path / "wide.npz", sparse.csr_matrix(np.ones((3, 31))))
    said = run("predict", tmp_path / "out" / "model.npz", tmp_path / "wide.npz").sentence
    assert "30 features like the model, but it has 31" in said
    np.save(tmp_path / "x.npy", -np.ones((3, 30)))
    assert "whole numbers of 0 or more" in run("predict", tmp_path / "out" / "model.npz", tmp_path / "x.npy").sentence


# Tables


def test_a_table_by_itself(run, summary_of, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = summary_of(table, "--family", "mixed", "--labels", tmp_path / "truth.txt", "--out", out)
    assert (summary["family"], summary["covariance_type"]) == ("mixed", "diag")
    assert summary["categorical"] == ["sex", "colour", "code"]
    assert "used as categories, because they hold few different whole numbers: code" in summary["notes"][0]
    assert (summary["missing"], summary["dimensions"]) == (18, 5)
    assert summary["converted_from"] is None
    assert summary["ari"] > 0.95
    assert {path.name for path in out.iterdir()} == WRITTEN
    done = run("fit", table, "--family", "mixed", *QUICK)
    assert "180 points of 2 numeric and 3 categorical columns" in done.out
    assert "mixed, categorical: sex, colour, code" in done.out


def test_categorical_columns_by_name_and_number(run, summary_of, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = summary_of(table, "--categorical", "5, sex,colour", "--out", out)
    assert (summary["family"], summary["categorical"]) == ("mixed", ["sex", "colour", "code"])
    # As they stand in the file, not as numbers.
    assert load(out / "model.npz").columns.categories[2].tolist() == ["01", "2", "7"]  # type: ignore[union-attr]
    labels = run("predict", out / "model.npz", table).out.split()
    assert (np.load(out / "labels.npy") == np.array(labels, dtype=int)).mean() > 0.99


def test_tables_for_predict(run, table: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "out", tmp_path / "out" / "model.npz"
    run("fit", table, "--categorical", "sex,colour,code", *QUICK, "--out", out)
    expected = run("predict", model, table).out
    rows, _ = patients()
    order = [4, 2, 0, 3, 1]
    turned = write_rows(
        tmp_path / "turned.csv", [*(MIXED[i] for i in order), "more"], [[*(row[i] for i in order), 1] for row in rows]
    )
    assert run("predict", model, turned).out == expected
    bare = write_rows(tmp_path / "bare.csv", None, rows)
    assert run("predict", model, bare).out == expected
    # One level only, which looks like a number.
    one = write_rows(tmp_path / "one.csv", MIXED, rows[:1])
    assert run("predict", model, one).out == expected.splitlines()[0] + "\n"
    strange = write_rows(tmp_path / "strange.csv", MIXED, [[9.1, -0.2, "x", "dark blue", "2"]])
    assert len(run("predict", model, strange).out.split()) == 1
    few = write_rows(tmp_path / "few.csv", MIXED[1:], [row[1:] for row in rows])
    assert (
        "should have a column 'age' like the model, but it has the columns height"
        in run("predict", model, few).sentence
    )
    few = write_rows(tmp_path / "few.csv", None, [row[1:] for row in rows])
    assert "a column '5', but it has 4 columns without names" in run("predict", model, few).sentence
    more = write_rows(tmp_path / "more.csv", None, [[*row, 1] for row in rows])
    assert (
        "should have 5 columns like the model (age, height, sex, colour, code), but it has 6"
        in run("predict", model, more).sentence
    )
    wrong = write_rows(tmp_path / "wrong.csv", MIXED, [["old", 1, "f", "red", 2]] * 3)
    assert "'age'" in run("predict", model, wrong).sentence


def test_a_table_without_names(run, summary_of, tmp_path: Path) -> None:
    rows, truth = patients("NA")
    bare, out = write_rows(tmp_path / "bare.csv", None, rows), tmp_path / "out"
    np.savetxt(tmp_path / "truth.txt", truth, fmt="%d")
    summary = summary_of(bare, "--categorical", "3,4,5", "--labels", tmp_path / "truth.txt", "--out", out)
    assert summary["categorical"] == ["3", "4", "5"] and summary["ari"] > 0.95
    named = write_rows(tmp_path / "named.csv", MIXED, rows)
    assert run("predict", out / "model.npz", named).out == run("predict", out / "model.npz", bare).out


def test_parquet_tables(run, summary_of, table: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_csv(table, dtype={"code": str})
    frame.to_parquet(tmp_path / "patients.parquet")
    summaries = [
        summary_of(path, "--categorical", "sex,colour,code", "--out", tmp_path / path.suffix[1:])
        for path in (table, tmp_path / "patients.parquet")
    ]
    assert summaries[0]["log_posterior"] == summaries[1]["log_posterior"]
    model = tmp_path / "csv" / "model.npz"
    assert run("predict", model, table).out == run("predict", model, tmp_path / "patients.parquet").out


def test_columns_of_one_kind_only(run, summary_of, tmp_path: Path) -> None:
    rows, _ = patients()
    numbers = write_rows(tmp_path / "numbers.csv", MIXED[:2], [row[:2] for row in rows])
    words = write_rows(tmp_path / "words.csv", MIXED[2:4], [row[2:4] for row in rows])
    single = write_rows(tmp_path / "single.csv", MIXED[:1], [row[:1] for row in rows if row[0]])
    for path, categorical in ((numbers, []), (words, ["sex", "colour"]), (single, [])):
        out = tmp_path / path.stem
        assert summary_of(path, "--family", "mixed", "--out", out)["categorical"] == categorical
        assert {path.name for path in out.iterdir()} == WRITTEN
        assert run("predict", out / "model.npz", path).code == 0


def test_words_suggest_a_mixed_table(run, table: Path, tmp_path: Path) -> None:
    said = run("fit", table).sentence
    assert "column 'sex' holds words" in said
    assert "use --family mixed --categorical sex,colour, or --drop sex,colour" in said
    path = write_rows(tmp_path / "x.csv", ["a", "the kind"], [[1, "x"], [2, "y"]])
    assert "use --family mixed --categorical 'the kind', or --drop 'the kind'" in run("fit", path).sentence
    assert "use --drop 'the kind'" in run("fit", path, "--family", "multinomial").sentence


def test_columns_that_are_not_there_or_not_named(run, table: Path) -> None:
    said = run("fit", table, "--categorical", "sex,town").sentence
    assert "should have a column 'town', but it has the columns age, height, sex, colour, code" in said
    assert "the column 'colour' holds words" in run("fit", table, "--categorical", "sex").sentence


def test_a_mistyped_number_is_a_note(summary_of, tmp_path: Path) -> None:
    rows, _ = patients()
    rows[3][0] = "3.o"
    path = write_rows(tmp_path / "x.csv", MIXED, rows)
    notes = summary_of(path, "--family", "mixed")["notes"]
    assert "the column 'age' is read as words because line 5 holds '3.o', not a number" in notes
