"""Files that workers read themselves, and `dpmmwrap fit --backend dask`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import daskfits
import numpy as np
import pytest
from distributed import Client, LocalCluster

from dpmmwrap import DPMM, load
from dpmmwrap.backends.dask.files import open_lazily
from dpmmwrap.cli import run
from dpmmwrap.files import InputError

OPTIONS = ["--iterations", "15", "--covariance", "full", "--init", "kmeans", "--seed", "0", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same points in all kinds of files."""
    pa, pq, zarr = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet", "zarr"))
    folder = tmp_path_factory.mktemp("files")
    X, labels = daskfits.points()
    np.save(folder / "points.npy", X)
    np.save(folder / "truth.npy", labels)
    for kind in ("arrays", "tables"):
        (folder / kind).mkdir()
    for number, part in enumerate(np.array_split(X, 3)):
        np.save(folder / "arrays" / f"part{number}.npy", part)
        table = pa.table({name: part[:, column] for column, name in enumerate("abc")})
        pq.write_table(table, folder / "tables" / f"part{number}.parquet", row_group_size=4_000)
    zarr.create_array(store=str(folder / "points.zarr"), shape=X.shape, chunks=(9000, 2), dtype="f4")[:] = X
    return folder


@pytest.mark.parametrize("name", ["points.npy", "arrays", "arrays/*.npy", "tables", "tables/*.parquet", "points.zarr"])
def test_all_kinds_of_files_hold_the_same_points(name: str, folder: Path) -> None:
    lazy = open_lazily([folder / name])
    np.testing.assert_array_equal(lazy.X.compute(scheduler="sync"), np.load(folder / "points.npy"))
    assert lazy.X.dtype == np.float32
    assert lazy.names == (("a", "b", "c") if "tables" in name else None)


def test_a_fit_of_files_writes_the_labels_of_one_machine(
    folder: Path, client: Client, workers: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_dask = ["--backend", "dask", "--scheduler", workers.scheduler_address, "--labels", str(folder / "truth.npy")]
    out = tmp_path / "many"
    assert run(["fit", str(folder / "tables"), *OPTIONS, *on_dask, "--json", "--out", str(out)]) == 0
    expected = DPMM(max_iter=15, covariance_type="full", init="kmeans", random_state=0).fit(daskfits.points()[0])
    np.testing.assert_array_equal(np.load(out / "labels.npy"), expected.labels_)
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    labels = np.load(out / "labels.npy")
    assert summary["backend"] == "dask" and summary["sizes"] == np.bincount(labels).tolist()
    assert summary["points"] == len(labels) and sum(summary["group_sizes"]) == len(labels) and summary["nmi"] > 0.7
    model = load(out / "model.npz")
    assert model.n_clusters == summary["n_clusters"] and model.feature_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "--backend dask needs either --scheduler ADDRESS or --local-workers N"),
        (["--scheduler", "tcp://127.0.0.1:1", "--local-workers", "2"], "needs either --scheduler"),
        (["--local-workers", "2", "--scale"], "--scale needs one machine"),
        (["--local-workers", "2", "--columns", "a"], "--columns needs one machine"),
        (["--local-workers", "2", "--draws", "9"], "--draws with --backend dask needs --loss none"),
        (["--local-workers", "2", "--family", "mixed"], "--family mixed needs one machine"),
    ],
)
def test_options_that_make_no_sense(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "points.npy", "--backend", "dask", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_its_options_need_the_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "points.npy", "--local-workers", "2"]) == 2
    assert "--local-workers needs --backend dask" in capsys.readouterr().err


def write(path: Path, X: Any) -> Path:
    np.save(path, X)
    return path


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda folder: folder / "nothing.npy", "it does not exist"),
        (lambda folder: write(folder / "flat.npy", np.zeros(5)), "an array of 2 dimensions, not 1"),
        (lambda folder: write(folder / "words.npy", np.array([["a"]])), "should hold numbers"),
        (lambda folder: (folder / "empty").mkdir() or folder / "empty", "should hold .npy or .parquet files"),
        (lambda folder: (folder / "x.csv").touch() or folder / "x.csv", "should be .npy, .parquet, a folder of these"),
        (lambda folder: (folder / "x.npy").touch() or folder / "x.npy", "damaged or something else"),
        (lambda folder: (folder / "x.parquet").touch() or folder / "x.parquet", "damaged or something else"),
    ],
)
def test_bad_files_get_one_sentence(make: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        open_lazily([make(tmp_path)])


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    write(tmp_path / "a.npy", np.zeros((3, 2)))
    write(tmp_path / "b.npy", np.zeros((3, 4)))
    with pytest.raises(InputError, match="should have 2 columns"):
        open_lazily([tmp_path])
