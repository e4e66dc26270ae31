"""Options of all commands that read data: files, columns, rows, transformations; standard input."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.cli.common import Option, column_list, word_list

if TYPE_CHECKING:
    from dpmmwrap.files import Format, Selection


SEPARATORS = {"tab": "\t", "\\t": "\t", "blank": " ", "blanks": " ", "space": " ", "comma": ",", "pipe": "|"}
"""Names of separators that are hard to type."""


def one_mark(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A separator: one character, or its name."""
    mark = SEPARATORS.get(value or "", value)
    if mark is not None and (len(mark) != 1 or mark in '"\r\n' or mark.isalnum()):
        raise click.BadParameter(f"expected one character, tab or blank, not {value!r}.", ctx, option)
    return mark


def known_encoding(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    try:
        "".encode(value or "utf-8")
    except LookupError as error:
        raise click.BadParameter(f"{value!r} is not a text encoding.", ctx, option) from error
    return value


def format_options(option: Callable[..., Option]) -> tuple[Option, ...]:
    # fmt: off
    return (
        option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True,
            help="The decimal mark in text files; commas need ; or tabs between fields, or quotes."),
        option("--thousands", type=click.Choice([",", "."]),
            help="The mark between thousands, if 3,750 could also be 3.75."),
        option("--sep", callback=one_mark, metavar="MARK",
            help="What separates fields: a mark such as '|', tab, or blank for any number of blanks. By default it is "
            "detected."),
        option("--encoding", callback=known_encoding, metavar="NAME", show_default="utf-8",
            help="The encoding of text files, such as utf-16, latin-1 or cp1252."),
        option("--sheet", metavar="NAME|NUMBER", show_default="the first", help="The sheet of an Excel file."),
        option("--missing", callback=word_list, default="", metavar="WORDS",
            help="Further words for missing values, such as -999,unknown. Empty fields, NA and NaN are always missing; "
            "? and - are missing among numbers."),
    )
    # fmt: on


def format_of(options: dict[str, Any]) -> Format:
    from dpmmwrap.files import Format

    return Format(*(options[name] for name in ("decimal", "thousands", "sep", "encoding", "sheet", "missing")))


def column_options(option: Callable[..., Option], written: Callable[..., Option] | None = None) -> tuple[Option, ...]:
    """Options about the columns. `option` makes an option, and `written` one about the format of files."""
    # fmt: off
    return (
        option("--columns", callback=column_list, metavar="COLS",
            help="The features: names of columns, or their numbers from 1, separated by commas. By default all."),
        option("--drop", callback=column_list, metavar="COLS", help="Leave out these columns."),
        option("--id", "id_column", metavar="COLUMN", help="The column that names the rows; it is not a feature."),
        *format_options(written or option),
    )
    # fmt: on


def skip_option(option: Callable[..., Option]) -> Option:
    return option("--skip-missing", is_flag=True, help="Leave out rows with missing values.")


def data_options(option: Callable[..., Option], written: Callable[..., Option] | None = None) -> tuple[Option, ...]:
    """Options about the columns, true labels and transformations."""
    # fmt: off
    return (
        *column_options(option, written),
        option("--labels", metavar="COLUMN|FILE",
            help="True labels, for NMI and ARI: a column of DATA, or a file with one label per line. By default y of a "
            ".npz."),
        skip_option(option),
        option("--scale", is_flag=True, help="Standardise numeric columns first: mean 0, variance 1."),
        option("--pca", type=click.IntRange(min=0), metavar="N",
            help="Project on N principal components first, if there are more features."),
    )
    # fmt: on


def true_labels(value: str | None, data: Path, format: Format) -> tuple[str | None, Path | None]:
    """The source of the true labels: a column of the data if it has that name, else a file if it looks like one."""
    from dpmmwrap.files import read_names
    from dpmmwrap.files.paths import ending
    from dpmmwrap.files.reading import LABEL_FILES

    if value is None or value in (read_names(data, format) or ()):
        return value, None
    file = Path(value)
    return (None, file) if file.exists() or ending(file) in LABEL_FILES else (value, None)


def selection_of(options: dict[str, Any], labels: str | None = None) -> Selection:
    from dpmmwrap.files import Selection

    return Selection(options["columns"], options["drop"] or (), options["id_column"], labels, format_of(options))


def column_of_text(options: dict[str, Any], column: str) -> Any:
    """A column of the files that is not a feature, as text."""
    from dpmmwrap.files import files_of, find_columns, read_as_text

    files = files_of(options["data"])
    text = read_as_text(files, format_of(options))
    (name,) = find_columns([column], tuple(text), files[0])
    return text[name]


def left_out_note(rows: int) -> str:
    from dpmmwrap.describe.wording import counted

    return f"{counted(rows, 'row')} with missing values left out"


CALLED = "standard input"
KINDS = ((b"\x93NUMPY", ".npy"), (b"PAR1", ".parquet"), (b"ARROW1", ".feather"), (b"\x1f\x8b", ".csv.gz"))
"""The first bytes of files; files that begin differently are text."""


def piped(ctx: click.Context, paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths, with `-` replaced by a temporary file of standard input."""
    if not any(str(path) == "-" for path in paths):
        return tuple(paths)
    content = sys.stdin.buffer.read()
    ending = next((ending for begin, ending in KINDS if content.startswith(begin)), ".csv")
    if content.startswith(b"PK"):
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
            ending = ".xlsx" if "[Content_Types].xml" in archive.namelist() else ".npz"
    folder = Path(ctx.with_resource(tempfile.TemporaryDirectory(prefix="dpmmwrap-")))
    file = folder / f"standard-input{ending}"
    file.write_bytes(content)
    return tuple(file if str(path) == "-" else path for path in paths)


def is_piped(path: Path) -> bool:
    return path.name.startswith("standard-input") and path.parent.name.startswith("dpmmwrap-")


@contextlib.contextmanager
def by_its_name(paths: Sequence[Path]) -> Iterator[None]:
    """Let error messages name standard input instead of its temporary file."""
    from dpmmwrap.files import InputError

    try:
        yield
    except InputError as error:
        raise InputError(called(str(error), paths)) from error


def called(source: str, paths: Sequence[Path]) -> str:
    """The source of the points, in words; standard input instead of its temporary file."""
    for path in paths:
        source = source.replace(str(path), CALLED) if is_piped(path) else source
    return source
