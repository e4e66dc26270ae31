"""True labels from a file of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpmmwrap.arrays import IntArray
from dpmmwrap.files.checks import check_labels
from dpmmwrap.files.npy import read_arrays, read_npy
from dpmmwrap.files.paths import known_suffix
from dpmmwrap.files.problems import PathLike, explained
from dpmmwrap.files.text import open_text

LABEL_FILES = (".npy", ".npz", ".csv", ".tsv", ".txt", ".csv.gz", ".txt.gz")


def read_labels(path: PathLike, n: int) -> IntArray:
    """A label per point, as numbers from 0: of a .npy, .npz (`y`), or .csv, .tsv, .txt, one in each line."""
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
            # One line too many is the column's name; labels may be words, so nothing else tells it apart.
            y = np.array(words[1:] if len(words) == n + 1 else words, dtype=str)
    return check_labels(y, n, str(path))
