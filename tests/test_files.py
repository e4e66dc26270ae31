"""Files: every format in, every problem in one sentence, and never half a file out."""

import errno
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from dpmmwrap import files
from dpmmwrap.files import InputError, checks, read_data, read_labels, write_atomically, writing

X = np.array([[1.5, -2.0, 3.0], [4.0, 5.25, -6.0], [7.0, 8.0, 9.0], [0.5, 0.0, 1e-3]])


class Bomb:
    """Unpickling this leaves a file behind."""

    def __init__(self, fuse: Path) -> None:
        self.fuse = fuse

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.fuse,)


def message_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_data(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


# Formats


def test_npy_is_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    data = read_data(tmp_path / "x.npy")
    assert isinstance(data.X, np.memmap)
    assert data.X.dtype == np.float32
    assert data.y is None
    np.testing.assert_array_equal(data.X, X.astype(np.float32))


def test_npz_brings_its_labels(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", X=X, y=np.array([7, 7, -1, 3]), more=np.arange(3))
    data = read_data(tmp_path / "x.npz")
    np.testing.assert_array_equal(data.X, X)
    assert data.y is not None
    assert data.y.dtype == np.int32
    assert data.y.tolist() == [2, 2, 0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "1.5,-2,3\n4,5.25,-6\n7,8,9\n.5,0,1e-3\n",
        "a,b,c\n1.5,-2,3\n4,5.25,-6\n7,8,9\n.5,0,1e-3",
        'width,"the, height",_z\r\n1.5,-2,3\r\n4,5.25,-6\r\n7,8,9\r\n.5,0,1e-3\r\n',
        '"1.5","-2","3"\n"4","5.25","-6"\n"7","8","9"\n".5","0","1e-3"\n',
        "\ufeffa,b,c\n1.5,-2,3\n\n4,5.25,-6\n7,8,9\n.5,0,1e-3\n\n",
        "# made by hand\n\na;b;c\n1.5;-2;3\n4;5.25;-6\n7;8;9\n.5;0;1e-3\n",
        ",0,1,2\n0,1.5,-2,3\n1,4,5.25,-6\n2,7,8,9\n3,.5,0,1e-3\n",
        '"","a","b","c"\n"r1",1.5,-2,3\n"r2",4,5.25,-6\n"r3",7,8,9\n"r4",.5,0,1e-3\n',
    ],
    ids=[
        "plain",
        "header",
        "quoted header",
        "quoted",
        "byte order mark",
        "semicolons",
        "pandas index",
        "R row names",
    ],
)
def test_csv(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(read_data(tmp_path / "x.csv").X, X)


def test_tsv(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tb, c\n1\t2\n3\t4\n")
    np.testing.assert_array_equal(read_data(tmp_path / "x.tsv").X, [[1, 2], [3, 4]])


def test_csv_with_one_column(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1\n2\n3\n")
    assert read_data(tmp_path / "x.csv").X.shape == (3, 1)


def test_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": X[:, 0], "b": [1, 2, 3, 4], "c": [True, False, True, True]}, index=[5, 6, 8, 7])
    frame.to_parquet(tmp_path / "x.parquet")
    expected = np.column_stack([X[:, 0], [1, 2, 3, 4], [1, 0, 1, 1]])
    np.testing.assert_array_equal(read_data(tmp_path / "x.parquet").X, expected)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pyarrow, which is not installed" in message_of(tmp_path / "x.parquet")


@pytest.mark.parametrize(("dtype", "kept"), [("u1", "f4"), ("i8", "f8"), ("f2", "f4"), ("?", "f4"), (">f8", ">f8")])
def test_numbers_of_any_kind_are_points(tmp_path: Path, dtype: str, kept: str) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2), dtype=dtype))
    assert read_data(tmp_path / "x.npy").X.dtype == np.dtype(kept)


@settings(deadline=None, max_examples=40)
@given(
    table=arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(-1e30, 1e30, allow_nan=False, allow_subnormal=False),
    )
)
def test_csv_keeps_every_digit(tmp_path_factory: pytest.TempPathFactory, table: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("round") / "x.csv"
    files.write_csv(path, {f"column {i}": table[:, i] for i in range(table.shape[1])})
    np.testing.assert_array_equal(read_data(path, at_least=1).X, table)


# Problems


def test_missing_file_folder_and_unknown_ending(tmp_path: Path) -> None:
    assert "it does not exist" in message_of(tmp_path / "none.npy")
    assert "it is a folder" in message_of(tmp_path)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(X))
    assert "ends in .pkl" in message_of(tmp_path / "x.pkl")
    (tmp_path / "noending").touch()
    assert "has no ending" in message_of(tmp_path / "noending")


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    bomb = Bomb(tmp_path / "exploded")
    (tmp_path / "a.npy").write_bytes(pickle.dumps(bomb))
    np.save(tmp_path / "b.npy", np.array([[bomb, bomb]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "c.npz", X=np.array([[bomb, 1]], dtype=object))
    np.savez(tmp_path / "d.npz", X=X, y=np.array([bomb] * 4, dtype=object))
    with zipfile.ZipFile(tmp_path / "e.npz", "w") as archive:
        archive.writestr("X", pickle.dumps(bomb))
    assert "a pickle, which is never loaded" in message_of(tmp_path / "a.npy")
    assert "Python objects, which are never loaded" in message_of(tmp_path / "b.npy")
    assert "Python objects, which are never loaded" in message_of(tmp_path / "c.npz")
    assert "y in" in message_of(tmp_path / "d.npz")
    assert "a pickle, which is never loaded" in message_of(tmp_path / "e.npz")
    assert not bomb.fuse.exists()
    pickle.loads(pickle.dumps(bomb))
    assert bomb.fuse.exists()


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(5), "it has 1: its shape is (5,)"),
        (np.zeros((2, 2, 2)), "it has 3"),
        (np.array(1.0), "it has 0"),
        (np.zeros((0, 3)), "no rows"),
        (np.zeros((3, 0)), "no columns"),
        (np.zeros((1, 3)), "at least 2 points, but it holds 1"),
        (np.array([["a", "b"]] * 2), "text"),
        (np.zeros((2, 2), dtype=complex), "complex numbers"),
        (np.zeros((2, 2), dtype="M8[s]"), "dates"),
        (np.zeros((2, 2), dtype=[("left", "f4"), ("right", "f4")]), "records (left, right)"),
    ],
)
def test_what_are_not_points(tmp_path: Path, array: np.ndarray, said: str) -> None:
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", X=array)
    assert said in message_of(tmp_path / "x.npy")
    assert said in message_of(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.nan, "NaN"),
        (np.inf, "is infinity"),
        (-np.inf, "minus infinity"),
        (1e300, "1e+300, which single precision"),
    ],
)
def test_where_a_number_is_not_finite(tmp_path: Path, value: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small chunks, so that the row lies in a later one.
    monkeypatch.setattr(checks, "CHECKED_AT_ONCE", 64)
    table = np.zeros((1000, 4))
    table[701, 2] = value
    np.save(tmp_path / "x.npy", table)
    message = message_of(tmp_path / "x.npy")
    assert "row 702, column 3" in message
    assert said in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,four\n", "line 3, column 'b' holds 'four'"),
        ("# note\n\n1,2\n\n3,\n", "line 5, column 2 holds nothing"),
        ("1.0,2.o\n3,4\n", "line 1, column 2 holds '2.o'"),
        ("1,NA\n3,4\n", "line 1, column 2 holds 'NA'"),
        ("a,b\n1,2\n3,4,5\n", "line 3 holds 3"),
        ("1,2\n3\n", "line 2 holds 1"),
        ("name,b\nx,1\ny,2\n", "column 'name' holds words, such as 'x' in line 2"),
        ("1,2\n3_0,4\n", "line 2, column 1 holds '3_0'"),
        ("a,a\n1,2\n3,4\n", "two are called 'a'"),
        ("1,2\n3,\0\n", "x.csv"),
        ("", "empty"),
        ("\n\n", "empty"),
        ("a,b\n", "no rows"),
        ("1,2\n", "at least 2 points"),
        ("1,nan\n2,3\n", "row 1, column 2"),
        ("width,height\n1,2\ninf,3\n", "row 2, column 'width', is infinity"),
    ],
)
def test_what_is_wrong_with_a_csv(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    assert said in message_of(tmp_path / "x.csv")


def test_bytes_in_a_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"1,2\n3,\xff\xfe\n")
    assert "UTF-8" in message_of(tmp_path / "x.csv")


@pytest.mark.parametrize("keep", [0, 3, 9, 60, 100, 200])
@pytest.mark.parametrize("ending", ["npy", "npz", "parquet"])
def test_half_a_file_is_reported(tmp_path: Path, ending: str, keep: int) -> None:
    path = tmp_path / f"x.{ending}"
    if ending == "npy":
        np.save(path, X)
    elif ending == "npz":
        np.savez(path, X=X)
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.DataFrame(X, columns=list("abc")).to_parquet(path)
    path.write_bytes(path.read_bytes()[:keep])
    message_of(path)


def test_a_flipped_bit_in_an_archive_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, X=np.ones((50, 2)))
    content = bytearray(path.read_bytes())
    content[400] ^= 1
    path.write_bytes(content)
    assert "damaged" in message_of(path)


def test_an_archive_without_points(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", data=X, labels=np.arange(4))
    assert "an array named X, but it holds data, labels" in message_of(tmp_path / "x.npz")


# Labels


def test_labels_of_every_kind(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.array([[3.0], [1.0], [3.0]]))
    np.savez(tmp_path / "y.npz", y=np.array(["dog", "cat", "dog"]))
    (tmp_path / "y.csv").write_text("kind\ndog\ncat\ndog\n")
    (tmp_path / "y.txt").write_text("7\n2\n7")
    for path in sorted(tmp_path.iterdir()):
        assert read_labels(path, 3).tolist() == [1, 0, 1]


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.arange(3))
    np.save(tmp_path / "square.npy", np.zeros((4, 4)))
    np.save(tmp_path / "nan.npy", np.array([0, 1, np.nan]))
    np.savez(tmp_path / "x.npz", X=X, y=np.arange(3))
    with pytest.raises(InputError, match="each of 4 points, but it holds 3"):
        read_labels(tmp_path / "y.npy", 4)
    with pytest.raises(InputError, match="one label per point"):
        read_labels(tmp_path / "square.npy", 4)
    with pytest.raises(InputError, match="row 3 is not a number"):
        read_labels(tmp_path / "nan.npy", 3)
    assert "each of 4 points, but it holds 3" in message_of(tmp_path / "x.npz")


# Writing


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "result"
    write_atomically(path, lambda file: file.write(b"old"))

    def fail(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["result"]


def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(b"old")
    script = (
        "import os, signal, sys; from dpmmwrap.files import write_atomically\n"
        "def die(file): file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], die)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode < 0
    assert path.read_bytes() == b"old"


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "labels.npy"
    files.write_npy(path, np.arange(3))
    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*labels.npy: no space is left on the disk"):
        files.write_npy(path, np.arange(4))
    assert len(np.load(path)) == 3
    assert os.listdir(tmp_path) == ["labels.npy"]


def test_places_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="but it is a file"):
        files.prepare_folder(tmp_path / "file")
    with pytest.raises(InputError, match="part of the path is a file"):
        files.prepare_folder(tmp_path / "file" / "below")
    with pytest.raises(InputError, match="it is a folder"):
        files.check_writable(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        files.check_writable(tmp_path / "none" / "file")
    with pytest.raises(InputError, match=r"takes about 1,000,000,000,000,000,000 bytes, but only [\d,]+ are free"):
        files.prepare_folder(tmp_path / "new", needed=10**18)

    def forbidden(path: Path, *arguments: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "touch", forbidden)
    with pytest.raises(InputError, match="no permission"):
        files.prepare_folder(tmp_path / "new")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="no permission"):
        files.prepare_folder(tmp_path)
    with pytest.raises(InputError, match="no permission"):
        files.prepare_folder(tmp_path / "new")


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    files.check_writable(files.prepare_folder(tmp_path / "a" / "b") / "x")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no such device here")
def test_a_device_is_written_to_not_replaced() -> None:
    files.check_writable("/dev/null")
    write_atomically("/dev/null", lambda file: file.write(b"x"))
    assert not Path("/dev/null").is_file()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", lambda file: file.write(b"x"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"


def test_new_files_can_be_read_by_whom_the_system_lets(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "ours", lambda file: file.write(b"x"))
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_objects_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="plain values"):
        files.write_npz(tmp_path / "x.npz", {"a": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_csv_leaves_a_gap_for_what_is_not_a_number(tmp_path: Path) -> None:
    files.write_csv(tmp_path / "x.csv", {"a": np.array([1, 2]), "b": np.array([0.1, np.nan])})
    assert (tmp_path / "x.csv").read_text() == "a,b\n1,0.1\n2,\n"


def test_json_is_read_back_and_its_problems_told(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", {"a": [1, 2.5]})
    assert files.read_json(tmp_path / "x.json") == {"a": [1, 2.5]}
    (tmp_path / "x.json").write_text('{\n"a": }')
    with pytest.raises(InputError, match="line 2"):
        files.read_json(tmp_path / "x.json")
