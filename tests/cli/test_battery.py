"""`dpmmwrap evaluate battery`: a folder of small sets from end to end, and how it goes on."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import running

from dpmmwrap.datasets import generate, generate_counts

pytest.importorskip("matplotlib")

QUICK = "DPMM-kmeans,EM-GMM,K-means,HDBSCAN"


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    folder = tmp_path / "sets"
    folder.mkdir()
    for name, clusters, seed in (("easy_2", 2, 0), ("easy_3", 3, 1)):
        data = generate(2, clusters, 120, 300.0, seed)
        np.savez(folder / f"{name}.npz", X=data.X, y=data.y)
    counts = generate_counts(30, 2, 100, 0)
    np.savez(folder / "text_two.npz", **counts.arrays())
    (folder / "index.csv").write_text('name,"published ARI, EM given K"\neasy_2,0.875\n')
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_from_end_to_end(run, sets: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["evaluate", "battery", sets, "--methods", QUICK, "--seeds", 2, "--max-points", 110, "--out", out]
    done = run(*arguments)
    assert done.code == 0, done.err
    rows = rows_of(out / "results.csv")
    # HDBSCAN does the same with every seed; texts are for k-means and us.
    assert len(rows) == 2 * (3 * 2 + 1) + 2 * 2
    assert {row["points"] for row in rows} == {"110", "100"}
    assert {row["model"] for row in rows if row["method"] == "DPMM-kmeans"} <= {"full", "diag", "multinomial"}
    medians = rows_of(out / "sets.csv")
    assert [(row["data"], row["method"]) for row in medians[:2]] == [("easy_2", "DPMM-kmeans"), ("easy_2", "EM-GMM")]
    for row in medians:
        own = [
            float(found["ari"]) for found in rows if (found["data"], found["method"]) == (row["data"], row["method"])
        ]
        assert float(row["ari"]) == pytest.approx(np.median(own))
        assert (row["gap"] == "") == (row["method"] != "DPMM-kmeans")
        assert float(row["ari"]) > 0.8 or row["method"] in ("HDBSCAN", "K-means")
    means = rows_of(out / "means.csv")
    assert [(row["battery"], row["sets"]) for row in means] == [
        *(("easy", "2"), ("text", "1"), ("all", "3"), ("mean rank", "2"))
    ]
    lines = done.out.splitlines()
    assert any(line.startswith("easy_2") and "110" in line for line in lines)
    assert any(line.startswith("mean rank") for line in lines)
    text = (out / "report.md").read_text()
    assert "easy_2 (110 of 120), easy_3 (110 of 120)." in text
    assert "| easy_2 |" in text.split("## Beside published scores")[1] and "0.875" in text
    assert "![" in text and (out / "battery.svg").exists()
    assert 'src="data:image/png;base64,' in (out / "report.html").read_text()

    # Once more: nothing is run, and the report is the same; another method is added to what is there.
    again = run(*arguments)
    assert again.code == 0 and "run 1/" not in again.err and (out / "report.md").read_text() == text
    more = run("evaluate", "battery", sets, "--methods", "K-means", "--seeds", 3, "--max-points", 110, "--out", out)
    assert more.code == 0 and "run 7/9" in more.err and "run 6/9" not in more.err
    assert len(rows_of(out / "results.csv")) == len(rows) + 3


def test_groups_and_patterns(run, sets: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(
        *("evaluate", "battery", sets, "scikit-learn", "--sets", "easy_*,sklearn_iris", "--methods", "k-means"),
        *("--seeds", 1, "--group", "other=*_iris,easy_2", "--out", out),
    )
    assert done.code == 0, done.err
    assert [(row["battery"], row["sets"]) for row in rows_of(out / "means.csv")][:3] == [
        *(("other", "2"), ("easy", "1"), ("all", "3"))
    ]
    text = (out / "report.md").read_text()
    assert f"battery {sets} scikit-learn --methods k-means --sets 'easy_*,sklearn_iris'" in text
    assert "--group 'other=*_iris,easy_2'" in text


def test_two_processes_give_the_same(run, sets: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        done = run(
            *("evaluate", "battery", sets, "--methods", "DPMM-kmeans,K-means", "--seeds", 1, "--jobs", jobs, "-q"),
            *("--sets", "easy_2", "--out", tmp_path / str(jobs)),
        )
        assert done.code == 0 and done.out == "", done.err
    one, two = (rows_of(tmp_path / str(jobs) / "results.csv") for jobs in (1, 2))
    assert [{**row, "seconds": "", "cpu_seconds": ""} for row in one] == [
        {**row, "seconds": "", "cpu_seconds": ""} for row in two
    ]


def test_what_is_left_out_is_said(run, sets: Path, tmp_path: Path) -> None:
    np.savez(sets / "alike.npz", X=np.eye(5), y=np.zeros(5))
    done = run("evaluate", "battery", sets, "--methods", "K-means", "--seeds", 1, "--out", tmp_path / "out")
    assert done.code == 0
    assert done.err.startswith("dpmmwrap: note: alike is left out: y in")
    assert "alike is left out" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'DIR...'"),
        (["none"], "none should be a folder of .npz files, but it does not exist"),
        (["sets", "--methods", "dbscan"], "a method should be one of DPMM, DPMM-full"),
        (["sets", "--sets", "x*"], "no set in sets matches x*"),
        (["sets", "--group", "easy"], "'easy' should be NAME=PATTERN"),
        (["sets", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["sets", "--max-points", "1"], "Invalid value for '--max-points'"),
    ],
)
def test_bad_input_is_one_sentence(
    run, sets: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(sets.parent)
    assert said in run("evaluate", "battery", *arguments).sentence
    assert [path.name for path in sets.parent.iterdir()] == ["sets"], "nothing is left behind"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_killed_battery_goes_on(run, sets: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "dpmmwrap",
        "evaluate",
        "battery",
        str(sets),
        "--methods",
        QUICK,
        "--out",
        str(out),
    ]
    with running(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any(line.startswith("run 4/") for line in lines), "it ended before"
        process.send_signal(signal.SIGKILL)
    kept = rows_of(out / "results.csv")
    assert len(kept) >= 4
    done = run(*command[3:])
    assert done.code == 0, done.err
    assert f"run {len(kept) + 1}/" in done.err and f"run {len(kept)}/" not in done.err
    assert rows_of(out / "results.csv")[:4] == kept[:4]
