"""Image sets from local files: idx, Keras' .npz, and any file of features."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from dpmmwrap.evaluation.images import read_idx
from dpmmwrap.evaluation.sources import Reading, load, open_file, prepared, read_labelled
from dpmmwrap.files import InputError, MissingValues, Selection


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (30, 4, 5)).astype(np.uint8)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(tmp_path: Path, images: np.ndarray, packed: bool) -> None:
    ending = ".gz" if packed else ""
    pack = gzip.compress if packed else bytes
    points, labels = tmp_path / f"t10k-images-idx3-ubyte{ending}", tmp_path / f"t10k-labels-idx1-ubyte{ending}"
    points.write_bytes(pack(idx(images)))
    truth = np.arange(30) % 10
    labels.write_bytes(pack(idx(truth)))
    data = read_labelled(Reading((str(points),), str(labels)))[0]
    assert data.X.shape == (30, 20)
    np.testing.assert_allclose(data.X[3], images[3].ravel() / 255, rtol=1e-6)
    np.testing.assert_array_equal(data.y, truth)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PNG and so on", "it begins differently"),
        (b"", "it begins differently"),
        (struct.pack(">HBB", 0, 8, 3), "ends before their lengths"),
        (struct.pack(">HBB2I", 0, 8, 2, 3, 4) + b"12345", "should have 12 bytes of values, not 5"),
        (struct.pack(">HBB4I", 0, 14, 4, *[2**32 - 1] * 4), "bytes of values, not 0"),
    ],
)
def test_damaged_idx_files(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_idx(path)


def test_a_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "x-idx3-ubyte.gz"
    path.write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot be read"):
        read_idx(path)


def test_keras_files(tmp_path: Path, images: np.ndarray) -> None:
    path = tmp_path / "mnist.npz"
    np.savez(path, x_train=images[:10], y_train=np.zeros(10), x_test=images[10:], y_test=np.arange(20) % 7)
    data = read_labelled(Reading((str(path),)))[0]
    assert data.X.shape == (20, 20)
    assert data.X.max() <= 1
    np.testing.assert_array_equal(data.y, np.arange(20) % 7)


def test_projection_is_pca_and_only_where_there_are_more_features() -> None:
    X = np.random.default_rng(0).normal(size=(50, 8)) * np.arange(1, 9)

    def project(rows: np.ndarray, components: int) -> np.ndarray:
        return prepared(rows, Reading(("x.npy",), components=components))

    found = project(X, 3)
    np.testing.assert_allclose(found, PCA(3, svd_solver="full").fit_transform(X), rtol=1e-4, atol=1e-4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(project(X, 8), X, rtol=1e-6)
    np.testing.assert_allclose(project(X, 0), X, rtol=1e-6)
    with pytest.raises(InputError, match="need at least as many points"):
        project(X[:2], 3)


def test_a_source_knows_its_file(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    X = np.random.default_rng(0).normal(size=(40, 30))
    np.savez(path, X=X, y=np.arange(40) % 4)
    reading = Reading((str(path),), components=20)
    source = open_file(reading, "mine")[0]
    assert (source.dim, source.clusters, source.points) == (20, 4, 40)
    assert open_file(Reading((str(path),)), "mine")[0].dim == 30
    scaled = open_file(reading._replace(scale=True), "mine")[0]
    assert scaled.fingerprint.startswith(f"{source.fingerprint}-")
    np.savez(path, X=X + 1, y=np.arange(40) % 4)
    assert open_file(reading, "mine")[0].fingerprint != source.fingerprint


def test_rows_with_gaps_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    lines = [f"p{i},{i % 7},{i % 5},{'abc'[i % 3]}" for i in range(30)]
    path.write_text("id,u,v,kind\n" + "\n".join([*lines, "p30,,1,d", "p31,1,2,"]))
    reading = Reading((str(path),), selection=Selection(id="id", labels="kind"), skip_missing=True)
    source, _, skipped = open_file(reading, "x")
    assert (skipped, source.points, source.clusters, source.dim) == (2, 30, 3, 2)
    X, y = load(source)
    assert X.shape == (30, 2) and sorted(set(y.tolist())) == [0, 1, 2]
    with pytest.raises(MissingValues, match="column 'u' holds nothing"):
        open_file(reading._replace(skip_missing=False), "x")


def test_labels_are_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(5))
    with pytest.raises(InputError, match="has no true labels"):
        open_file(Reading((str(tmp_path / "x.npy"),)), "x")
    np.savez(tmp_path / "x.npz", X=np.eye(5), y=np.zeros(5))
    with pytest.raises(InputError, match="at least two classes"):
        open_file(Reading((str(tmp_path / "x.npz"),)), "x")
