"""MNIST and Fashion-MNIST, from local files or from OpenML."""

from __future__ import annotations

import gzip
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import Data, InputError, check_labels, check_points, read_arrays, read_labels
from dpmmwrap.files.problems import explained
from dpmmwrap.numerics.arrays import IntArray

OPENML = {"mnist": "mnist_784", "fashion-mnist": "Fashion-MNIST"}
TEST_IMAGES = 10_000
"""OpenML has training and test set in one table; the last 10,000 rows are the test set, which the paper uses."""
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def is_images(source: str) -> bool:
    """Whether this is one of OpenML's image sets, an idx file, or a .npz file of Keras."""
    return is_openml(source) or is_idx(Path(source)) or is_keras(Path(source))


def is_openml(source: str) -> bool:
    return source.lower() in OPENML and not Path(source).exists()


def read_images(source: str) -> Data:
    """Images as points, with labels if the source has them."""
    if is_openml(source):
        return fetch_images(source.lower())
    path = Path(source)
    if is_idx(path):
        return Data(check_points(flat(read_idx(path)), str(path)))
    arrays = read_arrays(path, required=("x_test", "y_test"))
    X = flat(arrays["x_test"])
    return Data(check_points(X, f"x_test in {path}"), check_labels(arrays["y_test"], len(X), f"y_test in {path}"))


def read_truth(path: Path, n: int) -> IntArray:
    """Labels from a separate file."""
    return check_labels(read_idx(path).astype(np.int64), n, str(path)) if is_idx(path) else read_labels(path, n)


def fetch_images(name: str) -> Data:
    """The test images of one of OpenML's sets, pixels from 0 to 1."""
    from sklearn.datasets import fetch_openml

    try:
        table = fetch_openml(OPENML[name], version=1, as_frame=False, parser="liac-arff")
    # urllib and http raise many kinds of errors if there is no connection.
    except Exception as error:
        raise InputError(
            f"{name} could not be fetched from openml.org ({type(error).__name__}); "
            "use its files instead: t10k-images-idx3-ubyte.gz with --labels t10k-labels-idx1-ubyte.gz, or a .npz"
        ) from error
    X, y = np.asarray(table.data)[-TEST_IMAGES:], np.asarray(table.target)[-TEST_IMAGES:]
    return Data(check_points(X.astype(np.float32) / 255, name), check_labels(y.astype(str), len(X), name))


def is_idx(path: Path) -> bool:
    """Whether a file has MNIST's format, by names such as train-images-idx3-ubyte or t10k-labels.idx1-ubyte.gz."""
    return any(mark in path.name for mark in ("idx1", "idx3")) and path.is_file()


def read_idx(path: Path) -> np.ndarray[Any, Any]:
    """An array in MNIST's format: two zero bytes, a type, the number of axes, their lengths, then the values."""
    with explained(path):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_TYPES:
        raise InputError(f"{path} should be an idx file, but it begins differently")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise InputError(f"{path} should be an idx file with {axes} axes, but it ends before their lengths")
    shape = struct.unpack(f">{axes}I", content[4:start])
    kind = np.dtype(IDX_TYPES[content[2]])
    expected = kind.itemsize * int(np.prod(shape, dtype=object))
    if len(content) - start != expected:
        raise InputError(f"{path} should have {expected:,} bytes of values, not {len(content) - start:,}")
    return np.frombuffer(content, kind, offset=start).reshape(shape)


def is_keras(path: Path) -> bool:
    """Whether a file is like Keras' mnist.npz, with x_train, y_train, x_test and y_test."""
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return False
    with explained(path), zipfile.ZipFile(path) as archive:
        return {"x_test.npy", "y_test.npy"} <= set(archive.namelist())


def flat(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Images as rows, pixels from 0 to 1."""
    rows = images.reshape(len(images), -1)
    return rows.astype(np.float32) / 255 if rows.dtype.kind == "u" else rows
