"""`dpmmwrap generate`."""

from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.datasets import generate
from dpmmwrap.files import read_data


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


def test_round_clusters(run, tmp_path: Path) -> None:
    path = tmp_path / "round.npz"
    assert run("generate", "--kind", "round", "--dim", 4, "--clusters", 2, "--points", 2000, "--out", path).code == 0
    with np.load(path) as data:
        np.testing.assert_array_equal(data["covariances"], np.tile(np.eye(4), (2, 1, 1)))
        for k in range(2):
            members = data["X"][data["y"] == k]
            np.testing.assert_allclose(np.cov(members, rowvar=False), np.eye(4), atol=0.2)


def test_counts_are_sparse_and_can_be_clustered(run, summary_of, tmp_path: Path) -> None:
    path = tmp_path / "texts.npz"
    done = run("generate", "--kind", "counts", "--dim", 200, "--clusters", 3, "--points", 300, "--out", path)
    assert "300 rows of 200 counts from 3 clusters" in done.out
    summary = summary_of(path, "--family", "multinomial")
    assert (summary["points"], summary["dimensions"], summary["true_clusters"]) == (300, 200, 3)
    assert summary["ari"] > 0.95
    assert read_data(path, kind="counts").X.sum() / 300 == pytest.approx(50, abs=2)


def test_a_mixed_table_can_be_clustered(run, summary_of, tmp_path: Path) -> None:
    path, labels = tmp_path / "table.csv", tmp_path / "table.labels.csv"
    done = run("generate", "--kind", "mixed", "--dim", 2, "--clusters", 3, "--points", 300, "--seed", 1, "--out", path)
    assert str(labels) in done.out
    summary = summary_of(path, "--family", "mixed", "--labels", labels)
    assert summary["categorical"] == ["category_1", "category_2"]
    assert summary["ari"] > 0.9


def test_what_a_kind_does_not_have(run, tmp_path: Path) -> None:
    assert "should be a .csv file" in run("generate", "--kind", "mixed", "--out", tmp_path / "x.npz").sentence
    said = run("generate", "--kind", "counts", "--spread", 3, "--out", tmp_path / "x.npz").sentence
    assert "--spread does not apply to --kind counts" in said
    assert not list(tmp_path.iterdir())


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
