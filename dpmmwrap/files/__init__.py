"""Reading data files, writing results (atomically). Nothing here ever unpickles."""

from dpmmwrap.files.problems import InputError
from dpmmwrap.files.reading import (
    Data,
    check_labels,
    check_points,
    read_arrays,
    read_data,
    read_json,
    read_labels,
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
    "check_labels",
    "check_points",
    "check_writable",
    "prepare_folder",
    "read_arrays",
    "read_data",
    "read_json",
    "read_labels",
    "write_atomically",
    "write_csv",
    "write_json",
    "write_npy",
    "write_npz",
]
