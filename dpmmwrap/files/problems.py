"""Errors about files, in one sentence: what was expected, and what came."""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import math
import os
import shlex
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence

PathLike = str | os.PathLike[str]


class InputError(ValueError):
    """A file cannot be read or written, for a reason that the user can fix."""


class MissingValues(InputError):
    """Values are missing where none may be; the caller may add advice."""


class WordsInstead(InputError):
    """Columns of a file hold words where numbers should be."""

    def __init__(self, message: str, columns: Sequence[str], distinct: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.columns = tuple(columns)
        """Their names, or their numbers (from 1) if they have none."""
        self.distinct = tuple(distinct)
        """Those whose words are mostly different: they name rows, and are not categories."""


class SparseInstead(InputError):
    """A file holds a sparse matrix where points or a table should be."""


def gap_advice(word: str, before: str) -> str:
    """Advice about a word among numbers, after `before`; empty if it has digits, as typing errors do."""
    if any(letter.isdigit() for letter in word):
        return ""
    return f"{before}if that stands for a missing value, use --missing {shlex.quote(word)}"


def as_option(columns: Sequence[str]) -> str:
    """Columns as options take them. A name that contains a comma must be given by number."""
    return shlex.quote(",".join("NUMBER" if "," in name else name for name in columns))


def decimal_commas(message: str) -> InputError:
    """Numbers have a comma where a point was expected."""
    return InputError(f"{message}; for decimal commas use --decimal ,")


def wrong_encoding(path: PathLike, named: str | None = None, byte: int | None = None) -> InputError:
    """A text is not in UTF-8, or not in the given encoding."""
    likely, where = likely_encoding(path), "" if byte is None else f" (byte {byte})"
    came = f"but it is not{where}; it looks like {likely}; use --encoding {likely}"
    return InputError(f"{path} should be text in {named or 'UTF-8'}, {came}")


DAMAGE = (
    *(ValueError, TypeError, LookupError, EOFError, ArithmeticError, SyntaxError, RuntimeError, AssertionError),
    *(csv.Error, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""What csv, zipfile, zlib, scipy and numpy raise for damaged content; numpy parses a header as Python."""


@contextlib.contextmanager
def explained(path: PathLike) -> Iterator[None]:
    """Turn whatever reading a bad file raises into one sentence."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        named = None if error.encoding.startswith("utf-8") else error.encoding
        raise wrong_encoding(path, named, error.start) from error
    except UnicodeError as error:
        # For example UTF-16 without its first two bytes.
        raise wrong_encoding(path) from error
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory; saved as .npy it would be read piece by piece") from error
    except FileNotFoundError as error:
        raise InputError(f"{path} should be a file, but it does not exist") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from error
    except DAMAGE as error:
        sentence = str(error).split("\n")[0].split(". ")[0].rstrip(".") or type(error).__name__
        raise InputError(f"{path} is damaged or not what its name says: {sentence}") from error


def likely_encoding(path: PathLike) -> str:
    """The likely encoding of a text, by its first bytes."""
    name = os.fspath(path)
    with (
        contextlib.suppress(OSError, EOFError, zlib.error),
        (gzip.open if name.endswith(".gz") else open)(name, "rb") as file,
    ):
        begin = file.read(1 << 16)
        if begin[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
        if b"\0" in begin:
            return "utf-16-le" if begin[1::2].count(0) > begin[::2].count(0) else "utf-16-be"
        # Windows has quotation marks and the euro sign where latin-1 has nothing.
        return "cp1252" if any(0x80 <= byte < 0xA0 for byte in begin) else "latin-1"
    return "latin-1"


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
    """A number that is refused, in words."""
    if math.isnan(value):
        return "not a number (NaN)"
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    return f"{value:g}, which single precision cannot hold"
