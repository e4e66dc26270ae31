"""Reading data files, writing results (atomically). Nothing here unpickles."""

from dpmmwrap.files.checks import check_classes, check_labels, check_points
from dpmmwrap.files.npy import read_arrays
from dpmmwrap.files.paths import files_of, source_of
from dpmmwrap.files.problems import InputError, MissingValues, SparseInstead, WordsInstead
from dpmmwrap.files.reading import Data, read_as_text, read_data, read_json, read_labels, read_names
from dpmmwrap.files.selection import Selection, find_columns
from dpmmwrap.files.text import Format
from dpmmwrap.files.writing import (
    check_writable,
    csv_text,
    prepare_folder,
    write_atomically,
    write_csv,
    write_json,
    write_npy,
    write_npz,
)

__all__ = [
    "Data",
    "Format",
    "InputError",
    "MissingValues",
    "Selection",
    "SparseInstead",
    "WordsInstead",
    "check_classes",
    "check_labels",
    "check_points",
    "check_writable",
    "csv_text",
    "files_of",
    "find_columns",
    "prepare_folder",
    "read_arrays",
    "read_as_text",
    "read_data",
    "read_json",
    "read_labels",
    "read_names",
    "source_of",
    "write_atomically",
    "write_csv",
    "write_json",
    "write_npy",
    "write_npz",
]
