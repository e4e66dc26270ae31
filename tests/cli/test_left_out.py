"""Columns that a fit leaves out inside never show outside: in pages, in pictures, in tables."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpmmwrap import DPMM

QUICK = ("--init", "kmeans", "--iterations", 15, "--backend", "native", "--chains", 1)
SETTINGS = {"init": "kmeans", "max_iter": 15, "n_chains": 1, "backend": "native", "random_state": 0}


def frame(words: bool = False) -> pd.DataFrame:
    """Three clusters in two columns, with a constant, a copy and a sum among them."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 50)
    X = rng.normal(size=(150, 2)) + 12 * np.eye(3, 2)[truth]
    columns = {"sensor_1": 7.0, "width": X[:, 0], "sensor_3": 2 * X[:, 0], "height": X[:, 1], "sum": X.sum(axis=1)}
    return pd.DataFrame(columns | ({"colour": np.array(["red", "green", "blue"])[truth]} if words else {}))


@pytest.mark.parametrize("words", [False, True], ids=["numbers", "mixed"])
def test_a_page_and_pictures_of_all_columns(run, tmp_path: Path, words: bool) -> None:
    frame(words).to_csv(tmp_path / "data.csv", index=False)
    family = ("--family", "mixed") if words else ()
    done = run("fit", tmp_path / "data.csv", *family, *QUICK, "--out", tmp_path / "out")
    assert done.code == 0 and done.err == ""
    assert "constant columns (sensor_1) and copies or combinations of others (sensor_3, sum)" in done.out
    assert "report.html" in done.out and "clusters.png" in done.out
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert f"{4 + 1} numeric columns" in page if words else "5 features" in page
    # A copy describes a cluster as well as what it is a copy of.
    assert "sensor_3" in page and "feature 1" not in page


def test_columns_without_names_count_from_1(run, tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", frame().to_numpy())
    done = run("fit", tmp_path / "data.npy", *QUICK, "--out", tmp_path / "out")
    assert done.code == 0
    assert "constant columns (number 1) and copies or combinations of others (number 3, 5)" in done.out


@pytest.fixture
def no_window() -> Iterator[None]:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize("words", [False, True], ids=["numbers", "mixed"])
def test_pictures_in_a_notebook(tmp_path: Path, words: bool) -> None:
    table = frame(words)
    model = DPMM(**SETTINGS, family="mixed" if words else "gaussian").fit(table)
    axes = model.plot(table)
    if not words:
        # Two columns are left, and are drawn as they are.
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("width", "height")
    lines = {text.get_text() for text in model.plot_profile(table).get_yticklabels()}
    assert {"width", "sensor_3", "height", "sum"} <= lines
    model.write_report(tmp_path / "report.html", table)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_a_page_with_known_labels(run, tmp_path: Path) -> None:
    table = frame(words=True)
    table["colour"].to_csv(tmp_path / "truth.csv", index=False)
    table.to_csv(tmp_path / "data.csv", index=False)
    table.drop(columns="colour").to_csv(tmp_path / "plain.csv", index=False)
    for name, labels in (("data", "colour"), ("plain", tmp_path / "truth.csv")):
        out = tmp_path / f"{name}-out"
        assert run("fit", tmp_path / f"{name}.csv", *QUICK, "--labels", labels, "--out", out).code == 0
        page = (out / "report.html").read_text(encoding="utf-8")
        assert all(f'<th scope="col" class="n">{colour}</th>' in page for colour in ("red", "green", "blue"))
