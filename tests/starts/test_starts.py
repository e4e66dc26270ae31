"""The starts that need no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.starts import Initializer, SplitCriterion, make_initializer


def criterion(dim: int) -> SplitCriterion:
    return SplitCriterion(NIW.reference(dim), DirichletProcess(10.0))


def two_groups(rows: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    return (rng.normal(size=(rows, 3)) + 8 * y[:, None]).astype(np.float32), y


def test_random_is_a_fair_coin() -> None:
    start = make_initializer("random")
    start.bind(np.zeros((10_000, 2), np.float32), criterion(2))
    sides = start([np.arange(10_000), np.arange(5)], np.random.default_rng(0))
    assert [len(side) for side in sides] == [10_000, 5]
    assert abs(sides[0].mean() - 0.5) < 0.02


@pytest.mark.parametrize("sample", [50, 5000])
def test_two_means_finds_two_groups(sample: int) -> None:
    X, y = two_groups()
    start = make_initializer("kmeans", sample=sample)
    start.bind(X, criterion(3))
    rows = np.arange(0, 1000, 3)
    (sides,) = start([rows], np.random.default_rng(1))
    assert sides.dtype == np.uint8
    assert adjusted_rand_score(sides, y[rows]) > 0.99


def test_two_means_does_not_depend_on_units() -> None:
    X, _ = two_groups()
    sides = []
    for units in (np.float32(1), np.array([4096, 1, 2.0**-10], np.float32)):
        start = make_initializer("kmeans")
        start.bind(X * units, criterion(3))
        sides.append(start([np.arange(1000)], np.random.default_rng(1))[0])
    np.testing.assert_array_equal(*sides)


def test_two_means_on_copies_of_one_point() -> None:
    start = make_initializer("kmeans")
    start.bind(np.ones((20, 2), np.float32), criterion(2))
    (sides,) = start([np.arange(20)], np.random.default_rng(0))
    assert sides.shape == (20,)


def test_callables_and_initializers() -> None:
    X, y = two_groups()
    start = make_initializer(lambda points: points[:, 0] > 4)
    start.bind(X, criterion(3))
    assert adjusted_rand_score(start([np.arange(1000)], np.random.default_rng(0))[0], y) > 0.99
    assert make_initializer(start) is start
    assert isinstance(start, Initializer)
    with pytest.raises(ValueError, match="init should be one of"):
        make_initializer("magic")


BROKEN = """
import json, sys
from dpmmwrap.cli import run
quick = ["--iterations", "5", "--chains", "1", "--covariance", "full", "--backend", "native"]
ratio = ["--acceptance-ratio", "reference"]
codes = [run(["fit", sys.argv[1], *quick, *more]) for more in (["--json", *ratio], ["--init", "splitnet"])]
print(json.dumps(codes))
"""


def test_a_broken_torch_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.12: no such file\\nand more')\n")
    np.save(tmp_path / "points.npy", two_groups(60)[0])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-c", BROKEN, str(tmp_path / "points.npy")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    *summary, codes = done.stdout.splitlines()
    assert json.loads(codes) == [0, 2]
    fitted = json.loads("\n".join(summary))
    why = "libcudart.so.12: no such file"
    said = f"the start splitnet needs torch, which cannot be imported ({why}); kmeans does not need it"
    assert fitted["init"] == "kmeans" and f"subclusters begin by 2-means: {said}" in fitted["notes"]
    assert done.stderr.splitlines() == [f"dpmmwrap: {said}"]
