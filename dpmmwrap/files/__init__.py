"""Reading data files, writing results (atomically). Nothing here ever unpickles."""

from dpmmwrap.files.columns import find_columns
from dpmmwrap.files.problems import InputError, MissingValues, SparseInstead, WordsInstead
from dpmmwrap.files.reading import (
    Data,
    check_labels,
    check_points,
    read_arrays,
    read_data,
    read_json,
    read_labels,
    read_names,
)
from dpmmwrap.files.writing import (
    check_writable,
    prepare_folder,
    write_atomically,
    write_csv,
    write_json,
    write_npy,
    write_npz,
)

__all__ = [
    "Data",
    "InputError",
    "MissingValues",
    "SparseInstead",
    "WordsInstead",
    "check_labels",
    "check_points",
    "check_writable",
    "find_columns",
    "prepare_folder",
    "read_arrays",
    "read_data",
    "read_json",
    "read_labels",
    "read_names",
    "write_atomically",
    "write_csv",
    "write_json",
    "write_npy",
    "write_npz",
]
