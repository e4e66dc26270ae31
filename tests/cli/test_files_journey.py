"""From files as people have them to answers: each test is the way of one user, through the command line."""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import load
from dpmmwrap.files import Selection, read_data

QUICK = ("--init", "kmeans", "--iterations", 15, "--backend", "native", "--chains", 1)
pytestmark = pytest.mark.usefixtures("no_pictures")
SPECIES = ("setosa", "virginica", "versicolor")


def flowers() -> tuple[np.ndarray, np.ndarray]:
    """Three kinds that no one could miss, in two columns of quite different units."""
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat([0, 1, 2], 40))
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [5.0, 9.0]])
    return ((rng.normal(size=(120, 2)) + centres[truth]) * [1.0, 1000.0]).round(4), truth


X, TRUTH = flowers()


def lines(mark: str = ",", decimal: str = ".", rows: slice = slice(None)) -> list[str]:
    """id, width, height, species, found: two features among columns that are none."""
    header = mark.join(["id", "width", "height", "species", "found"])
    numbers = [[str(value).replace(".", decimal) for value in row] for row in X.tolist()]
    table = [
        mark.join([f"f{i:03}", *numbers[i], SPECIES[TRUTH[i]], f"2020-{1 + i % 12:02}-{1 + i // 12:02}"])
        for i in range(120)[rows]
    ]
    return [header, *table]


def written(path: Path, text: list[str]) -> Path:
    content = ("\n".join(text) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    named = {"id": [f"f{i:03}" for i in range(120)], "width": X[:, 0], "height": X[:, 1]}
    return pandas.DataFrame(named | {"species": [SPECIES[k] for k in TRUTH], "found": [str(i) for i in range(120)]})


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


OPTIONS = ("--id", "id", "--labels", "species", "--drop", "found")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one fit, and its file, which others read in other formats."""
    from dpmmwrap import cli

    folder = tmp_path_factory.mktemp("flowers")
    path = written(folder / "flowers.csv", lines())
    words = ["fit", path, *OPTIONS, *QUICK, "--quiet", "--out", folder / "result"]
    assert cli.run([str(word) for word in words]) == 0
    return folder


@pytest.mark.parametrize("ending", ["csv.gz", "semicolons", "tsv", "decimal", "parquet", "feather", "xlsx", "parts"])
def test_the_same_table_in_every_format(run, result: Path, tmp_path: Path, ending: str) -> None:
    options: tuple[object, ...] = ()
    path: object = tmp_path / f"x.{ending}"
    if ending in ("parquet", "feather", "xlsx"):
        pytest.importorskip("openpyxl" if ending == "xlsx" else "pyarrow")
        write = {"parquet": "to_parquet", "feather": "to_feather", "xlsx": "to_excel"}[ending]
        getattr(frame(), write)(path, **({"index": False} if ending == "xlsx" else {}))
    elif ending == "parts":
        written(tmp_path / "a.csv", lines(rows=slice(70)))
        turned = [",".join(reversed(line.split(","))) for line in lines(rows=slice(70, 120))]
        written(tmp_path / "b.csv", turned)
        path = tmp_path / "*.csv"
    elif ending == "decimal":
        path, options = written(tmp_path / "x.csv", lines(";", ",")), ("--decimal", ",")
    else:
        mark = {"semicolons": ";", "tsv": "\t"}.get(ending, ",")
        path = written(tmp_path / f"x.{'csv' if ending == 'semicolons' else ending}", lines(mark))
    done = run("fit", path, *OPTIONS, *QUICK, *options, "--json", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["nmi"] > 0.95 and summary["true_clusters"] == 3 and summary["dimensions"] == 2
    assert (tmp_path / "out" / "labels.csv").read_bytes() == (result / "result" / "labels.csv").read_bytes()


def test_labels_csv_answers_for_each_row(run, result: Path, tmp_path: Path) -> None:
    folder = result / "result"
    answers, labels = table_of(folder / "labels.csv"), np.load(folder / "labels.npy")
    assert list(answers[0]) == ["id", "cluster", "group", "probability", "outlier"]
    assert [answer["id"] for answer in answers] == [f"f{i:03}" for i in range(120)]
    assert [int(answer["cluster"]) for answer in answers] == labels.tolist()
    assert {answer["outlier"] for answer in answers} == {"0"}
    mixture = load(folder / "model.npz")
    assert mixture.feature_names == mixture.input_names == ("width", "height")
    sure = mixture.predict_proba(X)[np.arange(120), labels]
    np.testing.assert_allclose([float(answer["probability"]) for answer in answers], sure, rtol=1e-5)
    # New rows: the model finds its columns by their names, among others and in any order.
    new = written(tmp_path / "new.csv", ["height,more,name,width", "1.0,5,a,0.5", "9000,5,b,5.2"])
    done = run("predict", folder / "model.npz", new, "--id", "name", "--out", tmp_path / "answers.csv")
    assert done.code == 0, done.err
    found = table_of(tmp_path / "answers.csv")
    assert list(found[0]) == ["id", "cluster", "probability", "outlier"] and [row["id"] for row in found] == ["a", "b"]
    assert [int(row["cluster"]) for row in found] == mixture.predict(np.array([[0.5, 1.0], [5.2, 9000]])).tolist()
    again = run("predict", folder / "model.npz", result / "flowers.csv", "--id", "id", "--out", tmp_path / "same.csv")
    assert again.code == 0, again.err
    assert [row["id"] for row in table_of(tmp_path / "same.csv")] == [row["id"] for row in answers]
    # And says which of them are not there.
    few = written(tmp_path / "few.csv", ["width,weight", "1,2", "3,4"])
    said = run("predict", folder / "model.npz", few).sentence
    assert "should have a column 'height' like the model, but it has the columns width, weight" in said
    np.save(tmp_path / "three.npy", np.zeros((4, 3)))
    said = run("predict", folder / "model.npz", tmp_path / "three.npy").sentence
    assert "should have 2 features like the model (width, height), but it has 3" in said
    with pytest.raises(ValueError, match=r"X should have 2 columns like the model \(width, height\), but it has 3"):
        mixture.predict(np.zeros((4, 3)))
    assert len(run("predict", folder / "model.npz", tmp_path / "three.npy", "--columns", "1,3").out.split()) == 4


def test_outliers_and_rows_that_are_left_out(run, tmp_path: Path) -> None:
    """Row numbers are those of the file."""
    text = lines()[:61]
    text[3] = "f002,,1,setosa,x"
    text[5] = "f004,1,2,,x"
    path = written(tmp_path / "x.csv", [*text, "far,1e6,-1e9,setosa,x"])
    options = ("--columns", "width,height", "--labels", "species", "--skip-missing", "--outlier-weight", 0.01)
    done = run("fit", path, *options, *QUICK, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "left out       2 rows with missing values" in done.out
    answers = table_of(tmp_path / "out" / "labels.csv")
    assert list(answers[0]) == ["row", "cluster", "group", "probability", "outlier"]
    assert [int(answer["row"]) for answer in answers] == [i for i in range(1, 62) if i not in (3, 5)]
    assert answers[-1]["outlier"] == "1" and answers[-1]["cluster"] == "-1"
    model = tmp_path / "out" / "model.npz"
    assert run("predict", model, path, "--proba", "--out", tmp_path / "p.csv").code == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 62
    whole = written(tmp_path / "whole.csv", [lines()[0], "far,1e6,-1e9,setosa,x", lines()[1]])
    assert run("predict", model, whole, "--proba", "--out", tmp_path / "p.csv").code == 0
    header, far, near = (tmp_path / "p.csv").read_text().splitlines()
    assert header.startswith("row,cluster_0") and header.endswith(",outlier")
    assert float(far.split(",")[-1]) > 0.9 and float(near.split(",")[-1]) < 0.1
    said = run("fit", path, *options[:4], *QUICK, "--covariance", "diag").sentence
    assert "should hold a label for each row, but row 5 has none; --skip-missing leaves out such rows" in said


def test_prepared_features(run, tmp_path: Path) -> None:
    """What was done before the fit is done before a prediction, too."""
    path = written(tmp_path / "x.csv", lines())
    out = tmp_path / "out"
    for options, names, said in (
        (("--scale",), ("width", "height"), "standardised"),
        (("--scale", "--pca", 1), ("PC1",), "standardised, 1 principal component"),
    ):
        done = run("fit", path, *OPTIONS, *options, *QUICK, "--out", out)
        assert done.code == 0, done.err
        assert f"prepared       {said}\n" in done.out
        mixture = load(out / "model.npz")
        assert mixture.feature_names == names and mixture.input_names == ("width", "height")
        assert np.abs(mixture.means).max() < 5
        labels = np.load(out / "labels.npy")
        assert (mixture.predict(X) == labels).mean() > 0.97
        printed = run("predict", out / "model.npz", path).out.split()
        assert printed == [str(label) for label in mixture.predict(X)]
    mixed = run("fit", path, "--scale", "--drop", "id,found", "--categorical", "species", *QUICK, "--out", out)
    assert mixed.code == 0, mixed.err
    found = np.array(run("predict", out / "model.npz", path).out.split(), dtype=int)
    assert (found == np.load(out / "labels.npy")).mean() > 0.97
    assert "--pca is for --family gaussian, not mixed" in run("fit", path, "--family", "mixed", "--pca", 1).sentence
    gap = written(tmp_path / "gap.csv", ["a,b,c", "1,2,3", "4,,6", "7,8,9"])
    assert "principal components need every value" in run("fit", gap, "--pca", 2).sentence


def test_what_is_said_of_columns(run, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", lines())
    said = run("fit", path).sentence
    assert "column 'id' holds words, such as 'f000' in line 2" in said
    assert "; use --family mixed --categorical species --drop id,found, or --drop id,species,found, or" in said
    assert said.endswith("or --id id if that names the rows")
    said = run("fit", path, "--drop", "id,date").sentence
    assert "should have a column 'date', but it has the columns id, width, height, species, found" in said
    said = run("fit", path, "--columns", "width,height", "--labels", "id").sentence
    assert "--labels id should hold the classes of the points, but all 120 points have different ones" in said
    assert "it does not exist" in run("fit", path, "--columns", "2,3", "--labels", "none.csv").sentence
    said = run("fit", path, "--columns", "id", "--drop", "id").sentence
    assert "should have columns to cluster by, but none of its 5 is left" in said
    commas = written(tmp_path / "commas.csv", lines(";", ","))
    said = run("fit", commas, "--columns", "width,height").sentence
    assert "column 'width' holds" in said and said.endswith("for decimal commas use --decimal ,")
    assert "for decimal commas use" in run("fit", commas, "--categorical", "species").sentence
    said = run("fit", commas).sentence
    assert "column 'width' holds" in said and said.endswith("for decimal commas use --decimal ,")
    points = written(tmp_path / "points.csv", ["a;b", "1.23,5;1", "2,5;3"])
    assert "column 'a' holds '1.23,5'" in run("fit", points, "--decimal", ",").sentence
    nothing = run("fit", tmp_path / "*.npy").sentence
    assert "should match a file, but it matches none" in nothing
    other = written(tmp_path / "other.csv", ["id,width,depth", "a,1,2", "b,3,4"])
    said = run("fit", path, other, "--drop", "id,species,found").sentence
    assert "should have a column 'species'" in said


def test_columns_that_count_the_rows_are_noticed(run, tmp_path: Path) -> None:
    numbers = [f"{i},{a},{b}" for i, (a, b) in enumerate(X.tolist())]
    path = written(tmp_path / "x.csv", ["Id,width,height", *numbers])
    done = run("fit", path, *QUICK)
    assert "note: the column 'Id' numbers the rows" in done.out
    assert "--drop Id leaves it out, --id Id names the rows by it" in done.out
    assert "numbers the rows" not in run("fit", path, "--drop", "Id", *QUICK).out
    unnamed = written(tmp_path / "pandas.csv", [",width,height", *numbers])
    done = run("fit", unnamed, *QUICK, "--out", tmp_path / "out")
    assert "note: the first column has no name: it is used as names of the rows" in done.out
    assert table_of(tmp_path / "out" / "labels.csv")[7]["id"] == "7"


def test_extras_that_are_not_installed(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "pyarrow", "openpyxl"):
        monkeypatch.setitem(sys.modules, name, None)
    for ending, reader in (("xlsx", "openpyxl"), ("feather", "pyarrow"), ("parquet", "pyarrow")):
        (tmp_path / f"x.{ending}").write_bytes(b"anything")
        said = run("fit", tmp_path / f"x.{ending}").sentence
        assert f"is read by {reader}, which is not installed (pip install 'dpmmwrap[files]')" in said
    path = written(tmp_path / "x.csv.gz", lines())
    # Nothing of a fit is tried here: scikit-learn looks for pandas among the modules.
    data = read_data(path, wanted=Selection(drop=("found",), id="id", labels="species"))
    np.testing.assert_array_equal(data.X, X)


def test_sheets(run, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], *X.tolist()):
        book.active.append(row)
    book.active.title = "Points"
    book.create_sheet("Notes")
    book.save(tmp_path / "x.xlsx")
    done = run("fit", tmp_path / "x.xlsx", *QUICK)
    assert done.code == 0, done.err
    assert "has 2 sheets, and the first, 'Points', is read" in done.out
    book.move_sheet("Notes", -1)
    for row in (["who", "when"], ["somebody", "today"], ["nobody", "later"]):
        book["Notes"].append(row)
    book.save(tmp_path / "x.xlsx")
    said = run("fit", tmp_path / "x.xlsx").sentence
    assert "(its first sheet, 'Notes'; --sheet reads another) should hold" in said
    book["Points"].insert_rows(1, 2)
    book["Points"]["A1"] = "Measured in March"
    book.save(tmp_path / "x.xlsx")
    done = run("fit", tmp_path / "x.xlsx", "--sheet", "Points", *QUICK)
    assert "120 points in 2 dimensions" in done.out and "('Measured in March') is treated as a title" in done.out


def test_text_by_any_name(run, tmp_path: Path) -> None:
    """What R writes by `write.table`, and a table whose name ends in .dat."""
    rows = [f'"{i}" {a} {b}' for i, (a, b) in enumerate(X.tolist(), start=1)]
    done = run("fit", written(tmp_path / "x.txt", ['"a" "b"', *rows]), *QUICK, "--out", tmp_path / "out")
    assert "120 points in 2 dimensions" in done.out and "it is used as names of the rows" in done.out
    assert table_of(tmp_path / "out" / "labels.csv")[7]["id"] == "8"
    done = run("fit", written(tmp_path / "x.dat.gz", [f"{a}\t{b}" for a, b in X.tolist()]), *QUICK)
    assert "120 points in 2 dimensions" in done.out


def test_evaluate_reads_as_fit_does(run, tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", [*lines(), "f120,,1,setosa,x"])
    methods = ("--methods", "K-means", "--runs", 1, "--out", tmp_path / "out")
    said = run("evaluate", "data", path, "--labels", "species", *methods).sentence
    assert "holds words, such as 'f000' in line 2; use --drop id,found, or --id id" in said
    assert "--skip-missing leaves out such rows" in run("evaluate", "data", path, *OPTIONS, *methods).sentence
    done = run("evaluate", "data", path, *OPTIONS, "--skip-missing", "--scale", *methods)
    assert done.code == 0, done.err
    assert "note: 1 row with missing values left out" in done.err
    (row,) = table_of(tmp_path / "out" / "results.csv")
    assert (row["points"], row["dim"], row["clusters"], row["labels"]) == ("120", "2", "3", "species")


def test_evaluate_takes_categories_as_indicators(run, tmp_path: Path) -> None:
    kinds = ["a", "b", "c"]
    rows = [f"{a},{kinds[TRUTH[i]]},{i % 2},{SPECIES[TRUTH[i]]}" for i, (a, _) in enumerate(X.tolist())]
    path = written(tmp_path / "x.csv", ["width,kind,sex,species", *rows])
    given = ("evaluate", "data", path, "--labels", "species", "--methods", "K-means", "--runs", 1)
    assert "use --categorical kind, or --drop kind" in run(*given, "--out", tmp_path / "a").sentence
    assert "use --categorical kind" in run(*given, "--categorical", "sex", "--out", tmp_path / "a").sentence
    done = run(*given, "--categorical", "kind,sex", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "note: each level of kind, sex becomes a column of zeros and ones" in done.err
    (row,) = table_of(tmp_path / "out" / "results.csv")
    assert (row["points"], row["dim"]) == ("120", "6")
    assert float(row["ari"]) == 1.0, "width alone does not tell"
    gap = written(tmp_path / "gap.csv", ["width,kind,sex,species", *rows, "1.5,,0,setosa"])
    given = ("evaluate", "data", gap, *given[3:], "--categorical", "kind,sex", "--out", tmp_path / "gap")
    assert "some are missing; --skip-missing leaves out such rows" in run(*given).sentence
    assert "note: 1 row with missing values left out" in run(*given, "--skip-missing").err


def test_a_pipe_from_a_shell(tmp_path: Path) -> None:
    """In a process of its own, with a pattern that the shell does not expand."""
    written(tmp_path / "a.csv.gz", lines(rows=slice(60)))
    written(tmp_path / "b.csv.gz", lines(rows=slice(60, 120)))
    words = [sys.executable, "-m", "dpmmwrap", "fit", "*.csv.gz", *OPTIONS, *QUICK, "--json"]
    done = subprocess.run([str(word) for word in words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["points"] == 120 and summary["nmi"] > 0.95


def test_the_page_on_files_names_all_of_them(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fit writes, with every column and key, and all pictures."""
    monkeypatch.undo()
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
    path = written(tmp_path / "x.csv", [*lines(), "f120,,1,setosa,x"])
    options = (*OPTIONS, "--skip-missing", "--draws", 5, "--thin", 1, *QUICK[:-1], 2)
    done = run("fit", path, *options, "--quiet", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    folder = tmp_path / "out"
    names = {file.name for file in folder.iterdir()}
    assert {"rows.npy", "draws.npz", "confidence.npy", "labels.csv", "clusters.png", "posterior.png"} <= names
    columns = {*table_of(folder / "trace.csv")[0], *table_of(folder / "labels.csv")[0]}
    with np.load(folder / "draws.npz") as draws:
        arrays = set(draws.files) - {"format"}
    keys = set(json.loads((folder / "summary.json").read_text()))
    assert [name for name in sorted(names | columns | arrays | keys) if f"`{name}`" not in page] == []
