"""The sets of a battery: what is found in a folder, what is read, and what is left out."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from dpmmwrap.evaluation.sets import find_sets, names_in, open_set, read_published, read_set
from dpmmwrap.evaluation.sources import load
from dpmmwrap.files import InputError

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3)).astype(np.float32)
Y = np.arange(50) % 3


def save(folder: Path, name: str, **arrays: np.ndarray) -> str:
    np.savez(folder / f"{name}.npz", **arrays)
    return str(folder / f"{name}.npz")


def test_a_set_is_what_its_file_holds(tmp_path: Path) -> None:
    entry = open_set("a", save(tmp_path, "a", X=X, y=Y), 1000)
    assert (entry.dim, entry.clusters, entry.points, entry.total) == (3, 3, 50, 50)
    assert not entry.sparse and not entry.counts
    points, truth = load(entry)
    np.testing.assert_array_equal(points, X)
    np.testing.assert_array_equal(truth, Y)
    whole = open_set("b", save(tmp_path, "b", X=np.abs(np.round(X)), y=Y), 1000)
    assert whole.counts and whole.fingerprint != entry.fingerprint


def test_the_folder_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    here = open_set("a", save(tmp_path, "a", X=X, y=Y), 1000)
    there = open_set("a", save(tmp_path / "elsewhere", "a", X=X, y=Y), 1000)
    assert here.identity() == there.identity()


def test_a_sample_is_always_the_same(tmp_path: Path) -> None:
    path = save(tmp_path, "a", X=X, y=Y)
    first, again = read_set(path, 20), read_set(path, 20)
    np.testing.assert_array_equal(first.X, again.X)
    assert len(first.X) == len(first.y) == 20 and first.total == 50
    rows = [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in first.X]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(Y[rows], first.y)
    assert open_set("a", path, 20).identity() != open_set("a", path, 21).identity()


def test_sparse_counts(tmp_path: Path) -> None:
    counts = sparse.csr_matrix(rng.poisson(0.3, size=(30, 12)))
    parts = {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": np.array(counts.shape)}
    entry = open_set("text", save(tmp_path, "text", **parts, y=np.arange(30) % 2), 25)
    assert entry.sparse and entry.counts and (entry.points, entry.dim) == (25, 12)
    found, truth = load(entry)
    assert sparse.issparse(found) and found.shape == (25, 12) and len(truth) == 25


@pytest.mark.parametrize(
    ("labels", "expected", "classes"),
    [
        ([-1, 0, 1, 2], [-1, 0, 1, 2], 3),
        # Two classes that happen to be called so, and numbers below -1, are classes.
        ([-1, 1, -1, 1], [0, 1, 0, 1], 2),
        ([-2, -1, 0, 1], [0, 1, 2, 3], 4),
        ([5, 7, 9, 7], [0, 1, 2, 1], 3),
    ],
)
def test_unknown_classes(tmp_path: Path, labels: list[int], expected: list[int], classes: int) -> None:
    path = save(tmp_path, "a", X=X[:40], y=np.tile(labels, 10))
    np.testing.assert_array_equal(read_set(path, 1000).y, np.tile(expected, 10))
    assert open_set("a", path, 1000).clusters == classes


def test_names_and_patterns(tmp_path: Path) -> None:
    for name in ("b_two", "a_one", "b_one"):
        save(tmp_path, name, X=X, y=Y)
    (tmp_path / "notes.txt").write_text("")
    assert [entry.data for entry in find_sets([str(tmp_path)], [], 99).sets] == ["a_one", "b_one", "b_two"]
    assert [entry.data for entry in find_sets([str(tmp_path)], ["b_*", "x"], 99).sets] == ["b_one", "b_two"]
    with pytest.raises(InputError, match=r"no set in .* matches c_\*"):
        find_sets([str(tmp_path)], ["c_*"], 99)


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    save(tmp_path, "good", X=X, y=Y)
    save(tmp_path, "alike", X=X, y=np.zeros(50))
    save(tmp_path, "unlabelled", X=X)
    save(tmp_path, "gaps", X=np.where(X > 2, np.nan, X), y=Y)
    (tmp_path / "damaged.npz").write_bytes(b"nothing")
    found = find_sets([str(tmp_path)], [], 99)
    assert [entry.data for entry in found.sets] == ["good"]
    assert [note.split(" is left out: ")[0] for note in found.notes] == ["alike", "damaged", "gaps", "unlabelled"]
    assert "two classes" in found.notes[0] and "array named y" in found.notes[3]
    with pytest.raises(InputError, match="alike is left out"):
        find_sets([str(tmp_path)], ["alike"], 99)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"should be a folder of \.npz files, but has none"):
        names_in(str(tmp_path))
    with pytest.raises(InputError, match="but it does not exist"):
        names_in(str(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="but it is a file"):
        names_in(str(tmp_path / "file"))
    (tmp_path / "more").mkdir()
    for folder in (tmp_path, tmp_path / "more"):
        save(folder, "a", X=X, y=Y)
    with pytest.raises(InputError, match="but two are called a"):
        find_sets([str(tmp_path), str(tmp_path / "more")], [], 99)


def test_sets_that_scikit_learn_ships() -> None:
    found = find_sets(["scikit-learn"], ["sklearn_iris", "sklearn_digits"], 10_000).sets
    assert [(entry.data, entry.dim, entry.clusters) for entry in found] == [
        ("sklearn_digits", 64, 10),
        ("sklearn_iris", 4, 3),
    ]
    np.testing.assert_array_equal(load(found[1])[0], load_iris().data)


def test_published_scores(tmp_path: Path) -> None:
    assert read_published([str(tmp_path)]) == {}
    (tmp_path / "index.csv").write_text('name,points,"published ARI, EM","published NMI"\na,50,0.5,\nb,60,,\n')
    assert read_published([str(tmp_path)]) == {"a": {"published ARI, EM": "0.5", "published NMI": ""}}
    (tmp_path / "index.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_published([str(tmp_path)])
