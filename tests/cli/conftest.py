"""Running commands inside the test process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap import cli


@dataclass
class Finished:
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What a failed command said: exactly one line on stderr, nothing on stdout, exit code 2."""
        assert self.code == 2, self.err
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("dpmmwrap: ")
        return lines[0]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    def run(*arguments: object) -> Finished:
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    return run


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take time, and are looked at elsewhere."""
    monkeypatch.setattr("dpmmwrap.describe.plotting.available", lambda: False)


QUICK = ("--init", "kmeans", "--init-clusters", 1, "--iterations", 15, "--backend", "native", "--chains", 1)


@pytest.fixture
def summary_of(run: Callable[..., Finished]) -> Callable[..., dict[str, Any]]:
    """What --json says of a quick fit; nothing else may be said, but where a slow machine is every ten seconds."""

    def summary_of(*arguments: object) -> dict[str, Any]:
        done = run("fit", *arguments, *QUICK, "--json")
        assert done.code == 0, done.err
        said = [line for line in done.err.splitlines() if not line.startswith("dpmmwrap: iteration ")]
        assert not said or said[0].startswith("Written to"), done.err
        summary: dict[str, Any] = json.loads(done.out)
        return summary

    return summary_of


def three_clusters(gaps: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Points in three dimensions, some of them with gaps, and the clusters that no one could miss."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 3)) + 12 * np.eye(3)[truth]
    X[rng.random(X.shape) < gaps] = np.nan
    return X, truth


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A file of three clusters, with their labels."""
    X, truth = three_clusters()
    np.savez(tmp_path / "three.npz", X=X, y=truth)
    return tmp_path / "three.npz"


@pytest.fixture
def gappy(tmp_path: Path) -> Path:
    """A file of three clusters in which values are missing; the labels are in truth.npy beside it."""
    X, truth = three_clusters(gaps=0.05)
    np.save(tmp_path / "gappy.npy", X)
    np.save(tmp_path / "truth.npy", truth)
    return tmp_path / "gappy.npy"


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    """Three kinds of texts of twenty words from a vocabulary of thirty, sparse."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 50)
    shares = np.kron(np.eye(3), np.ones(10)) + 0.05
    X = sparse.csr_matrix(np.array([rng.multinomial(20, shares[k] / shares[k].sum()) for k in truth]))
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape), "y": truth}
    np.savez(tmp_path / "texts.npz", **arrays)
    return tmp_path / "texts.npz"
