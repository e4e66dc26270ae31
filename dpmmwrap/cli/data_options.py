"""What the commands that read data ask of it: which columns, which rows, and what is done to them first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dpmmwrap.cli.format_options import format_of, format_options

if TYPE_CHECKING:
    from dpmmwrap.files import Format, Selection

Option = Callable[[Any], Any]

FORMATS = ".npy, .npz (X, and y if there), .csv, .tsv (also .gz), .parquet, .feather or .xlsx"


def column_list(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Columns with commas between them."""
    if value is None:
        return None
    columns = tuple(word.strip() for word in value.split(",") if word.strip())
    if not columns:
        raise click.BadParameter("expected names or numbers of columns, with commas between them.", ctx, option)
    return columns


def column_options(option: Callable[..., Option], written: Callable[..., Option] | None = None) -> tuple[Option, ...]:
    """Which columns of a file are features; `option` is click's, or one for a section of the help. So is `written`, for
    how the file is written."""
    return (
        option(
            "--columns",
            callback=column_list,
            metavar="COLS",
            help="Cluster by these columns only: names or numbers from 1, with commas between them.",
        ),
        option("--drop", callback=column_list, metavar="COLS", help="Leave out these columns."),
        option("--id", "id_column", metavar="COLUMN", help="The column that names the rows; it is not clustered by."),
        *format_options(written or option),
    )


def skip_option(option: Callable[..., Option]) -> Option:
    return option("--skip-missing", is_flag=True, help="Leave out rows with missing values.")


def data_options(option: Callable[..., Option], written: Callable[..., Option] | None = None) -> tuple[Option, ...]:
    """The columns, their true labels, and what is done to the rows before the fit."""
    return (
        *column_options(option, written),
        option(
            "--labels",
            metavar="COLUMN|FILE",
            help="True labels, for NMI and ARI: a column of the same file, or a file of one per line (else y of a "
            ".npz).",
        ),
        skip_option(option),
        option("--scale", is_flag=True, help="Standardise numeric columns first: mean 0, variance 1."),
        option(
            "--pca",
            type=click.IntRange(min=0),
            metavar="N",
            help="Project on N principal components first, where there are more features.",
        ),
    )


class TrueLabels(NamedTuple):
    """Where the true labels are: in a column of the data, or in a file of their own."""

    column: str | None = None
    file: Path | None = None


def true_labels(value: str | None, data: Path, format: Format) -> TrueLabels:
    """A column of the data if there is one of that name, else a file if it looks like one."""
    if value is None:
        return TrueLabels()
    from dpmmwrap.files import read_names
    from dpmmwrap.files.labels import LABEL_FILES
    from dpmmwrap.files.paths import ending

    if value in (read_names(data, format) or ()):
        return TrueLabels(column=value)
    if Path(value).exists() or ending(Path(value)) in LABEL_FILES:
        return TrueLabels(file=Path(value))
    return TrueLabels(column=value)


def selection_of(options: dict[str, Any], labels: str | None = None) -> Selection:
    """The columns that the options ask for."""
    from dpmmwrap.files import Selection

    return Selection(options["columns"], options["drop"] or (), options["id_column"], labels, format_of(options))


def left_out_note(rows: int) -> str:
    """What is to be said of rows that --skip-missing leaves out."""
    from dpmmwrap.describe.plotting import counted

    return f"{counted(rows, 'row')} with missing values left out"
