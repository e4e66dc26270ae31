"""`dpmmwrap fit`: cluster a file of points."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dpmmwrap.cli import DONE, FAILED, INTERRUPTED, update
from dpmmwrap.cli.common import A_PATH, say_note
from dpmmwrap.cli.contradictions import settle
from dpmmwrap.cli.data_options import by_its_name, called, column_of_text, format_of, piped, selection_of, true_labels
from dpmmwrap.cli.families import as_options, way_out, why_no_gaps
from dpmmwrap.cli.fit_options import EXAMPLES, NO_LOSS, SectionedCommand, all_options
from dpmmwrap.cli.parameters import make_prior, parameters
from dpmmwrap.cli.preparing import column_notes, logged_columns, prepare, without_weights
from dpmmwrap.cli.update import check_update
from dpmmwrap.families import family_named

if TYPE_CHECKING:
    from dpmmwrap.cli.results import FitResult
    from dpmmwrap.files import Data
    from dpmmwrap.model.preparation import Preparation
    from dpmmwrap.numerics.arrays import IntArray

BYTES = 64
"""The bytes that are written for each point: its label, group and confidence, and its line of labels.csv."""
BESIDE = ("known", "together", "time_column")
"""Options that name columns which are not features."""


@click.command("fit", cls=SectionedCommand, epilog=EXAMPLES)
@click.argument("data", type=A_PATH, nargs=-1)
@all_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Cluster the points of DATA: .npy, .npz (X, and y if present), .csv, .tsv, .txt, .dat (also .gz), .parquet,
    .feather or .xlsx; or - for standard input.

    Each row is a point, each column a feature. Several files, or a pattern such as '*.csv', are joined by rows. The
    number of clusters is inferred. Counts may also be a sparse matrix (.npz, as scipy.sparse.save_npz writes it).
    NaN, NA and empty fields are missing values. Ctrl-C stops after the current iteration and keeps the result so far.

    With --backend dask, DATA is on storage that all workers see: .npy, a folder or pattern of .npy or .parquet, or
    zarr.
    """
    check_update(ctx, options)
    if options["update"] is not None:
        options["data"] = piped(ctx, options["data"])
        return update.run(options)
    settle(ctx, options)
    options["data"] = piped(ctx, options["data"])
    connection: AbstractContextManager[Any] = nullcontext()
    if options["backend"] == "dask":
        from dpmmwrap.backends.dask.files import connected

        connection = connected(options["scheduler"], options["local_workers"])
    with connection:
        with by_its_name(options["data"]):
            task = read(options)
        check_writable_outputs(options, len(task.data), task.data.dim)
        fitted = fit(task, options)
        task = task._replace(columns=with_known_names(task.columns, fitted))
        failed = finish(fitted, task, options)
    if failed:
        return FAILED
    return INTERRUPTED if fitted.model.interrupted_ else DONE


class Task(NamedTuple):
    """The data to cluster, and what is known about them."""

    data: Data
    truth: IntArray | None
    prior: Any
    source: str
    """Where the points came from."""
    kept: IntArray | None = None
    """The numbers of the remaining rows, if some were left out."""
    skipped: int = 0
    preparation: Preparation | None = None
    """The transformation of the features."""
    columns: dict[str, Any] | None = None
    """The columns of the files as text, with --with-data."""
    classes: tuple[str, ...] = ()
    """The names of the true classes, by their numbers."""
    weights: Any = None
    """The weights of the rows; None if all are 1."""
    known: Any = None
    """Known clusters as text, empty where nothing is known."""
    together: Any = None
    """The values that are equal for rows of the same cluster, as text."""


def read(options: dict[str, Any]) -> Task:
    """The prior, the points and their true labels, without rows that --skip-missing leaves out.

    With Dask the points stay in their files until workers read them.
    """
    from dpmmwrap.files import InputError

    prior = make_prior(options["prior"], options["family"], options["covariance"])
    task = read_lazily(options, prior) if options["backend"] == "dask" else read_points(options, prior)
    if options["skip_missing"]:
        task = skip_missing(task)
    check_truth(task)
    task = prepare(task, options)
    if not isinstance(prior, str) and prior.dim != task.data.dim:
        raise InputError(
            f"{options['prior']} should be a prior of {task.data.dim} dimensions like the data, but it has {prior.dim}"
        )
    return task


def read_lazily(options: dict[str, Any], prior: Any) -> Task:
    """Points that stay in their files until workers read them, and true labels."""
    from dpmmwrap.backends.dask.files import open_lazily
    from dpmmwrap.files import Data, check_classes, files_of, read_labels, source_of

    lazy, files = open_lazily(options["data"]), files_of(options["data"])
    truth = None
    if options["labels"] is not None:
        truth = read_labels(Path(options["labels"]), lazy.X.shape[0])
        check_classes(truth, f"--labels {options['labels']}")
    return Task(Data(lazy.X, names=lazy.names), truth, prior, source_of(files))


def read_points(options: dict[str, Any], prior: Any) -> Task:
    """The points of files or of the example, and their true labels."""
    from dpmmwrap.files import InputError, check_classes, files_of, read_as_text, read_data, source_of
    from dpmmwrap.files.reading import read_classes

    if options["example"]:
        from dpmmwrap.datasets import read_example

        data = read_example()
        return Task(data, data.y, prior, "the bundled example")
    files = files_of(options["data"])
    column, file = true_labels(options["labels"], files[0], format_of(options))
    gaps = options["skip_missing"] or not why_no_gaps(options)
    # Exposures need not be whole numbers.
    kind = family_named(options["family"]).input if options["exposure"] is None else "numbers"
    beside = {name: options[name] for name in BESIDE if options[name] is not None}
    drop = (*(options["drop"] or ()), *beside.values())
    try:
        wanted, weight = selection_of(options | {"drop": drop}, column), options["sample_weight"]
        if weight is not None and wanted.columns is not None and weight not in wanted.columns:
            wanted = replace(wanted, columns=(*wanted.columns, weight))
        data = read_data(files, kind=kind, gaps=gaps, words=options["categorical"] or (), wanted=wanted)
    except InputError as error:
        raise InputError(f"{error}{way_out(error, options)}") from error
    truth, classes = (data.y, data.classes) if file is None else read_classes(file, len(data))
    if truth is not None and options["labels"] is not None:
        check_classes(truth, f"--labels {options['labels']}")
    data, weights = without_weights(data, options["sample_weight"], source_of(files))
    notes = (*data.notes, *column_notes(data, logged_columns(options, data)))
    columns = read_as_text(files, format_of(options)) if options["with_data"] else None
    source = called(source_of(files), files)
    texts = {name: column_of_text(options, column) for name, column in beside.items() if name != "time_column"}
    return Task(
        replace(data, notes=notes), truth, prior, source, columns=columns, classes=classes, weights=weights, **texts
    )


def check_truth(task: Task) -> None:
    """Refuse true labels that are missing in some rows."""
    from dpmmwrap.files import InputError

    if task.truth is None or not (task.truth < 0).any():
        return
    # A row without any value is in no cluster, and needs no label.
    missing = (task.truth < 0) & ~task.data.empty()
    if missing.any():
        row = int(missing.argmax())
        row = row if task.kept is None else int(task.kept[row])
        message = f"{task.source} should hold a label for each row, but row {row + 1} has none"
        raise InputError(f"{message}; --skip-missing leaves out such rows")


def skip_missing(task: Task) -> Task:
    """The task without rows that have missing values."""
    import numpy as np

    from dpmmwrap.files import InputError

    complete = task.data.complete()
    kept = np.flatnonzero(complete)
    if len(kept) == len(complete):
        return task
    if len(kept) < 2:
        message = f"{task.source} should hold at least 2 points without missing values, but it holds {len(kept)}"
        raise InputError(message)
    truth, weights, known, together = (
        None if values is None else values[kept] for values in (task.truth, task.weights, task.known, task.together)
    )
    columns = None if task.columns is None else {name: column[kept] for name, column in task.columns.items()}
    return task._replace(
        data=task.data.only(kept), truth=truth, kept=kept, skipped=len(complete) - len(kept), columns=columns,
        weights=weights, known=known, together=together,
    )  # fmt: skip


def check_writable_outputs(options: dict[str, Any], n: int, dim: int) -> None:
    """Before the fit, refuse folders and files that cannot be written to."""
    from dpmmwrap.files import check_writable, prepare_folder
    from dpmmwrap.sampler.draws import labels_file
    from dpmmwrap.sampler.settings import chain_count

    chains, kept = chain_count(options["chains"], options["draws"], n, dim), options["loss"] != NO_LOSS
    drawn = 4 * n * chains * options["draws"] if kept else 0
    if options["out"] is not None:
        # With some room for the rest.
        prepare_folder(options["out"], needed=BYTES * n + drawn + 2_000_000)
    if options["checkpoint"] is not None and options["backend"] == "dask":
        prepare_folder(options["checkpoint"], needed=10 * n * chains)
    elif options["checkpoint"] is not None:
        there = labels_file(options["checkpoint"]).exists()
        check_writable(options["checkpoint"], needed=5 * n * chains + (0 if there else drawn))


def fit(task: Task, options: dict[str, Any]) -> FitResult:
    """Fit the model; the result has its time and all notes."""
    from dpmmwrap.cli.progress import collected_warnings, plan_of, progress_line
    from dpmmwrap.cli.results import FitResult
    from dpmmwrap.estimator import DPMM

    model = DPMM(**parameters(options, task))
    # Points are an array here, but notes should use the file's column names.
    model._called = task.data.names
    start = time.perf_counter()
    with (
        collected_warnings() as warned,
        progress_line(plan_of(model, len(task.data), task.data.dim), shown=not options["quiet"]) as progress,
    ):
        names, known = numbered_known(task.known)
        if options["window"] is None and options["time_column"] is None:
            model.fit(
                task.data.X, known, sample_weight=task.weights, together=task.together, truth=task.truth,
                progress=progress, on_interrupt="return",
            )  # fmt: skip
        else:
            model.partial_fit(task.data.X, known, sample_weight=task.weights, **update.window_and_time(options))
    seconds = time.perf_counter() - start - model.startup_seconds_
    if task.data.names is not None:
        model.mixture_ = replace(model.mixture_, feature_names=task.data.names)
    # The model's notes are also warnings.
    notes = dict.fromkeys([*task.data.notes, *warned, *model.notes_])
    groups = model.groups() if model.n_clusters_ > 1 else None
    sensitivity = None
    if options["sensitivity"] and not model.interrupted_:
        try:
            sensitivity = model.sensitivity()
        except KeyboardInterrupt:
            # The fit itself is kept.
            notes["--sensitivity was interrupted"] = None
    return FitResult(model, seconds, tuple(as_options(note) for note in notes), groups, sensitivity, names)


def with_known_names(columns: dict[str, Any] | None, fitted: FitResult) -> dict[str, Any] | None:
    """The columns, with the name of each row's cluster if that is known."""
    import numpy as np

    names, model = fitted.known_names, fitted.model
    if not names:
        return columns
    ids = np.where(model.labels_ < 0, -1, model.cluster_ids_[model.labels_])
    of_rows = np.array([*names, ""])[np.where((ids >= 0) & (ids < len(names)), ids, -1)]
    return {**(columns or {}), "known": of_rows}


def numbered_known(words: Any) -> tuple[tuple[str, ...], Any]:
    """The names of known clusters, and their numbers by row, -1 where the cluster is unknown."""
    import numpy as np

    from dpmmwrap.files import InputError
    from dpmmwrap.streams.together import NOTHING

    if words is None:
        return (), None
    known = np.array([word.strip() for word in words.tolist()])
    there = ~np.isin(known, NOTHING)
    names = np.unique(known[there])
    if there.all() or not there.any():
        raise InputError(f"--known should be empty in some rows, not in {'none' if there.all() else 'all'}")
    return tuple(names.tolist()), np.where(there, np.searchsorted(names, known), -1)


def finish(fitted: FitResult, task: Task, options: dict[str, Any]) -> list[str]:
    """Show the result, then write it; returns the plots and pages that could not be drawn.

    Each is done even if the other fails: the disk may be full, or the reader of a pipe may have left (`| head`).
    """
    from dpmmwrap.cli import fit_table, results

    summary, failed = results.summarise(fitted, task), list[str]()
    try:
        if options["as_json"]:
            click.echo(results.to_json(summary))
        elif options["quiet"]:
            for note in fitted.notes:
                say_note(note)
        else:
            fit_table.show(summary, task.source)
    finally:
        if options["out"] is not None:
            said, failed = results.write(options["out"], fitted, summary, task)
            if not options["quiet"]:
                click.echo(said, err=options["as_json"])
    return failed
