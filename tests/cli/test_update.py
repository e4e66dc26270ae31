"""`dpmmwrap fit --update`: a model goes on, day by day."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap import load
from dpmmwrap.files import writing

QUICK = ("--covariance", "full", "--chains", "1", "--quiet")
pytestmark = pytest.mark.usefixtures("no_pictures")


def write_day(folder: Path, day: int, kinds: int, name: str = "y") -> Path:
    rng = np.random.default_rng(day)
    rows = 100 * rng.normal(size=(90, 2)) + 1500 * rng.integers(kinds, size=(90, 1))
    path = folder / f"day{day}.csv"
    lines = [f"{row},{day},{x:.3f},{y:.3f}" for row, (x, y) in enumerate(rows)]
    path.write_text("\n".join([f"row,day,x,{name}", *lines]) + "\n")
    return path


@pytest.fixture
def first(run, tmp_path: Path) -> Path:
    done = run(
        "fit", write_day(tmp_path, 0, 2), "--id", "row", "--drop", "day", "--scale", *QUICK, "--out", tmp_path / "out"
    )
    assert done.code == 0, done.err
    return tmp_path / "out"


def test_day_by_day(run, first: Path, tmp_path: Path) -> None:
    assert (first / "report.html").exists()
    for day, kinds in ((1, 2), (2, 3)):
        path = write_day(tmp_path, day, kinds)
        done = run("fit", path, "--id", "row", "--update", first / "model.npz", "--out", first)
        assert done.code == 0 and f"batch {day + 1}: 90 rows, {kinds} clusters" in done.out and not done.err
    assert "cluster 2 is new" in done.out
    # Of the first fit's files none is left that speaks of other rows.
    assert {path.name for path in first.iterdir()} == {
        *("labels.csv", "history.csv", "summary.json", "model.npz", "dpmmwrap-files.json")
    }
    with open(first / "labels.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90 and set(rows[0]) == {"id", "cluster", "probability", "novelty"}
    new = [row for row in rows if row["cluster"] == "2"]
    assert new and all(float(row["novelty"]) > 0.9 for row in new)
    with open(first / "history.csv") as file:
        assert [(row["batch"], row["kind"]) for row in csv.DictReader(file)] == [
            ("1", "birth"), ("1", "birth"), ("3", "birth"),
        ]  # fmt: skip
    summary = json.loads((first / "summary.json").read_text())
    assert summary["batches"] == 3 and summary["seen"] == 270 and summary["events"][0]["cluster"] == 2
    assert load(first / "model.npz").counts.sum() == 270


def test_a_crash_leaves_the_old_model(run, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (first / "model.npz").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "replace", fail)
        assert run("fit", write_day(tmp_path, 1, 2), "--id", "row", "--update", first, "--out", first).code != 0
    assert (first / "model.npz").read_bytes() == before
    assert run("fit", tmp_path / "day1.csv", "--id", "row", "--update", first, "--out", first, "-q").code == 0


def test_what_is_refused(run, first: Path, tmp_path: Path) -> None:
    path = write_day(tmp_path, 1, 2)
    update = ("fit", path, "--id", "row", "--update", first, "--out", first)
    assert run(*update, "--time", "day").sentence.endswith("time should be given for all batches or for none")
    assert run(*update, "-q").code == 0
    assert (
        "the same as batch 2, which the model has seen: it was not added again (--repeat adds it)"
        in run(*update).sentence
    )
    assert run(*update, "--repeat", "--json").code == 0
    assert "--scale was decided by the first fit: leave it out with --update" in run(*update, "--scale").sentence
    assert "--update needs --out DIR" in run("fit", path, "--update", first).sentence
    assert "--freeze needs --update MODEL" in run("fit", path, "--freeze").sentence
    other = write_day(tmp_path, 3, 2, name="z")
    assert "should have a column 'y' like the model" in run("fit", other, "--update", first, "--out", first).sentence
    (tmp_path / "empty.csv").write_text("row,day,x,y\n")
    assert run("fit", tmp_path / "empty.csv", "--update", first, "--out", first).code == 2


def test_times_from_the_first_day_on(run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    days = [write_day(tmp_path, day, 2) for day in range(2)]
    assert run("fit", days[0], "--id", "row", "--time", "day", "--window", "20", *QUICK, "--out", out).code == 0
    assert load(out / "model.npz").n_inputs == 2
    done = run("fit", days[1], "--id", "row", "--time", "day", "--forget", "0.5", "--update", out, "--out", out)
    assert done.code == 0, done.err
    # Half of the 70 rows that were not free on the first day are forgotten.
    assert load(out / "model.npz").counts.sum() == pytest.approx(90 + 20 + 35, abs=0.1)


def test_known_clusters_and_rows_together(run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places = np.arange(90) % 3
    known = ["healthy" if place == 0 and row < 30 else "" for row, place in enumerate(places)]
    rows = 100 * rng.normal(size=(90, 2)) + 1500 * places[:, None]
    path, out = tmp_path / "cells.csv", tmp_path / "out"
    patients = np.arange(90) // 6 * 3 + places
    lines = [f"{x:.3f},{y:.3f},{beside[0]},{beside[1]}" for (x, y), *beside in zip(rows, known, patients, strict=True)]
    path.write_text("\n".join(["x,y,type,patient", *lines]) + "\n")
    assert run("fit", path, "--known", "type", "--drop", "patient", *QUICK, "--out", out).code == 0
    with open(out / "labels.csv") as file:
        names = [row["known"] for row in csv.DictReader(file)]
    assert [name == "healthy" for name in names] == (places == 0).tolist()
    assert load(out / "model.npz").n_inputs == 2
    assert run("fit", path, "--together", "patient", "--drop", "type", *QUICK, "--out", out).code == 0
    assert len(set(np.load(out / "labels.npy"))) == 3
    refused = run("fit", path, "--together", "patient", "--known", "type")
    assert "--together is for a fit without --known, --window and --time" in refused.sentence
    assert (
        "--known should be empty in some rows, not in none"
        in run("fit", path, "--known", "patient", "--drop", "type").sentence
    )
