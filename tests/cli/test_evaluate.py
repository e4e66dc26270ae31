"""`dpmmwrap evaluate`: a small experiment from end to end, what its folder holds, and how it ends."""

import csv
import html.parser
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import running

from dpmmwrap.datasets import generate

pytest.importorskip("matplotlib")

SMALL = ("--points", 200, "--iterations", 12, "--upper-bound", 6)
EVERY = "SubC-Random,SubC-K-means,DPGMM (our prior),EM-GMM,K-means"


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))


class Page(html.parser.HTMLParser):
    """The sources of all pictures, scripts and style sheets, and the text of all cells."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]


def test_synthetic_from_end_to_end(run, tmp_path: Path) -> None:
    arguments = ["evaluate", "synthetic", "--clusters", "2,4", "--datasets", 1, "--runs", 2, *SMALL]
    arguments += ["--qualitative-runs", 2, "--methods", EVERY, "--out", tmp_path / "a"]
    done = run(*arguments)
    assert done.code == 0, done.err
    rows = rows_of(tmp_path / "a")
    assert len(rows) == 2 * 1 * 2 * 5 + 2 * 2 * 2
    for row in rows:
        assert 0 <= float(row["nmi"]) <= 1
        assert int(row["k_error"]) == abs(int(row["n_clusters"]) - int(row["clusters"]))
        assert row["init_clusters"] == ("1" if row["method"].startswith("SubC") else "")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    pictures = {"boxplots", "times", "iterations-k2", "iterations-k4", "scatter-k2", "scatter-k4"}
    assert {f"{name}.{kind}" for name in pictures for kind in ("png", "svg")} <= names
    page = Page(tmp_path / "a" / "report.html")
    assert len(page.sources) == len(pictures)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    text = (tmp_path / "a" / "report.md").read_text()
    assert "dpmmwrap evaluate synthetic --clusters 2,4 --points 200 --datasets 1 --runs 2" in text
    assert set(re.findall(r"\]\((.*?)\)", text)) == {f"{name}.png" for name in pictures}

    # Once more: nothing is run, and the report is the same.
    again = run(*arguments)
    assert again.code == 0 and "run 1/" not in again.err
    assert (tmp_path / "a" / "report.md").read_text() == text
    assert rows_of(tmp_path / "a") == rows


def test_the_paper_from_end_to_end(run, tmp_path: Path) -> None:
    """Mixtures and one real data set by every method that is here; the same command does nothing again."""
    (tmp_path / "data").mkdir()
    data = generate(4, 3, 120, 30.0, 0)
    np.savez(tmp_path / "data" / "mnist_test.npz", X=data.X, y=data.y)
    arguments = ["evaluate", "paper", "--small", "--dims", "2,3", "--clusters", 3, "--points", 120]
    arguments += ["--iterations", 12, "--upper-bounds", "6,4", "--runs", 2, "--max-points", 100]
    arguments += ["--methods", EVERY, "--out", tmp_path / "out"]
    done = run(*arguments, "--data", tmp_path / "data")
    assert done.code == 0, done.err
    assert "FMNIST, CIFAR10, CIFAR20, STL-10 are left out" in done.err
    rows = rows_of(tmp_path / "out")
    # Five methods, DPGMM twice, in two dimensions and twice on the real data set; two starts along their iterations.
    assert len(rows) == 2 * 6 + 2 * 6 + 2 * 2
    assert {row["ratio"] for row in rows if row["method"].startswith("SubC")} == {"reference"}
    real = [row for row in rows if row["data"] == "MNIST"]
    assert {(row["points"], row["total"], row["dim"], row["clusters"]) for row in real} == {("100", "120", "4", "3")}
    assert [row["upper_bound"] for row in real if row["method"].startswith("DPGMM")] == ["6", "4", "6", "4"]
    pictures = {"crowding", "boxplots-d2", "boxplots-d3", "boxplots-mnist", "iterations-k3", "scatter-k3"}
    page = Page(tmp_path / "out" / "report.html")
    assert len(page.sources) == len(pictures)
    text = (tmp_path / "out" / "report.md").read_text()
    assert set(re.findall(r"\]\((.*?)\)", text)) == {f"{name}.png" for name in pictures}
    assert "s = 50 in D = 2, s = 20 in D = 3" in text
    assert "DPGMM may use up to 6 or 4 clusters" in text
    assert "accept splits like the reference package" in text
    for bound in (6, 4):
        lines = [line for line in text.splitlines() if line.startswith(f"| DPGMM ({bound}) |")]
        assert any("0.68" in line and "10.0 ± 0.00" in line for line in lines), "the paper's numbers stand beside"
    assert "| DPGMM (6) | " in text and "| about 100 |" in text

    # Without the real data set nothing is run either, and its rows stay in the folder.
    less = run(*arguments)
    assert less.code == 0 and "run 1/" not in less.err
    assert "STL-10 are left out: there is no --data" in less.err
    assert len(rows_of(tmp_path / "out")) == len(rows)
    assert "MNIST beside the paper" not in (tmp_path / "out" / "report.md").read_text()


def test_the_ratio_decides(run, tmp_path: Path) -> None:
    """The same runs by another ratio are other runs, and end elsewhere."""
    for ratio in ("reference", "jain-neal"):
        done = run(
            *("evaluate", "synthetic", "--clusters", 12, "--points", 1500, "--datasets", 1, "--iterations", 60),
            *("--qualitative-runs", 1, "--methods", "SubC-Random", "--ratio", ratio, "--out", tmp_path),
        )
        assert done.code == 0, done.err
    rows = rows_of(tmp_path)
    assert [row["ratio"] for row in rows] == ["jain-neal", "jain-neal", "reference", "reference"]
    whole, as_reference = (float(rows[number]["log_posterior"]) for number in (0, 2))
    assert whole > as_reference, "random starts do not split a crowd by the reference's ratio"
    # A watched run is the same run.
    assert rows[0]["log_posterior"] == rows[1]["log_posterior"] and rows[2]["n_clusters"] == rows[3]["n_clusters"]


def test_data_beside_the_paper(run, tmp_path: Path) -> None:
    data = generate(25, 3, 200, 30.0, 0)
    np.save(tmp_path / "my-mnist.npy", data.X)
    np.savetxt(tmp_path / "truth.csv", data.y, fmt="class %d")
    done = run(
        *("evaluate", "data", tmp_path / "my-mnist.npy", "--labels", tmp_path / "truth.csv", "--runs", 2),
        *("--pca", 20, "--iterations", 10, "--methods", "subc-k-means,em-gmm", "--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    rows = rows_of(tmp_path / "out")
    assert [(row["method"], row["seed"], row["dim"], row["points"]) for row in rows] == [
        (method, seed, "20", "200") for method in ("SubC-K-means", "EM-GMM") for seed in "01"
    ]
    text = (tmp_path / "out" / "report.md").read_text()
    assert "projected on 20 principal components" in text
    assert "| SubC-SplitNet | – | 0.00 ± 0.00 | – | 0.69 ± 0.01 | – | 0.52 ± 0.01 |" in text
    # The same file name with other points is other data.
    np.save(tmp_path / "my-mnist.npy", data.X + 1)
    done = run(
        *("evaluate", "data", tmp_path / "my-mnist.npy", "--labels", tmp_path / "truth.csv", "--runs", 1),
        *("--pca", 20, "--iterations", 10, "--methods", "em-gmm", "--compare-with", "none", "--out", tmp_path / "out"),
    )
    assert len(rows_of(tmp_path / "out")) == 5
    assert "paper's numbers" not in (tmp_path / "out" / "report.md").read_text()


def test_data_in_units_of_their_own(run, tmp_path: Path) -> None:
    """k-means and DPGMM with its own prior do not suffer from a unit; and DPGMM stands there with either prior."""
    data = generate(2, 3, 200, 200.0, 0)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", X=np.column_stack([data.X, 1e4 * rng.normal(size=200)]), y=data.y)
    done = run(
        *("evaluate", "data", tmp_path / "a.npz", "--runs", 1, "--iterations", 10, "--upper-bound", 5),
        *("--methods", "DPGMM,K-means,EM-GMM", "--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    rows = {row["method"]: row for row in rows_of(tmp_path / "out")}
    assert list(rows) == ["DPGMM (our prior)", "DPGMM (its own prior)", "K-means", "EM-GMM"]
    assert [row["scaled"] for row in rows.values()] == ["", "yes", "yes", ""]
    assert [row["iterations"] for row in rows.values()] == ["10", "", "10", "10"]
    assert float(rows["K-means"]["ari"]) > 0.3, "it would be near 0 if the third column were all that counts"
    text = (tmp_path / "out" / "report.md").read_text()
    assert "DPGMM (its own prior) and K-means get columns of variance one" in text
    assert "DPGMM (our prior) has our prior" in text and "DPGMM (its own prior) has scikit-learn's defaults" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["synthetic", "--clusters", "10,many"], "Invalid value for '--clusters': 'many' is not a valid integer range"),
        (["synthetic", "--clusters", "0"], "0 is not in the range x>=1"),
        (["synthetic", "--methods", "dbscan"], "not 'dbscan'"),
        (["synthetic", "--init-clusters", "few"], "'few' is not a valid integer range"),
        (["synthetic", "--weights", "none.safetensors", "--methods", "SubC-SplitNet"], "none.safetensors"),
        (["synthetic", "--ratio", "printed"], "'printed' is not one of 'auto', 'jain-neal', 'reference'"),
        (["paper", "--data", "none"], "none should be a folder of .npz files, but it does not exist"),
        (["paper", "--upper-bounds", "many"], "Invalid value for '--upper-bounds'"),
        (["paper", "--dims", ""], "Invalid value for '--dims'"),
        (["data", "none.npy"], "none.npy should be a file, but it does not exist"),
        (["data", "none-idx3-ubyte"], "none-idx3-ubyte should be a file"),
        (["data"], "Missing argument 'FILE..."),
    ],
)
def test_bad_input_is_one_sentence(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in run("evaluate", *arguments).sentence
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_folder_that_is_a_file(run, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    said = run("evaluate", "synthetic", "--methods", "K-means", "--out", tmp_path / "x").sentence
    assert "should be a folder" in said


def test_nothing_to_report(run, tmp_path: Path) -> None:
    said = run("evaluate", "synthetic", "--methods", "K-means", "--report-only", "--out", tmp_path).sentence
    assert "holds no finished run" in said


@pytest.mark.parametrize("name", ["paper", "synthetic", "data", "battery", "splits"])
def test_help_has_examples_and_imports_nothing_slow(name: str) -> None:
    script = (
        f"import sys; from dpmmwrap.cli import run; assert run(['evaluate', '{name}', '--help']) == 0; "
        "sys.exit(bool({'numpy', 'torch', 'sklearn', 'matplotlib', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"dpmmwrap evaluate {name}" in done.stdout.split("Example")[1]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_was_done(run, tmp_path: Path, jobs: int) -> None:
    """As a terminal sends it: to the whole group of processes, while a run is going on that would take hours."""
    command = [sys.executable, "-m", "dpmmwrap", "evaluate", "synthetic", "--clusters", "3", "--datasets", "1"]
    command += ["--points", "300", "--qualitative-runs", "0", "--iterations", "100000000"]
    command += ["--methods", "K-means,SubC-Random", "--jobs", str(jobs), "--out", str(tmp_path)]
    with running(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        # k-means is done when it converges; the sampler is not.
        assert process.stderr.readline().startswith("run 1/2: K-means")
        os.killpg(process.pid, signal.SIGINT)
        err = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert err == f"dpmmwrap: interrupted: 1 of 2 runs are kept in {tmp_path}, and the same command continues\n"
    assert [row["method"] for row in rows_of(tmp_path)] == ["K-means"]
    if jobs == 1:
        done = run(*command[3:], "--report-only")
        assert done.code == 0, done.err
        assert len(rows_of(tmp_path)) == 1
        assert "| 3 | K-means | 1 |" in (tmp_path / "report.md").read_text()


def test_splits_write_a_folder(run, tmp_path: Path) -> None:
    done = run("evaluate", "splits", "--dim", 2, "--sets", 2, "--out", tmp_path)
    assert done.code == 0, done.err
    rows = rows_of(tmp_path)
    assert {row["level"] for row in rows} == {"easy", "medium", "hard"}
    assert {"2-means", "SplitNet, network alone", "SplitNet start", "oracle"} <= {row["method"] for row in rows}
    assert Page(tmp_path / "report.html").sources[0].startswith("data:image/png")
    assert (tmp_path / "splits.svg").exists()
