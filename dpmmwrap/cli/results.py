"""The results of `dpmmwrap fit`, and the files that it writes."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from dpmmwrap.backends.dask import is_lazy
from dpmmwrap.cli.answers import pieces, row_names, write_assignments, write_npy_pieces
from dpmmwrap.cli.common import command_line
from dpmmwrap.cli.progress import Lines
from dpmmwrap.describe import plotting
from dpmmwrap.describe.facts import cluster_sizes, facts
from dpmmwrap.describe.wording import counted
from dpmmwrap.files import InputError, read_json, write_atomically, write_csv, write_json, write_npy
from dpmmwrap.numerics.arrays import evenly_spaced

if TYPE_CHECKING:
    from dpmmwrap.cli.fit import Task
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.model.short_chains import AtSetting
    from dpmmwrap.numerics.arrays import IntArray
    from dpmmwrap.posterior.groups import Groups


MANIFEST = "dpmmwrap-files.json"
"""The file with the names and sizes of all files that the last fit wrote."""
SOMETIMES = ("rows.npy", "confidence.npy", "draws.npz", "groups.png", "posterior.png", "pairs.png", "chains.png")
"""Files that not every fit writes, and that may therefore come from an earlier fit."""


def tidy(folder: Path, written: Sequence[str]) -> str:
    """Remove files that an earlier fit wrote and this one did not; returns a remark about them.

    Only files of the manifest whose size has not changed are ours. Other files with such names stay, and are mentioned.
    """
    earlier: dict[str, int] = {}
    # None without a valid manifest.
    with contextlib.suppress(InputError, AttributeError, TypeError):
        for name, size in read_json(folder / MANIFEST)["files"].items():
            # Never touch anything outside the folder, whatever the manifest says.
            if name not in ("", ".", "..") and Path(name).name == name and isinstance(size, int):
                earlier[name] = size
    removed = []
    for name, size in earlier.items():
        if name not in written and size_of(folder / name) == size:
            with contextlib.suppress(OSError):
                (folder / name).unlink()
                removed.append(name)
    write_json(folder / MANIFEST, {"files": {name: size_of(folder / name) for name in written}})
    left = [name for name in SOMETIMES if name not in written and (folder / name).exists()]
    remarks = []
    if removed:
        remarks.append(f"removed {', '.join(removed)} of an earlier fit")
    if left:
        remarks.append(f"{', '.join(left)} {'is' if len(left) == 1 else 'are'} from an earlier fit")
    return f" ({'; '.join(remarks)})" if remarks else ""


def size_of(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() and not path.is_symlink() else None


TOLD_EVERY = 3.0
"""The seconds between two lines about the files."""
PAIRS_SHOWN = 500
"""The largest number of points, evenly spaced, in the plot of pair probabilities."""


class FitResult(NamedTuple):
    """A fitted model, the seconds that it took, notes, and groups of its clusters."""

    model: DPMM
    seconds: float
    notes: tuple[str, ...] = ()
    groups: Groups | None = None
    """None for a single cluster."""
    sensitivity: list[AtSetting] | None = None
    """The number of clusters under other priors, with --sensitivity."""
    known_names: tuple[str, ...] = ()
    """The names of known clusters, by their ids."""

    @property
    def point_groups(self) -> IntArray:
        """The group of each point at the suggested cut."""
        labels = self.model.labels_
        return labels if self.groups is None else self.groups.of_points(labels)


def summarise(fitted: FitResult, task: Task) -> dict[str, Any]:
    """The result in a few numbers, for --json and summary.json."""
    from dpmmwrap import __version__

    model, preparation = fitted.model, task.preparation
    projected = preparation is not None and preparation.components is not None
    prior_clusters = None
    if fitted.sensitivity:
        # The 90% interval under the prior over partitions of these points.
        below = model.partition_prior_.cluster_probabilities(len(model.labels_)).cumsum()
        prior_clusters = [int(np.searchsorted(below, share)) for share in (0.05, 0.95)]
    return {
        **facts(model, fitted.groups, task.truth),
        "seconds": round(fitted.seconds, 3),
        "sensitivity": fitted.sensitivity and [one._asdict() for one in fitted.sensitivity],
        "prior_clusters": prior_clusters,
        "skipped": task.skipped,
        "scaled": preparation is not None and preparation.scales,
        "components": preparation.width if preparation is not None and projected else None,
        "logged": [] if preparation is None else preparation.logged,
        "normalized": preparation is not None and preparation.unit,
        "notes": list(fitted.notes),
        "version": __version__,
    }


def to_json(summary: dict[str, Any]) -> str:
    return json.dumps(finite(summary), allow_nan=False)


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by null."""
    if isinstance(value, dict):
        return {name: finite(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(folder: Path, fitted: FitResult, summary: dict[str, Any], task: Task) -> tuple[str, list[str]]:
    """Write all files; returns a sentence about them, and the plots and pages that could not be drawn."""
    model = fitted.model
    lazy, context = is_lazy(model.labels_), click.get_current_context(silent=True)
    quiet = context is None or context.params.get("quiet")
    lines = Lines(math.inf if quiet else TOLD_EVERY)

    def tell(what: str) -> None:
        """Name the file that is being written, at most every few seconds."""
        lines.tell("writing", what)

    written = write_lazily(folder, fitted) if lazy else write_arrays(folder, fitted, task, tell)
    if model.draws_ is not None:
        model.draws_.save(folder / "draws.npz")
        written.append("draws.npz")
    write_csv(folder / "trace.csv", trace_columns(model))
    write_json(folder / "summary.json", finite(summary))
    written += ["trace.csv", "summary.json"]
    made: dict[str, bool] = {}
    if not lazy:
        tell("report.html")
        made["report.html"] = attempt("report.html", lambda: write_page(folder / "report.html", fitted, task))
        tell("pictures")
        for name, figure in (pictures(fitted, task) if plotting.available() else {}).items():
            made[name] = attempt(name, partial(save, folder / name, figure))
    written += [name for name, done in made.items() if done]
    sentence = f"Written to {folder}: {', '.join(written)}{tidy(folder, written)}"
    if not (lazy or plotting.available()):
        sentence += " (for pictures: pip install matplotlib)"
    return sentence, [name for name, done in made.items() if not done]


def save(path: Path, draw: Callable[[], Any]) -> None:
    plotting.save_figure(path, draw())


def write_arrays(folder: Path, fitted: FitResult, task: Task, tell: Callable[[str], None]) -> list[str]:
    """Write labels, model and draws; returns the names of the files."""
    model = fitted.model
    # The rows of the file that the labels belong to.
    rows = {} if task.kept is None else {"rows.npy": task.kept}
    sure = {} if model.confidence_ is None else {"confidence.npy": model.confidence_}
    arrays = {"labels.npy": model.labels_} | rows | {"groups.npy": fitted.point_groups} | sure
    for name, array in arrays.items():
        write_npy(folder / name, array)
    # All draws are in a separate file; the mixture has those that predictions average over.
    replace(model.mixture_, preparation=task.preparation).save(folder / "model.npz")
    write_labels(folder / "labels.csv", fitted, task, tell)
    return ["labels.csv", *arrays, "model.npz"]


def write_lazily(folder: Path, fitted: FitResult) -> list[str]:
    """Write labels (one worker after the other), model and draws; returns the names of the files."""
    model, labels = fitted.model, fitted.model.labels_
    blocks = (np.asarray(block) for block in labels.blocks)  # type: ignore[attr-defined]
    write_atomically(folder / "labels.npy", lambda file: write_npy_pieces(file, blocks, len(labels)))
    model.mixture_.save(folder / "model.npz")
    return ["labels.npy", "model.npz"]


def write_labels(path: Path, fitted: FitResult, task: Task, tell: Callable[[str], None]) -> None:
    from dpmmwrap.mixture import Assignment

    model, data = fitted.model, task.data
    labels = model.labels_

    def answers() -> Iterator[Assignment]:
        for rows in pieces(len(labels)):
            yield Assignment(labels[rows], model.mixture_.probability_of(data.rows(rows), labels[rows]))
            tell(f"{path.name}, {rows.stop:,} of {len(labels):,} rows")

    names = row_names(len(labels), data.ids, task.kept)
    groups = fitted.point_groups
    write_atomically(path, lambda file: write_assignments(file, names, answers(), groups, task.columns))


def trace_columns(model: DPMM) -> dict[str, Any]:
    """The iterations of the search; several chains are one after the other, with their numbers."""
    from dpmmwrap.sampler.trace import COLUMNS

    traces = model.traces_
    columns = {"iteration": np.concatenate([np.arange(1, len(trace) + 1) for trace in traces])}
    columns |= {name: np.concatenate([trace[name] for trace in traces]) for name in COLUMNS}
    if len(traces) == 1:
        return columns
    return {"chain": np.repeat(np.arange(1, len(traces) + 1), [len(trace) for trace in traces])} | columns


def write_page(path: Path, fitted: FitResult, task: Task) -> None:
    from dpmmwrap.describe.report import Subject, write_report

    ids = getattr(task.data, "ids", None)
    # If rows were left out, the others keep their numbers in the file.
    numbers = None if task.kept is None else task.kept + 1
    subject = Subject(
        fitted.model,
        task.data.X,
        source=Path(task.source).name,
        given_names=task.data.names,
        ids=numbers if ids is None else ids,
        numbered=ids is None,
        command=command_line(click.get_current_context(silent=True), ("quiet", "as_json")),
        notes=fitted.notes,
        groups=fitted.groups,
        seconds=fitted.seconds,
        preparation=task.preparation,
        truth=task.truth,
        classes=task.classes,
    )
    write_report(path, subject)


def attempt(name: str, make: Callable[[], None]) -> bool:
    """Draw a plot or a page, and return whether it worked; the other files are written anyway."""
    try:
        make()
    except InputError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        click.echo(f"dpmmwrap: {name} could not be drawn ({reason})", err=True)
        return False
    return True


def pictures(fitted: FitResult, task: Task) -> dict[str, Callable[[], Any]]:
    """The plots to draw, by file name."""
    model, groups = fitted.model, fitted.groups
    draws, truth = model.draws_, task.truth
    true_clusters = None if truth is None else len(np.unique(truth[truth >= 0]))
    figures: dict[str, Callable[[], Any]] = {
        "clusters.png": lambda: plotting.fit_figure(model, task.data.X, names=task.data.names)
    }
    if groups is not None:
        figures["groups.png"] = lambda: plotting.groups_figure(groups, cluster_sizes(model))
    if draws is not None:
        figures["posterior.png"] = lambda: plotting.n_clusters_figure(draws)
        if draws.labels is not None:
            figures["pairs.png"] = lambda: pairs_figure(model)
        figures["chains.png"] = lambda: plotting.chains_figure(draws)
    title = None
    if len(model.traces_) > 1:
        number = next(index for index, trace in enumerate(model.traces_) if trace is model.trace_) + 1
        title = f"{counted(len(model.trace_), 'iteration')} of chain {number}, the best of {len(model.traces_)}"
    figures["trace.png"] = lambda: plotting.trace_figure(model.trace_, true_clusters=true_clusters, title=title)
    return figures


def pairs_figure(model: DPMM) -> Any:
    """The probabilities that points share a cluster, for all points or an evenly spaced sample."""
    count = len(model.labels_)
    rows = evenly_spaced(count, PAIRS_SHOWN)
    shown = f"{len(rows):,} of {counted(count, 'point')}" if len(rows) < count else counted(count, "point")
    title = f"{counted(model.n_clusters_, 'cluster')}, {shown}"
    return plotting.coclustering_figure(model.coclustering(rows), model.labels_[rows], title)
