"""`dpmmwrap generate`."""

from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.datasets import generate


def test_it_writes_what_generate_draws(run, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    options = ("--dim", 3, "--clusters", 4, "--points", 50, "--spread", 7, "--seed", 2)
    done = run("generate", *options, "--out", path)
    assert done.code == 0
    assert "50 points in 3 dimensions" in done.out
    expected = generate(dim=3, clusters=4, points=50, spread=7, seed=2).arrays()
    with np.load(path, allow_pickle=False) as written:
        assert set(written.files) == {"X", "y", "weights", "means", "covariances"}
        for name, array in expected.items():
            np.testing.assert_array_equal(written[name], array)
            assert written[name].dtype == array.dtype


@pytest.mark.parametrize(
    ("option", "value"),
    [("--dim", 0), ("--clusters", -1), ("--points", "many"), ("--spread", 0), ("--seed", -1)],
)
def test_bad_options(run, tmp_path: Path, option: str, value: object) -> None:
    assert option in run("generate", "--out", tmp_path / "x.npz", option, value).sentence
    assert not (tmp_path / "x.npz").exists()


def test_bad_places(run, tmp_path: Path) -> None:
    assert "--out" in run("generate").sentence
    assert "should be a .npz file" in run("generate", "--out", tmp_path / "x.csv").sentence
    assert "no such folder" in run("generate", "--out", tmp_path / "none" / "x.npz").sentence
