"""`dpmmwrap train` and `dpmmwrap evaluate splits`."""

from pathlib import Path

import pytest

from dpmmwrap.cli.train import COLLAPSED, progress_bar
from dpmmwrap.splitnet import training
from dpmmwrap.splitnet.progress import TrainingProgress
from dpmmwrap.splitnet.weights_io import load_weights


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.validation_sets
    monkeypatch.setattr(training, "validation_sets", lambda seed, dims: whole(seed, dims, sets=3, n=64))


def test_it_writes_weights_and_a_card(run, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    done = run("train", "--dim", 3, "--steps", 4, "--batch", 1, "--out", path)
    assert done.code == 0, done.err
    assert "ARI easy 3 " in done.out
    assert "step 4/4: loss" in done.err and "at difficulty 33%, ARI easy 3" in done.err
    assert done.err.count("the training sets get harder during the first 1,000 steps") == 1
    assert "on hard pairs in 3 dimensions after 0 min; the shipped network has 0." in done.err
    assert load_weights(path).describe()["kind"] == "axes"
    assert path.with_suffix(".json").exists()
    assert not list(tmp_path.glob("*.checkpoint"))


def test_a_run_that_is_done_is_not_resumed(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "[default: splitnet.safetensors]" in " ".join(run("train", "--help").out.split())
    assert "there is no checkpoint" in run("train", "--dim", 2, "--resume").sentence
    assert run("train", "--dim", 2, "--steps", 2, "--batch", 1).code == 0
    assert (tmp_path / "splitnet.safetensors").exists()
    said = run("train", "--dim", 2, "--steps", 2, "--batch", 1, "--resume").sentence
    assert "the training of splitnet.safetensors has finished" in said


def test_minutes_are_obeyed_by_a_run_that_goes_on(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "TIMED", (1, 2))
    path = tmp_path / "w.safetensors"
    begun = training.Training(training.TrainingSettings((2,), steps=4000, batch=1))
    begun.save_checkpoint(training.checkpoint_path(path))
    done = run("train", "--dim", 2, "--batch", 1, "--out", path, "--resume", "--minutes", 1e-6)
    assert done.code == 0, done.err
    assert "step 2/2: loss" in done.err


def test_a_network_that_has_collapsed_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("note") as progress:
        for step, ari in enumerate([0.3, 0.0, 0.0, 0.2]):
            moment = TrainingProgress(step, 10, 1.0, {"easy 20": ari, "hard 20": 0.0}, 60.0, 0.5)
            progress(moment)
            progress(moment)
            err = capsys.readouterr().err
            assert err.count(COLLAPSED) == (step == 1)
            # Figures that do not change are shown all the same.
            assert err.count(f"step {step}/10") == 1


def test_its_weights_can_be_evaluated(run, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    assert run("train", "--dim", 2, "--steps", 2, "--batch", 1, "--out", path).code == 0
    done = run("evaluate", "splits", "--dim", 2, "--sets", 2, "--weights", path)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    header = [cell.strip() for cell in lines[0].split("|")]
    assert header[1] == "D = 2" and {"easy: ARI", "medium: ARI", "hard: ARI"} <= set(header)
    both = ["SplitNet, network alone", "SplitNet start"]
    names = [line.split("|")[1].strip() for line in lines[2:]]
    assert names == ["random", "2-means", "EM, 2 Gaussians", *both, "oracle"]
    oracle = [cell.strip() for cell in lines[-1].split("|")]
    assert float(oracle[2]) > 0.98
    assert oracle[-2] == ""


def test_bad_use(run, tmp_path: Path) -> None:
    out = tmp_path / "w.safetensors"
    assert "works in a single dimension" in run("train", "--dim", 2, "--dim", 3, "--preset", "paper").sentence
    assert "--steps or --minutes" in run("train", "--dim", 2, "--steps", 3, "--minutes", 1).sentence
    assert "should be a .safetensors file" in run("train", "--dim", 2, "--out", tmp_path / "w.pt").sentence
    assert "--preset" in run("train", "--dim", 2, "--preset", "huge").sentence
    assert "no such folder" in run("train", "--dim", 2, "--out", tmp_path / "none" / "w.safetensors").sentence
    assert "there is no checkpoint" in run("train", "--dim", 2, "--out", out, "--resume").sentence
    assert "device should be auto, cpu or cuda" in run("train", "--dim", 2, "--device", "abacus", "--out", out).sentence
    out.write_bytes(b"no weights")
    assert "damaged" in run("evaluate", "splits", "--weights", out).sentence
