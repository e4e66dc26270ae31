"""Sparse counts: read as they are, never made dense, and what is wrong with them in one sentence."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap.files import InputError, SparseInstead, read_data

COUNTS = np.array([[2, 0, 0, 1], [0, 0, 3, 0], [0, 0, 0, 0], [1, 1, 0, 5]])
CSR = sparse.csr_matrix(COUNTS.astype(np.int16))
ARRAYS = {"data": CSR.data, "indices": CSR.indices, "indptr": CSR.indptr, "shape": np.array(CSR.shape)}


def message_of(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_data(path, kind="counts", **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@pytest.fixture
def never_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, *arguments: object, **options: object) -> None:
        raise AssertionError("made dense")

    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("made", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
@pytest.mark.parametrize("compressed", [True, False])
def test_what_scipy_writes(tmp_path: Path, made: Any, compressed: bool) -> None:
    sparse.save_npz(tmp_path / "x.npz", made(COUNTS), compressed=compressed)
    data = read_data(tmp_path / "x.npz", kind="counts")
    assert data.X.format == "csr" and data.X.has_canonical_format
    assert (len(data), data.dim, data.y) == (4, 4, None)
    assert abs(data.X - sparse.csr_matrix(COUNTS)).nnz == 0


@pytest.mark.usefixtures("never_dense")
def test_arrays_with_labels(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", **ARRAYS, y=np.array(["b", "a", "a", "b"]))
    data = read_data(tmp_path / "x.npz", kind="counts")
    assert data.X.dtype == np.float32
    assert data.y is not None and data.y.tolist() == [1, 0, 0, 1]
    assert (data.X != CSR).nnz == 0
    assert (data.rows(slice(1, 3)) != CSR[1:3]).nnz == 0
    assert data.complete().all()


def test_unsorted_and_repeated_entries_are_put_in_order(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "x.npz",
        data=np.array([1.0, 2.0, 3.0, 4.0, 0.0]),
        indices=np.array([3, 0, 3, 1, 2]),
        indptr=np.array([0, 3, 5]),
        shape=np.array([2, 4]),
    )
    X = read_data(tmp_path / "x.npz", kind="counts").X
    assert X.has_canonical_format
    assert X.toarray().tolist() == [[2, 0, 0, 4], [0, 4, 0, 0]]
    assert X.nnz == 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": ARRAYS["data"].astype(float) * np.nan}, "row 1, column 1, counted from 1, is not a number (NaN)"),
        ({"data": np.array([1, 1, 1, 1, 1, np.inf])}, "row 4, column 4, counted from 1, is infinity"),
        ({"data": np.array([1, 1, -2, 1, 1, 1])}, "row 2, column 3, counted from 1, is -2"),
        ({"data": ARRAYS["data"].astype(str)}, "should hold counts, but its data are of type <U"),
        ({"data": ARRAYS["data"][:-1]}, "it holds 5 counts, but 6 indices"),
        ({"data": ARRAYS["data"][None]}, "a list of counts and lists of whole numbers"),
        ({"indices": ARRAYS["indices"] + 1}, "damaged or not what its name says"),
        ({"indices": ARRAYS["indices"] - 1}, "damaged or not what its name says"),
        ({"indices": ARRAYS["indices"] * 0.5}, "a list of counts and lists of whole numbers"),
        ({"indptr": ARRAYS["indptr"][:-1]}, "damaged or not what its name says"),
        ({"indptr": np.array([0, 2, 1, 3, 6])}, "non-decreasing"),
        ({"indptr": np.array([0, 2, 3, 3, 5])}, "its indptr should end with 6, but it ends with 5"),
        ({"indptr": np.array([0, 5, 3, 3, 6], dtype=np.uint32)}, "non-decreasing"),
        ({"shape": np.array([4, 4, 1])}, "its shape should be two numbers"),
        ({"shape": np.array([-4, 4])}, "its shape should be two numbers"),
        ({"shape": np.array([0, 4]), "indptr": np.array([0])}, "no rows"),
        ({"shape": np.array([4, 2**40])}, "its shape should be two numbers"),
        ({"format": np.array(b"dia")}, "one of the formats csr, csc, coo, but it is in 'dia'"),
        ({"y": np.arange(3)}, "each of 4 points, but it holds 3"),
    ],
)
def test_what_is_wrong_with_sparse_counts(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    np.savez(tmp_path / "x.npz", **(ARRAYS | changed))
    assert said in message_of(tmp_path / "x.npz")


def test_coo_outside_its_shape(tmp_path: Path) -> None:
    np.savez(
        *(tmp_path / "x.npz",), data=np.ones(2), row=np.array([0, 9]), col=np.array([1, 1]), shape=np.array([4, 4]),
        format=np.array(b"coo"),
    )  # fmt: skip
    assert "damaged or not what its name says" in message_of(tmp_path / "x.npz")


def test_one_row_is_too_few_for_a_fit(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", CSR[:1])
    assert "at least 2 points, but it holds 1" in message_of(tmp_path / "x.npz")
    assert len(read_data(tmp_path / "x.npz", kind="counts", at_least=1)) == 1


def test_half_an_archive(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", CSR)
    content = (tmp_path / "x.npz").read_bytes()
    for keep in (0, 50, 300, len(content) - 30):
        (tmp_path / "half.npz").write_bytes(content[:keep])
        message_of(tmp_path / "half.npz")
    with zipfile.ZipFile(tmp_path / "x.npz") as whole, zipfile.ZipFile(tmp_path / "some.npz", "w") as some:
        for name in ("data.npy", "indptr.npy", "shape.npy", "format.npy"):
            some.writestr(name, whole.read(name))
    assert "should hold an array named indices" in message_of(tmp_path / "some.npz")


def test_sparse_where_points_or_a_table_are_wanted(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", CSR)
    with pytest.raises(SparseInstead, match="should hold points, but it holds a sparse matrix"):
        read_data(tmp_path / "x.npz")
    with pytest.raises(SparseInstead, match="should hold a table"):
        read_data(tmp_path / "x.npz", kind="table")


def test_dense_counts(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", COUNTS)
    np.testing.assert_array_equal(read_data(tmp_path / "x.npy", kind="counts").X, COUNTS)
    (tmp_path / "x.csv").write_text("cat,dog\n1,0\n2,-1\n")
    assert "row 2, column 'dog', is -1" in message_of(tmp_path / "x.csv")
    np.save(tmp_path / "x.npy", np.where(COUNTS == 5, np.nan, COUNTS))
    assert "NaN" in message_of(tmp_path / "x.npy")
    assert read_data(tmp_path / "x.npy", kind="counts", gaps=True).complete().tolist() == [True, True, True, False]


@pytest.mark.parametrize("name", ["text_gsdmm_Tweet", "text_octis_BBC_News"])
def test_texts_that_others_counted(name: str) -> None:
    path = Path("/work/shared/data/public") / f"{name}.npz"
    if not path.exists():
        pytest.skip("these data are not here")
    data = read_data(path, kind="counts")
    assert data.y is not None and len(data.y) == len(data)
    assert data.X.min() >= 0
