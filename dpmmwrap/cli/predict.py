"""`dpmmwrap predict`: label new points by a fitted model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.cli.answers import pieces, row_names, write_assignments, write_npy_pieces, write_probabilities
from dpmmwrap.cli.common import A_PATH, say_note, with_options
from dpmmwrap.cli.data_options import (
    by_its_name,
    column_options,
    format_of,
    left_out_note,
    piped,
    selection_of,
    skip_option,
)
from dpmmwrap.cli.preparing import repeated_ids_note

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.files import Data, Selection
    from dpmmwrap.mixture import Mixture

EXAMPLES = """
\b
Examples:
  dpmmwrap predict result/model.npz new.npy --out labels.npy
  dpmmwrap predict result/model.npz new.csv --id sample --out labels.csv
  dpmmwrap predict result/model.npz new.csv --proba --out probabilities.csv
  dpmmwrap predict result/model.npz new.csv --skip-missing --out labels.csv
"""


@click.command("predict", epilog=EXAMPLES)
@click.argument("model", type=A_PATH)
@click.argument("data", type=A_PATH, nargs=-1, required=True)
@click.option("--out", type=A_PATH, metavar="FILE", help="Write a .npy or .csv file instead of printing.")
@click.option("--proba", is_flag=True, help="The probabilities of all clusters instead of the most probable cluster.")
@click.option("--with-data", is_flag=True, help="Copy the columns of DATA into the .csv file of --out.")
@with_options(*column_options(click.option), skip_option(click.option))
@click.pass_context
def command(
    ctx: click.Context, /, model: Path, data: tuple[Path, ...], out: Path | None, proba: bool, **options: Any
) -> None:
    """Label the points of DATA with MODEL, the model.npz that `dpmmwrap fit --out` wrote, or its folder.

    This prints a line for each point: the number of its cluster, or its probabilities in all clusters. A .csv file has
    the columns row (or id), cluster, probability and outlier, without rows that are left out. DATA must be of the same
    kind as the data of the fit. The model's columns are found by name, in any order, and others are ignored.
    """
    from dpmmwrap.describe.wording import counted
    from dpmmwrap.files import InputError, check_writable, files_of, read_as_text
    from dpmmwrap.model.empty_rows import absent_note, with_values
    from dpmmwrap.posterior.mixture_file import load

    ending = None if out is None else out.suffix.lower()
    if out is not None and ending not in (".npy", ".csv"):
        raise InputError(f"--out should be a .npy or .csv file, not {out}")
    if out is not None:
        check_writable(out)
    if options["with_data"] and (ending != ".csv" or proba):
        raise InputError("--with-data needs labels in a .csv file: --out FILE.csv, without --proba")
    path = model / "model.npz" if (model / "model.npz").is_file() else model
    if path.suffix.lower() != ".npz":
        raise InputError(f"MODEL should be the model.npz of a fit, or its folder, not {model}")
    mixture = load(path)
    data = piped(ctx, data)
    with by_its_name(data):
        points = read_points(mixture, data, selection_of(options), options["skip_missing"])
        columns = read_as_text(files_of(data), format_of(options)) if options["with_data"] else {}
    for note in (*points.notes, *repeated_ids_note(points.ids, "the .csv file")):
        say_note(note)
    numbers = None
    if options["skip_missing"]:
        points, numbers = without_gaps(points)
        columns = {name: column[numbers] for name, column in columns.items()}
    without = sum(
        int((~with_values(mixture._points(rows))).sum()) for rows in (points.rows(rows) for rows in pieces(len(points)))
    )
    if without:
        say_note(absent_note(without))
    write(out, mixture, points, proba, numbers, columns)
    if out is not None:
        what = "probabilities" if proba else "labels"
        click.echo(f"Written to {out}: {what} of {counted(len(points), 'point')}", err=True)


def without_gaps(data: Data) -> tuple[Data, np.ndarray[Any, Any]]:
    """The rows without missing values, and their numbers from 0; a note counts those left out."""
    import numpy as np

    from dpmmwrap.files import InputError

    kept = np.flatnonzero(data.complete())
    if not len(kept):
        raise InputError(f"values are missing in all {len(data):,} rows: none is left to label")
    left_out = len(data) - len(kept)
    if left_out:
        say_note(left_out_note(left_out))
    return (data.only(kept) if left_out else data), kept


def read_points(mixture: Mixture, paths: Sequence[Path], asked: Selection, skipping: bool = False) -> Data:
    """Rows with the model's columns, by name, or by position if the model or the file has no names.

    With `skipping`, values may be missing, as such rows are left out later.
    """
    from dataclasses import replace

    from dpmmwrap.families import family_for
    from dpmmwrap.files import InputError, MissingValues, SparseInstead, files_of, read_data, source_of
    from dpmmwrap.files.checks import check_whole_rows
    from dpmmwrap.files.selection import listed

    files, family, posterior = files_of(paths), mixture.family, mixture.posterior
    source = source_of(files)
    preparation = mixture.preparation
    whole = preparation is not None and preparation.components is not None
    # Rows without any value have no cluster; gaps in other rows are checked later.
    gaps = skipping or posterior.input != "counts"
    try:
        names = known_names(mixture, files, asked)
        wanted = asked if names is None else replace(asked, columns=names, drop=())
        words = word_columns(mixture, names or asked.columns)
        data = read_data(files, at_least=1, kind=posterior.file_input, gaps=gaps, words=words, wanted=wanted)
        if preparation is not None and whole and not skipping and data.dim == mixture.n_inputs:
            # Its fit has left out the other columns.
            check_whole_rows(data.X, source, data.names, wanted=preparation.factor != 0)
    except MissingValues as error:
        needing = "principal components need" if whole else f"a model of the family {family} needs"
        raise InputError(f"{error}; {needing} every value; --skip-missing leaves out such rows") from error
    except SparseInstead as error:
        raise InputError(f"{error}; the model is of the family {family}, not {family_for(sparse=True).name}") from error
    if data.dim != mixture.n_inputs:
        kind = "columns" if mixture.columns is not None else "features"
        known = "" if mixture.input_names is None else f" ({listed(mixture.input_names)})"
        raise InputError(f"{source} should have {mixture.n_inputs} {kind} like the model{known}, but it has {data.dim}")
    if mixture.columns is None:
        return data
    return replace(data, X=dict(zip(mixture.columns.names, data.X.values(), strict=True)))


def known_names(mixture: Mixture, files: Sequence[Path], asked: Selection) -> tuple[str, ...] | None:
    """The names of the model's columns, if the files should have them."""
    from dpmmwrap.files import InputError, read_names
    from dpmmwrap.files.selection import listed, numbered

    names = mixture.input_names
    if names is None or names == numbered(len(names)) or asked.columns is not None or asked.drop:
        return None
    names_of_file = read_names(files[0], asked.format)
    if names_of_file is None:
        return None
    missing = [name for name in names if name not in names_of_file]
    if missing:
        came = f"it has the columns {listed(names_of_file)}"
        raise InputError(f"{files[0]} should have a column {missing[0]!r} like the model, but {came}")
    return names


def word_columns(mixture: Mixture, names: Sequence[str] | None) -> list[str]:
    """Columns whose levels were words in the fit: they are words even if all of them look like numbers here."""
    columns = mixture.columns
    if columns is None:
        return []
    categories = zip(columns.categorical, columns.categories, strict=True)
    words = [index for index, levels in categories if levels.dtype.kind == "U"]
    return [str(index + 1) if names is None else names[index] for index in words if names is None or index < len(names)]


def write(
    out: Path | None,
    mixture: Mixture,
    data: Data,
    proba: bool,
    numbers: np.ndarray[Any, Any] | None,
    columns: dict[str, Any],
) -> None:
    """Print or write the answers; `numbers` are the rows' numbers if some were left out."""
    import numpy as np

    from dpmmwrap.files import write_atomically

    answer = mixture.predict_proba if proba else mixture.predict
    labels = (answer(data.rows(rows)) for rows in pieces(len(data)))
    if out is None:
        for piece in labels:
            np.savetxt(sys.stdout.buffer, piece, fmt="%d" if piece.dtype.kind in "iu" else "%.6g", delimiter=",")
        return
    names, outliers = row_names(len(data), data.ids, numbers), mixture.outlier_weight > 0
    if out.suffix.lower() == ".npy":
        write_atomically(out, lambda file: write_npy_pieces(file, labels, len(data)))
    elif proba:
        write_atomically(out, lambda file: write_probabilities(file, names, labels, mixture.n_clusters, outliers))
    else:
        assigned = (mixture.assign(data.rows(rows)) for rows in pieces(len(data)))
        write_atomically(out, lambda file: write_assignments(file, names, assigned, data=columns))
