"""`dpmmwrap fit` of many columns: --subspace and --normalize, and what the files keep of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import load

QUICK = ("--init", "kmeans", "--chains", 1, "--backend", "native")
pytestmark = pytest.mark.usefixtures("no_pictures")
N, D = 300, 36


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Three directions from zero, at any distance, and one column that is zero."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=N)
    X = 5.0 * np.eye(3, D)[y] + 0.3 * rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) / np.sqrt(D)
    X *= rng.uniform(0.5, 20.0, size=(N, 1))
    X[:, -1] = 0.0
    np.save(tmp_path / "wide.npy", X)
    np.savetxt(tmp_path / "truth.txt", y, fmt="%d")
    return tmp_path / "wide.npy"


def test_clusters_in_a_subspace_of_unit_vectors(run: Any, wide: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    truth = ("--labels", tmp_path / "truth.txt")
    done = run("fit", wide, "--subspace", 4, "--normalize", *truth, *QUICK, "--out", out)
    assert done.code == 0, done.err
    assert "3 in a subspace of 4 of 36 dimensions (the truth has 3)" in done.out and "rows of length 1" in done.out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["subspace"] == 4 and summary["normalized"] and summary["ari"] > 0.95
    assert "in a subspace of 4 of 36 dimensions" in (out / "report.html").read_text()
    mixture, X = load(out / "model.npz"), np.load(wide)
    labels = np.load(out / "labels.npy")
    assert (mixture.predict(X) == labels).mean() > 0.98
    # Length says nothing.
    np.testing.assert_array_equal(mixture.predict(7.0 * X), mixture.predict(X))
    assert run("predict", out / "model.npz", wide, "--out", tmp_path / "again.npy").code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "again.npy"), mixture.predict(X))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--subspace", 3, "--covariance", "spherical"), "--subspace N is for --family gaussian with full or diagonal"),
        (("--subspace", 3, "--family", "multinomial"), "--subspace N is for --family gaussian"),
        (("--subspace", "few"), "few"),
        (("--subspace", 99), "a subspace of 99 dimensions needs as many features"),
        (("--normalize", "--family", "poisson"), "--normalize is for --family gaussian, not poisson"),
        (("--subspace", 3, "--backend", "dask", "--local-workers", 1), "--subspace N needs one machine"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Any, wide: Path, options: tuple[Any, ...], words: str) -> None:
    done = run("fit", wide, *options)
    assert done.code == 2 and words in done.err


def test_none_is_no_subspace(summary_of: Any, wide: Path) -> None:
    assert summary_of(wide, "--subspace", "none", "--covariance", "diag", "--iterations", 5)["subspace"] is None
