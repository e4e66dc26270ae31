"""`dpmmwrap fit --update`: add new rows to a model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpmmwrap.cli.common import say_note

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.files import Data

ABOUT_UPDATES = ("forget", "freeze", "repeat")
FROM_THE_FIRST = ("window", "time_column")
NAMES = {"time_column": "time", "id_column": "id", "as_json": "json"}
ALLOWED = (
    *ABOUT_UPDATES,
    *FROM_THE_FIRST,
    *("data", "update", "out", "as_json", "quiet", "seed", "n_jobs", "iterations", "max_clusters", "skip_missing"),
    *("id_column", "columns", "drop", "decimal", "thousands", "sep", "encoding", "sheet", "missing"),
)
"""Options that --update takes; the first fit has decided all others."""


def check_update(ctx: click.Context, options: dict[str, Any]) -> None:
    """Refuse options of updates without --update, and with it those that the first fit has decided."""
    given = [name for name in options if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    for name in given:
        option = f"--{NAMES.get(name, name).replace('_', '-')}"
        if options["update"] is None and name in ABOUT_UPDATES:
            raise click.UsageError(f"{option} needs --update MODEL.", ctx)
        if options["update"] is not None and name not in ALLOWED:
            raise click.UsageError(f"{option} was decided by the first fit: leave it out with --update.", ctx)
    if options["update"] is not None and options["out"] is None:
        raise click.UsageError("--update needs --out DIR, where the new model goes.", ctx)


def run(options: dict[str, Any]) -> int:
    """Add the rows of files to a model, and write the new one."""
    from dpmmwrap.backends import Native
    from dpmmwrap.cli import DONE, INTERRUPTED
    from dpmmwrap.cli.data_options import by_its_name, selection_of
    from dpmmwrap.cli.predict import read_points, without_gaps
    from dpmmwrap.cli.progress import collected_warnings
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.files import InputError, prepare_folder

    path = options["update"]
    path = path / "model.npz" if (path / "model.npz").is_file() else path
    backend = "auto" if options["n_jobs"] is None else Native(n_jobs=options["n_jobs"])
    model = DPMM(
        random_state=options["seed"], backend=backend, max_iter=options["iterations"],
        max_clusters=options["max_clusters"],
    )  # fmt: skip
    numbers = None
    with by_its_name(options["data"]):
        try:
            model.resume(path)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from error
        data = read_points(model.mixture_, options["data"], selection_of(options), options["skip_missing"])
        recent = window_and_time(options)
    if not isinstance(data.X, dict):
        # The columns have been found by their names, and are an array now.
        model.__dict__.pop("feature_names_in_", None)
    if options["skip_missing"]:
        data, numbers = without_gaps(data)
    prepare_folder(options["out"], needed=64 * len(data) + 2_000_000)
    begun, before = time.perf_counter(), model.mixture_
    try:
        with collected_warnings():
            model.partial_fit(
                data.X, forget=options["forget"], freeze=options["freeze"], repeat=options["repeat"], **recent
            )
    except ValueError as error:
        raise InputError(str(error)) from error
    if model.mixture_ is before:
        raise InputError(model.notes_[0].replace("(repeat adds", "(--repeat adds"))
    finish(model, data, numbers, time.perf_counter() - begun, options)
    return INTERRUPTED if model.interrupted_ else DONE


def window_and_time(options: dict[str, Any]) -> dict[str, Any]:
    """The window, if one is given, and the latest time of a batch; None without --time."""
    from dpmmwrap.cli.data_options import column_of_text
    from dpmmwrap.files import InputError

    window = {} if options["window"] is None else {"window": options["window"]}
    name = options["time_column"]
    if name is None:
        return window | {"time": None}
    try:
        return window | {"time": max(float(value) for value in column_of_text(options, name))}
    except InputError:
        raise
    except ValueError:
        raise InputError(f"--time {name} should be a column of numbers") from None


def finish(model: DPMM, data: Data, numbers: Any, seconds: float, options: dict[str, Any]) -> None:
    """Write the labels, then the model: whoever finds the new model finds them, too."""
    from dpmmwrap import __version__
    from dpmmwrap.cli.answers import row_names
    from dpmmwrap.cli.results import tidy, to_json
    from dpmmwrap.describe.wording import counted
    from dpmmwrap.files import write_csv, write_json

    folder: Path = options["out"]
    memory = model.mixture_.memory
    assert memory is not None
    labels, events = model.labels_, [event for event in memory.history if event.batch == memory.batches]
    there = labels >= 0
    columns = {name: list(values) for name, values in row_names(len(labels), data.ids, numbers).items()}
    columns["cluster"] = [str(memory.ids[label]) if label >= 0 else "" for label in labels]
    for name, values in (
        ("probability", model.mixture_.probability_of(data.X, labels)),
        ("novelty", model.novelty_),
    ):
        columns[name] = [f"{value:.6g}" if known else "" for value, known in zip(values, there, strict=True)]
    write_csv(folder / "labels.csv", columns)
    names = ("batch", "kind", "cluster", "other")
    history = {name: [getattr(event, name) for event in memory.history] for name in names}
    write_csv(folder / "history.csv", {name: ["" if one == -1 else one for one in history[name]] for name in history})
    summary = {
        "n_clusters": model.n_clusters_, "batches": memory.batches, "points": len(labels),
        "seen": float(model.mixture_.counts.sum()), "cluster_ids": memory.ids.tolist(),
        "sizes": model.mixture_.counts.tolist(), "events": [event._asdict() for event in events],
        "log_posterior": model.log_posterior_, "alpha": model.alpha_, "iterations": model.n_iter_,
        "interrupted": model.interrupted_, "seconds": round(seconds, 3), "notes": model.notes_, "version": __version__,
    }  # fmt: skip
    write_json(folder / "summary.json", summary)
    # Last: until then the old model is whole.
    model.save(folder / "model.npz")
    removed = tidy(folder, ["labels.csv", "history.csv", "summary.json", "model.npz"])
    for note in model.notes_:
        say_note(note)
    if options["as_json"]:
        click.echo(to_json(summary))
    elif not options["quiet"]:
        told = {"merge": "merged into {}", "split": "split from {}", "birth": "is new", "death": "died"}
        each = [f"cluster {event.cluster} {told[event.kind].format(event.other)}" for event in events]
        happened = ", ".join(each) or "no births, merges or deaths"
        click.echo(f"batch {memory.batches}: {counted(len(labels), 'row')}, {counted(model.n_clusters_, 'cluster')}")
        click.echo(f"  {happened}")
        click.echo(f"Written to {folder}: labels.csv, history.csv, summary.json, model.npz{removed}")
