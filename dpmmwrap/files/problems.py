"""What can be wrong with a file, in one sentence: what was expected, and what came."""

from __future__ import annotations

import contextlib
import csv
import errno
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence

PathLike = str | os.PathLike[str]


class InputError(ValueError):
    """What the user gave cannot be used: a file to read or a place to write. One sentence says why."""


class MissingValues(InputError):
    """Values are missing in a file where none may be: who asked for it may know a way out."""


class WordsInstead(InputError):
    """Columns of a file hold words where numbers should be."""

    def __init__(self, message: str, columns: Sequence[str], distinct: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.columns = tuple(columns)
        """Their names, or their numbers (from 1) where they have none."""
        self.distinct = tuple(distinct)
        """Those among them in which no word comes twice: they name rows, and are no categories."""


class DecimalCommas(InputError):
    """Numbers of a file have a comma where a point was expected."""


class SparseInstead(InputError):
    """A file holds a sparse matrix where points or a table should be."""


DAMAGE = (
    *(ValueError, TypeError, LookupError, EOFError, ArithmeticError, SyntaxError, RuntimeError, AssertionError),
    *(csv.Error, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""What csv, zipfile, zlib and numpy raise for damaged or strange content; numpy parses a header as Python."""


@contextlib.contextmanager
def explained(path: PathLike) -> Iterator[None]:
    """Turn whatever reading a bad file raises into one sentence."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{path} should be text in UTF-8, but it is not (byte {error.start})") from error
    except MemoryError as error:
        message = f"{path} does not fit into memory; saved as .npy it would be read piece by piece"
        raise InputError(message) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from error
    except DAMAGE as error:
        raise InputError(f"{path} is damaged or not what its name says: {first_sentence(error)}") from error


def first_sentence(error: Exception) -> str:
    return str(error).split("\n")[0].split(". ")[0].rstrip(".") or type(error).__name__


def reason(error: OSError) -> str:
    """Why the system refused, in words."""
    reasons = {
        errno.ENOSPC: "no space is left on the disk",
        errno.EDQUOT: "the disk quota is used up",
        errno.EACCES: "no permission",
        errno.EPERM: "no permission",
        errno.EROFS: "the disk is read-only",
        errno.ENOENT: "there is no such folder",
        errno.ENOTDIR: "part of the path is a file, not a folder",
        errno.EISDIR: "it is a folder",
    }
    return reasons.get(error.errno or 0, error.strerror or str(error))


def name_of(value: float) -> str:
    """What is wrong with a number."""
    if math.isnan(value):
        return "not a number (NaN)"
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    return f"{value:g}, which single precision cannot hold"
