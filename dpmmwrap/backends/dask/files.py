"""Dask for the command line: a client, and files on storage that all workers see as Dask arrays, so that each worker
reads its own rows.

The client reads only headers. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.files import InputError, files_of
from dpmmwrap.files.arrow import numeric_row_groups, read_row_group

BLOCK_BYTES = 32 << 20
"""Bytes of a .npy file to read at once."""
KINDS = (".npy", ".parquet")
CONNECTED_WITHIN = 20.0


class Lazy(NamedTuple):
    """The rows of files."""

    X: Any
    """A Dask array (N, D)."""
    names: tuple[str, ...] | None = None


def open_lazily(paths: Sequence[Path]) -> Lazy:
    """A .npy file, a folder or pattern of .npy or .parquet files in the order of their names, or a zarr array."""
    files = files_of(paths)
    if len(files) == 1 and any((files[0] / name).exists() for name in (".zarray", "zarr.json")):
        return open_zarr(files[0])
    data_files = []
    for path in files:
        inside = sorted(one for one in path.iterdir() if one.suffix.lower() in KINDS) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path} should hold .npy or .parquet files, or a zarr array, but it holds none")
        data_files += inside
    for path in data_files:
        if not path.exists():
            raise InputError(f"{path} should be a file, but it does not exist")
        if path.suffix.lower() not in KINDS:
            raise InputError(f"on Dask {path} should be .npy, .parquet, a folder of these, or zarr")
    kinds = {path.suffix.lower() for path in data_files}
    if len(kinds) > 1:
        raise InputError(f"{files[0]} should hold files of one kind, not {' and '.join(sorted(kinds))}")
    absolute = [path.resolve() for path in data_files]
    return open_parquet(absolute) if kinds == {".parquet"} else open_npy(absolute)


def open_zarr(path: Path) -> Lazy:
    import dask.array as da

    try:
        X = da.from_zarr(str(path.resolve()))
    except ImportError as error:
        raise InputError(f"{path} needs zarr, which is not installed (pip install 'dpmmwrap[dask]')") from error
    except Exception as error:
        raise InputError(f"{path} should be a zarr array, but it is damaged or something else") from error
    check_shape(X.shape, X.dtype, path)
    return Lazy(X)


def check_shape(shape: tuple[int, ...], kind: Any, path: Path) -> None:
    if len(shape) != 2:
        raise InputError(f"{path} should hold an array of 2 dimensions, not {len(shape)}")
    if np.dtype(kind).kind not in "fiub":
        raise InputError(f"{path} should hold numbers, not {kind}")


def open_npy(paths: list[Path]) -> Lazy:
    blocks, width, kinds = [], None, set()
    for path in paths:
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise InputError(f"{path} should be a .npy file, but it is damaged or something else") from error
        check_shape(array.shape, array.dtype, path)
        if width not in (None, array.shape[1]):
            raise InputError(f"{path} should have {width} columns like {paths[0]}, not {array.shape[1]}")
        width = array.shape[1]
        kinds.add(array.dtype)
        rows = max(1, BLOCK_BYTES // max(1, array.dtype.itemsize * array.shape[1]))
        for begin in range(0, len(array), rows):
            end = min(begin + rows, len(array))
            blocks.append((read_npy_rows, (str(path), begin, end), end - begin))
    kind = np.float32 if kinds == {np.dtype(np.float32)} else np.float64
    return Lazy(array_of(blocks, int(width or 0), kind))


def read_npy_rows(path: str, begin: int, end: int, kind: Any) -> Any:
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[begin:end], dtype=kind)


def open_parquet(paths: list[Path]) -> Lazy:
    blocks, names, narrow = [], None, True
    for path in paths:
        groups = numeric_row_groups(path)
        if names not in (None, groups.names):
            raise InputError(f"{path} should have the columns of {paths[0]}, in their order")
        names, narrow = groups.names, narrow and groups.narrow
        for number, rows in enumerate(groups.rows):
            if rows:
                blocks.append((read_row_group, (str(path), number, groups.names), rows))
    assert names is not None
    return Lazy(array_of(blocks, len(names), np.float32 if narrow else np.float64), names)


def array_of(blocks: list[tuple[Any, tuple[Any, ...], int]], width: int, kind: Any) -> Any:
    """A Dask array of blocks that functions read, each with its arguments and its number of rows."""
    import dask
    import dask.array as da

    if not blocks:
        raise InputError("the files should hold at least 2 points, but they hold none")
    read = [
        da.from_delayed(dask.delayed(function, pure=True)(*arguments, kind), (rows, width), dtype=kind)
        for function, arguments, rows in blocks
    ]
    return da.concatenate(read)


@contextlib.contextmanager
def connected(scheduler: str | None, local_workers: int | None) -> Iterator[Any]:
    """Make a client the current one."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("Dask is not installed: pip install 'dpmmwrap[dask]'") from error
    with contextlib.ExitStack() as stack:
        where: Any = scheduler
        if scheduler is None:
            cluster = LocalCluster(
                n_workers=local_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
            )
            where = stack.enter_context(cluster)
        try:
            client = stack.enter_context(Client(where, timeout=CONNECTED_WITHIN))
        except (OSError, ValueError) as error:
            message = f"no Dask scheduler answers at {scheduler} within {CONNECTED_WITHIN:.0f} s"
            raise InputError(message) from error
        yield client
