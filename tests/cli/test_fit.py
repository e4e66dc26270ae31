"""`dpmmwrap fit`: what a user sees, what is written, how it ends."""

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from processes import running

from dpmmwrap import Dask, DataPrior, DirichletProcess, Julia, Native
from dpmmwrap.backends import Auto
from dpmmwrap.cli import fit as fit_module
from dpmmwrap.cli import results
from dpmmwrap.cli.parameters import make_backend
from dpmmwrap.datasets import generate
from dpmmwrap.sampler.trace import COLUMNS

QUICK = ("--init", "kmeans", "--init-clusters", 1, "--iterations", 30, "--backend", "native", "--chains", 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clusters that no one could miss, with their labels."""
    path = tmp_path_factory.mktemp("data") / "data.npz"
    np.savez(path, **generate(dim=2, clusters=4, points=600, spread=500, seed=1).arrays())
    return path


@pytest.fixture
def points(data: Path, tmp_path: Path) -> Path:
    """The same points without labels."""
    path = tmp_path / "points.npy"
    np.save(path, np.load(data)["X"])
    return path


def test_json_is_one_object_and_nothing_else(run, data: Path) -> None:
    done = run("fit", data, *QUICK, "--json")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    summary = json.loads(done.out)
    assert summary["n_clusters"] == 4
    assert summary["iterations"] == 30
    assert summary["backend"] == "native"
    assert summary["init"] == "kmeans"
    assert summary["interrupted"] is False
    assert np.isfinite(summary["log_posterior"])
    assert summary["nmi"] > 0.95
    assert summary["ari"] > 0.95
    assert sum(summary["sizes"]) == 600


def test_without_truth_nothing_is_said_of_it(run, points: Path) -> None:
    summary = json.loads(run("fit", points, *QUICK, "--json").out)
    assert "nmi" not in summary
    assert "ari" not in summary


def test_labels_in_a_file_are_the_truth(run, data: Path, points: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("kind\n" + "".join(f"c{label}\n" for label in np.load(data)["y"]))
    done = json.loads(run("fit", points, *QUICK, "--json", "--labels", truth).out)
    assert done["nmi"] == json.loads(run("fit", data, *QUICK, "--json").out)["nmi"]


def test_the_table(run, data: Path) -> None:
    done = run("fit", data, *QUICK)
    assert done.code == 0
    for said in (
        "600 points in 2 dimensions",
        "clusters",
        "4 (the truth has 4)",
        "sizes",
        "groups         4: ",
        "log posterior",
    ):
        assert said in done.out
    for said in ("30 iterations", "NMI, ARI", "native, kmeans subclusters, seed 0"):
        assert said in done.out
    # No progress where nobody sees it.
    assert done.err == ""


def test_quiet(run, data: Path, tmp_path: Path) -> None:
    done = run("fit", data, *QUICK, "--quiet", "--out", tmp_path / "out")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "out" / "labels.npy").exists()


def test_what_is_written(run, data: Path, tmp_path: Path) -> None:
    from dpmmwrap import load

    folder = tmp_path / "deep" / "out"
    done = run("fit", data, *QUICK, "--json", "--out", folder)
    assert done.code == 0
    pictures = {"clusters.png", "groups.png", "trace.png"}
    assert {path.name for path in folder.iterdir()} == pictures | {
        "labels.csv", "labels.npy", "groups.npy", "model.npz", "trace.csv", "summary.json", "report.html",
        "dpmmwrap-files.json"
    }  # fmt: skip
    labels = np.load(folder / "labels.npy", allow_pickle=False)
    assert labels.shape == (600,)
    assert labels.dtype == np.int32
    assert json.loads((folder / "summary.json").read_text()) == json.loads(done.out)
    with (folder / "trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["iteration", *COLUMNS]
    assert [int(row["iteration"]) for row in rows] == list(range(1, 31))
    assert int(rows[-1]["n_clusters"]) == 4
    assert (load(folder / "model.npz").predict(np.load(data)["X"]) == labels).mean() > 0.99
    for name in pictures:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert f"4 clusters were found in the 600 rows of {data.name}" in page
    # What shows only on the way is not part of the command to do it again.
    assert f"dpmmwrap fit {data} --out {folder} --iterations 30 --init kmeans --init-clusters 1 " in page


def test_without_matplotlib_it_says_so(run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpmmwrap.describe import plotting

    monkeypatch.setattr(plotting, "available", lambda: False)
    done = run("fit", data, *QUICK, "--out", tmp_path)
    assert done.code == 0
    assert "pip install matplotlib" in " ".join(done.out.split())
    assert not list(tmp_path.glob("*.png"))
    # The page needs none.
    assert (tmp_path / "report.html").exists()


def test_the_same_seed_gives_the_same_labels(run, data: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3)):
        run("fit", data, *QUICK, "--seed", seed, "--out", tmp_path / name)
    assert (tmp_path / "a" / "labels.npy").read_bytes() == (tmp_path / "b" / "labels.npy").read_bytes()


def test_the_example(run) -> None:
    summary = json.loads(run("fit", "--example", *QUICK, "--init-clusters", "auto", "--json").out)
    assert summary["points"] == 10_000
    assert summary["nmi"] > 0.9


def test_the_files_are_written_though_the_reader_of_the_table_has_left(data: Path, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "dpmmwrap", "fit", data, *QUICK, "--out", tmp_path / "result"]
    read, write = os.pipe()
    os.close(read)
    words = [str(word) for word in arguments]
    ran = subprocess.run(words, check=False, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert {"labels.npy", "model.npz", "summary.json"} <= {path.name for path in (tmp_path / "result").iterdir()}


def test_all_ratios_can_be_chosen() -> None:
    """Named twice, because asking the samplers' room for them would make --help slow."""
    from dpmmwrap.sampler.settings import ACCEPTANCE_RATIOS

    (option,) = (option for option in fit_module.command.params if option.name == "acceptance_ratio")
    assert tuple(option.type.choices) == ACCEPTANCE_RATIOS  # type: ignore[attr-defined]


def test_settings_arrive(monkeypatch: pytest.MonkeyPatch, run, data: Path, tmp_path: Path) -> None:
    import dpmmwrap.estimator

    seen = {}

    class Spy(dpmmwrap.estimator.DPMM):
        def __init__(self, **parameters: object) -> None:
            seen.update(parameters)
            raise ValueError("seen enough")

    monkeypatch.setattr(dpmmwrap.estimator, "DPMM", Spy)
    options = {
        "--init": "kmeans", "--alpha": 2.5, "--iterations": 7, "--seed": 5, "--backend": "native",
        "--min-cluster-age": 3, "--family": "gaussian", "--covariance": "full", "--init-clusters": 2,
        "--max-clusters": 9, "--outlier-weight": 0.1, "--acceptance-ratio": "printed", "--n-jobs": 2,
        "--checkpoint": tmp_path / "c", "--checkpoint-every": 4, "--device": "cpu", "--draws": 0, "--chains": 1,
        "--prior-width": 0.5, "--prior-strength": 30.0, "--prior-kappa": 0.1, "--alpha-prior": "2,0.5",
    }  # fmt: skip
    run("fit", data, *(part for pair in options.items() for part in pair))
    native = Native(ratio="printed", min_cluster_age=3, n_jobs=2, checkpoint=tmp_path / "c", checkpoint_every=4)
    assert seen == {
        "init": "kmeans", "alpha": "auto", "max_iter": 7, "random_state": 5, "backend": native, "family": "gaussian",
        "covariance_type": "full", "init_clusters": 2, "max_clusters": 9, "outlier_weight": 0.1, "n_draws": 0,
        "n_chains": 1, "prior": DataPrior(width=0.5, strength=30.0, kappa=0.1),
        "partition_prior": DirichletProcess(2.5, (2.0, 0.5)), "subspace": "auto", "tails": "gaussian",
    }  # fmt: skip
    seen.clear()
    run("fit", data, "--draws", 9, "--chains", 2, "--thin", 3, "--loss", "binder")
    assert {name: seen[name] for name in ("n_draws", "n_chains", "thin", "loss")} == {
        "n_draws": 9, "n_chains": 2, "thin": 3, "loss": "binder"
    }  # fmt: skip
    run("fit", data, "--draws", 9, "--loss", "none")
    assert seen["loss"] is None
    seen.clear()
    run("fit", data)
    # What is not asked for keeps the estimator's default.
    assert not {"thin", "loss"} & set(seen)
    assert (seen["backend"], seen["prior"]) == ("auto", "data")
    assert (seen["n_draws"], seen["n_chains"]) == (0, "auto")
    assert (seen["init"], seen["family"], seen["covariance_type"]) == ("auto", "gaussian", "auto")


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        (("--workers", 2), Julia(workers=2)),
        (("--machines", "m.txt", "--acceptance-ratio", "reference"), Julia(machines=Path("m.txt"), ratio="reference")),
        (("--acceptance-ratio", "reference"), Auto(ratio="reference")),
        (("--n-jobs", 2), Native(n_jobs=2)),
        (("--backend", "julia", "--n-jobs", 2), "julia"),
        (("--backend", "dask", "--checkpoint", "folder"), Dask(checkpoint=Path("folder"))),
    ],
)
def test_options_make_a_backend(options: tuple[object, ...], backend: Auto) -> None:
    given = fit_module.command.make_context("fit", ["x.npy", *map(str, options)]).params
    assert make_backend(given) == backend


# Priors


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_prior_from_a_file(run, data: Path, tmp_path: Path, ending: str) -> None:
    prior = {"mean": [0, 0], "mean_strength": 1, "scale": [[5, 0], [0, 5]], "degrees_of_freedom": 5}
    path = tmp_path / f"prior.{ending}"
    if ending == "json":
        path.write_text(json.dumps(prior))
    else:
        np.savez(path, **prior)
    # The reference's prior is (0, I): in scatter matrices, I times its degrees of freedom, D + 3.
    from_file = json.loads(run("fit", data, *QUICK, "--json", "--prior", path).out)
    by_name = json.loads(run("fit", data, *QUICK, "--json", "--prior", "reference").out)
    assert from_file["log_posterior"] == by_name["log_posterior"]


def test_priors_that_do_not_fit(run, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "prior.json"
    good = {"mean": [0, 0, 0], "mean_strength": 1, "scale": np.eye(3).tolist(), "degrees_of_freedom": 6}
    path.write_text(json.dumps(good))
    assert "a prior of 2 dimensions like the data, but it has 3" in run("fit", data, "--prior", path).sentence
    path.write_text(json.dumps(good | {"scale": np.eye(2).tolist()}))
    assert "prior" in run("fit", data, "--prior", path).sentence
    path.write_text(json.dumps(good | {"mean": "zero"}))
    assert "prior" in run("fit", data, "--prior", path).sentence
    path.write_text('{"mean": [0, 0]}')
    assert "should hold mean, mean_strength, scale, degrees_of_freedom" in run("fit", data, "--prior", path).sentence
    path.write_text("[1, 2")
    assert "JSON" in run("fit", data, "--prior", path).sentence
    assert "not 'flat'" in run("fit", data, "--prior", "flat").sentence
    assert "it does not exist" in run("fit", data, "--prior", tmp_path / "none.json").sentence


# Bad input


def bad_files(folder: Path) -> Iterator[tuple[Path, str]]:
    good = np.random.default_rng(0).normal(size=(20, 2))
    for name, array, said in (
        ("flat", good.ravel(), "two dimensions"),
        ("inf", np.where(np.arange(40).reshape(20, 2) == 38, np.inf, good), "row 20, column 1"),
        ("empty", good[:0], "no rows"),
        ("one", good[:1], "at least 2 points"),
        ("objects", good.astype(object), "Python objects, which are never loaded"),
        ("text", good.astype(str), "text"),
    ):
        np.save(folder / f"{name}.npy", array, allow_pickle=True)
        yield folder / f"{name}.npy", said
    for name, text, said in (
        ("words.csv", "a,b\n1,2\n3,x\n", "line 3, column 'b' holds 'x'"),
        ("notarray.npy", "hello", "should be a NumPy array"),
        ("notarchive.npz", "hello", "damaged or not what its name says"),
        ("strange.xyz", "hello", "ends in .xyz"),
    ):
        (folder / name).write_text(text)
        yield folder / name, said
    yield folder / "none.npy", "it does not exist"


def test_bad_files_end_in_one_sentence(run, tmp_path: Path) -> None:
    for path, said in bad_files(tmp_path):
        sentence = run("fit", path).sentence
        assert said in sentence
        assert path.name in sentence


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--init", "magic"), "'magic' is not one of"),
        (("--alpha", -1), "--alpha"),
        (("--alpha", 0), "--alpha"),
        (("--iterations", 0), "--iterations"),
        (("--init-clusters", "some"), "--init-clusters"),
        (("--init-clusters", 0), "--init-clusters"),
        (("--max-clusters", 0), "--max-clusters"),
        (("--outlier-weight", 1), "--outlier-weight"),
        (("--backend", "fortran"), "--backend"),
        (("--acceptance-ratio", "mine"), "--acceptance-ratio"),
        (("--weights", "w.safetensors", "--init", "random"), "--weights is for --init splitnet"),
        (("--checkpoint-every", 5), "--checkpoint-every needs --checkpoint"),
        (("--example",), "either a file of points or --example"),
        (("--nonsense",), "No such option"),
    ],
)
def test_bad_options_end_in_one_sentence(run, data: Path, options: tuple[object, ...], said: str) -> None:
    sentence = run("fit", data, *options).sentence
    assert said in sentence
    assert "dpmmwrap fit --help" in sentence


def test_no_data_at_all(run) -> None:
    assert "either a file of points or --example" in run("fit").sentence


def test_labels_of_the_wrong_length(run, data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.zeros(599, dtype=int))
    sentence = run("fit", data, "--labels", tmp_path / "y.npy").sentence
    assert "one label for each of 600 points, but it holds 599" in sentence


def test_out_is_checked_before_the_fit(run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*arguments: object) -> None:
        pytest.fail("the fit has begun")

    monkeypatch.setattr(fit_module, "fit", fit)
    (tmp_path / "file").touch()
    assert "but it is a file" in run("fit", data, "--out", tmp_path / "file").sentence
    assert "part of the path is a file" in run("fit", data, "--out", tmp_path / "file" / "out").sentence
    assert "no such folder" in run("fit", data, "--checkpoint", tmp_path / "none" / "c").sentence
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 5})())
    assert "but only 5 are free" in run("fit", data, "--out", tmp_path / "out").sentence


def test_a_disk_that_fills_up_meanwhile(run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = run("fit", data, *QUICK, "--json", "--out", tmp_path)
    assert done.code == 2
    assert done.err.endswith("no space is left on the disk\n")
    assert len(done.err.splitlines()) == 1
    # The numbers at least are not lost, and no half file is left.
    assert json.loads(done.out)["n_clusters"] == 4
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint(run, data: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "chain.ckpt"
    checkpoint.write_bytes(b"not a checkpoint")
    assert "chain.ckpt" in run("fit", data, *QUICK, "--checkpoint", checkpoint).sentence


def test_a_checkpoint_of_other_data(run, data: Path, points: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "chain.ckpt"
    assert run("fit", data, *QUICK, "--checkpoint", checkpoint, "--checkpoint-every", 5).code == 0
    assert checkpoint.exists()
    np.save(points, np.load(points) + 1)
    assert "chain.ckpt" in run("fit", points, *QUICK, "--checkpoint", checkpoint).sentence


def test_weights_that_are_none(run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"nothing of the kind")
    for name in ("w.safetensors", "none.safetensors"):
        assert name in run("fit", data, "--init", "splitnet", "--weights", tmp_path / name).sentence


# Terminals and signals


LONG = ("--init", "kmeans", "--init-clusters", "1", "--backend", "native", "--json", "--iterations")


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 100
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_keeps_the_result_so_far(data: Path, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "chain.ckpt"
    command = [sys.executable, "-m", "dpmmwrap", "fit", data, *LONG, "1000000", "--out", out]
    command += ["--checkpoint", checkpoint, "--checkpoint-every", "5"]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(checkpoint, process)
        process.send_signal(signal.SIGINT)
        answer, problems = process.communicate(timeout=60)
    assert process.returncode == 130, problems
    summary = json.loads(answer)
    assert summary["interrupted"] is True
    assert summary == json.loads((out / "summary.json").read_text())
    assert 5 <= summary["iterations"] < 1_000_000
    assert len(np.load(out / "labels.npy")) == 600
    assert "Traceback" not in problems


def read_all(terminal: int) -> str:
    """What a program shows on a terminal until it has gone."""
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:
            piece = b""
        if not piece:
            return shown.decode()
        shown += piece


@pytest.mark.skipif(os.name != "posix", reason="terminals as POSIX has them")
@pytest.mark.parametrize(
    ("options", "place"),
    [
        pytest.param(("300",), ("iteration ", "/300"), marks=pytest.mark.slow),
        (("40", "--draws", "60", "--chains", "2"), ("chain 1 of 2, draw ", "/60")),
    ],
)
def test_the_live_line_on_a_terminal(data: Path, options: tuple[str, ...], place: tuple[str, ...]) -> None:
    import termios

    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    command = [sys.executable, "-m", "dpmmwrap", "fit", data, *LONG, *options]
    environment = os.environ | {"TERM": "xterm"}
    with running(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = read_all(ours)
        answer, _ = process.communicate(timeout=60)
    os.close(ours)
    for said in (*place, "clusters, log posterior", "left"):
        assert said in shown
    assert json.loads(answer)["n_clusters"] == 4


# The default prior, and how the search has ended


def test_the_prior_and_the_end_of_the_search_are_told(run, three: Path) -> None:
    done = run("fit", three, "--init", "kmeans", "--backend", "native", "--sensitivity", "--out", three.parent / "out")
    assert done.code == 0, done.err
    summary = json.loads((three.parent / "out" / "summary.json").read_text())
    assert summary["stopped_by"] == "flat" and summary["chains"] == 4
    assert f"4 chains, the best flat after {summary['iterations']} iterations" in done.out
    assert summary["prior_learned"] == ["kappa", "width", "strength"]
    values = ", ".join(f"{name} {summary[f'prior_{name}']:,.3g}" for name in ("width", "strength", "kappa"))
    assert re.search(rf"prior +{re.escape(values)} \(all learned\)\n", done.out)
    for setting in ("the prior's width", "its kappa", "the concentration"):
        line = rf"sensitivity +clusters at 1/4, 1/2, 1, 2, 4 times {setting}: \d+, \d+, 3, \d+, \d+\n"
        assert re.search(line, done.out), setting
    low, high = summary["prior_clusters"]
    assert re.search(rf"the prior expects {low} to {high} clusters", done.out) and 1 <= low < high < 30
    assert [one["factor"] for one in summary["sensitivity"]] == 3 * [0.25, 0.5, 1, 2, 4]
    assert {one["n_clusters"] for one in summary["sensitivity"] if one["setting"] != "width"} == {3}
    assert re.search(r"family +gaussian, (spherical|diag) covariances: they make the data more probable than", done.out)


def test_a_prior_that_is_given_is_not_called_learned(run, three: Path) -> None:
    done = run("fit", three, *QUICK, "--prior-width", 1.5, "--covariance", "diag")
    assert re.search(r"prior +width 1.5, strength [\d.,]+, kappa [\d.e-]+ \(kappa and strength learned\)\n", done.out)
    assert "30 iterations" in done.out and "flat" not in done.out and "sensitivity" not in done.out
    done = run("fit", three, *QUICK, "--prior-width", 1.5, "--prior-strength", 1000, "--covariance", "diag")
    assert re.search(r"prior +width 1.5, strength 1e\+03, kappa [\d.e-]+ \(kappa learned\)\n", done.out)
    done = run("fit", three, *QUICK, "--prior", "reference", "--json")
    summary = json.loads(done.out)
    assert summary["prior_width"] is None and summary["prior_learned"] == [] and summary["stopped_by"] == "max_iter"


def test_sensitivity_needs_the_default_prior(run, three: Path, counts: Path) -> None:
    assert run("fit", three, "--sensitivity", "--prior", "reference").sentence.count("leave out --prior (see") == 1
    sentence = run("fit", counts, "--sensitivity", "--family", "multinomial").sentence
    assert "--sensitivity varies the default prior of numeric columns" in sentence
    assert run("fit", three, "--prior", "reference", "--prior-width", 2).code == 2


def test_writing_is_told_now_and_then(run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "TOLD_EVERY", 0.0)
    done = run("fit", points, *QUICK, "--out", tmp_path / "out")
    told = [line for line in done.err.splitlines() if line.startswith("dpmmwrap: writing: ")]
    assert told == [f"dpmmwrap: writing: {what}" for what in ("labels.csv, 600 of 600 rows", "report.html", "pictures")]
    assert "writing" not in run("fit", points, *QUICK, "--quiet", "--out", tmp_path / "out").err
