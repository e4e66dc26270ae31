"""`dpmmwrap predict`: the same answers as the model itself, for files of any length."""

import csv
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap import load
from dpmmwrap.cli import answers
from dpmmwrap.datasets import generate

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from dpmmwrap import DPMM

    X = generate(dim=2, clusters=3, points=300, spread=500, seed=1).X
    path = tmp_path_factory.mktemp("model") / "model.npz"
    options = {"init": "kmeans", "init_clusters": 1, "max_iter": 20, "backend": "native", "random_state": 0}
    DPMM(**options, covariance_type="full").fit(X).save(path)
    return path


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "new.npy"
    np.save(path, generate(dim=2, clusters=3, points=100, spread=500, seed=1).X)
    return path


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CHUNK_ROWS", 33)


def test_labels_are_printed_one_per_line(run, model: Path, points: Path) -> None:
    done = run("predict", model, points)
    assert done.code == 0
    assert [int(line) for line in done.out.split()] == load(model).predict(np.load(points)).tolist()


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_labels_are_written(run, model: Path, points: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"labels.{ending}"
    done = run("predict", model, points, "--out", out)
    assert (done.code, done.out) == (0, "")
    expected = load(model).predict(np.load(points))
    if ending == "npy":
        np.testing.assert_array_equal(np.load(out), expected)
        return
    with out.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["row", "cluster", "probability", "outlier"]
    assert [int(line["row"]) for line in lines] == list(range(1, 101))
    assert [int(line["cluster"]) for line in lines] == expected.tolist()
    assert {line["outlier"] for line in lines} == {"0"}
    sure = load(model).predict_proba(np.load(points)).max(axis=1)
    np.testing.assert_allclose([float(line["probability"]) for line in lines], sure, rtol=1e-5)


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_probabilities_are_written(run, model: Path, points: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"probabilities.{ending}"
    assert run("predict", model, points, "--proba", "--out", out).code == 0
    if ending == "csv":
        assert out.read_text().splitlines()[0] == "row,cluster_0,cluster_1,cluster_2"
    probabilities = np.load(out) if ending == "npy" else np.loadtxt(out, delimiter=",", ndmin=2, skiprows=1)[:, 1:]
    np.testing.assert_allclose(probabilities, load(model).predict_proba(np.load(points)), rtol=1e-5)


def test_predictions_are_averaged_over_draws(run, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = ("--init", "kmeans", "--iterations", 15, "--draws", 10, "--thin", 2, "--loss", "none")
    for options, averaged in ((few[:-2], True), (few, False)):
        assert run("fit", points, *options, "--quiet", "--out", out).code == 0
        mixture = load(out / "model.npz")
        assert (mixture.averaged is not None) == averaged
        done = run("predict", out / "model.npz", points, "--proba")
        found = np.array([line.split(",") for line in done.out.splitlines()], dtype=float)
        np.testing.assert_allclose(found, mixture.predict_proba(np.load(points)), rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-4)


def test_rows_with_gaps_are_left_out_where_that_is_asked_for(run, model: Path, points: Path, tmp_path: Path) -> None:
    X = np.load(points)
    X[[0, 40], 1] = np.nan
    np.save(tmp_path / "gaps.npy", X)
    given = ("predict", model, tmp_path / "gaps.npy", "--out", tmp_path / "labels.csv")
    assert run(*given).code == 0
    done = run(*given, "--skip-missing")
    assert done.code == 0 and "note: 2 rows with missing values left out" in done.err
    with (tmp_path / "labels.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == [row + 1 for row in range(100) if row not in (0, 40)]
    assert [int(line["cluster"]) for line in lines] == load(model).predict(np.delete(X, [0, 40], axis=0)).tolist()
    np.save(tmp_path / "gaps.npy", np.full((3, 2), np.nan))
    assert "values are missing in all 3 rows" in run(*given, "--skip-missing").sentence


def test_rows_beside_their_labels_by_the_folder_of_a_fit(run, tmp_path: Path) -> None:
    data = generate(dim=3, clusters=3, points=180, spread=500, seed=1)
    X, truth = data.X, data.y
    lines = [f"p{i % 150},{a:.4f},{b:.4f},{c:.4f},{k}" for i, ((a, b, c), k) in enumerate(zip(X, truth, strict=True))]
    lines[4] = "p4,,,,0"
    (tmp_path / "x.csv").write_text("\n".join(["id,a,b,c,kind", *lines]) + "\n")
    quick = ("--iterations", 15, "--chains", 1, "--backend", "native", "--out", tmp_path / "out")
    fitted = run("fit", tmp_path / "x.csv", "--id", "id", "--labels", "kind", "-q", *quick)
    assert fitted.code == 0, fitted.err
    written = ("--out", tmp_path / "new.csv", "--with-data")
    done = run("predict", tmp_path / "out", tmp_path / "x.csv", "--id", "id", *written)
    assert done.code == 0 and "some rows have the same name, so the .csv file also has the rows' numbers" in done.err
    with (tmp_path / "new.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [*found[0]] == ["row", "id", "cluster", "probability", "outlier", "data_id", "a", "b", "c", "kind"]
    assert [",".join([row["data_id"], *(row[name] for name in ("a", "b", "c", "kind"))]) for row in found] == lines
    assert found[4]["cluster"] == "-1" and found[4]["probability"] == ""
    done = run("predict", tmp_path / "out", tmp_path / "x.csv", "--skip-missing", "--id", "id", *written)
    with (tmp_path / "new.csv").open() as file:
        assert [row["row"] for row in csv.DictReader(file)][3:5] == ["4", "6"]
    said = run("predict", tmp_path / "out", tmp_path / "x.csv", "--with-data").sentence
    assert "--with-data needs labels in a .csv file: --out FILE.csv" in said


def test_one_point_is_enough(run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("1.0,2.0\n")
    assert len(run("predict", model, tmp_path / "one.csv").out.split()) == 1


def test_points_of_another_dimension(run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    assert "2 features like the model, but it has 3" in run("predict", model, tmp_path / "x.npy").sentence


@pytest.mark.parametrize("keep", [0, 10, 300, -30])
def test_damaged_models(run, model: Path, points: Path, tmp_path: Path, keep: int) -> None:
    (tmp_path / "half.npz").write_bytes(model.read_bytes()[:keep])
    assert "half.npz" in run("predict", tmp_path / "half.npz", points).sentence


def test_files_that_are_no_models(run, points: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", X=np.zeros(3))
    assert "other.npz" in run("predict", tmp_path / "other.npz", points).sentence
    assert "none.npz" in run("predict", tmp_path / "none.npz", points).sentence
    assert "MODEL should be the model.npz of a fit, or its folder" in run("predict", points.parent, points).sentence


def test_bad_places(run, model: Path, points: Path, tmp_path: Path) -> None:
    assert "should be a .npy or .csv file" in run("predict", model, points, "--out", tmp_path / "x.txt").sentence
    assert "no such folder" in run("predict", model, points, "--out", tmp_path / "none" / "x.npy").sentence
