"""True labels from a separate file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpmmwrap.files.checks import check_labels, class_names
from dpmmwrap.files.npy import read_arrays, read_npy
from dpmmwrap.files.paths import known_suffix
from dpmmwrap.files.problems import PathLike, explained
from dpmmwrap.files.text import open_text
from dpmmwrap.numerics.arrays import IntArray

LABEL_FILES = (".npy", ".npz", ".csv", ".tsv", ".txt", ".csv.gz", ".txt.gz")


def read_labels(path: PathLike, n: int) -> IntArray:
    """A label per point, as numbers from 0, from a .npy, a .npz (`y`), or a text with one in each line."""
    return read_classes(path, n)[0]


def read_classes(path: PathLike, n: int) -> tuple[IntArray, tuple[str, ...]]:
    """The labels as numbers from 0, and their names."""
    path = Path(path)
    with explained(path):
        suffix = known_suffix(path, LABEL_FILES)
        if suffix == ".npy":
            y = read_npy(path)
        elif suffix == ".npz":
            y = read_arrays(path, required=("y",))["y"]
        else:
            with open_text(path) as file:
                words = [line.strip() for line in file.read().split("\n") if line.strip()]
            # One additional line is the column's name. As labels may be words, nothing else tells.
            y = np.array(words[1:] if len(words) == n + 1 else words, dtype=str)
    return check_labels(y, n, str(path)), class_names(y)
