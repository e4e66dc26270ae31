"""What `dpmmwrap fit` knows at the end and leaves in its folder."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from dpmmwrap.backends.dask import is_lazy
from dpmmwrap.cli.answers import pieces, row_names, write_assignments
from dpmmwrap.cli.folder import tidy
from dpmmwrap.cli.progress import Lines
from dpmmwrap.describe import plotting
from dpmmwrap.describe.plotting import counted
from dpmmwrap.files import InputError, write_atomically, write_csv, write_json, write_npy

if TYPE_CHECKING:
    from dpmmwrap.cli.fit import Task
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.model.sensitivity import AtSetting
    from dpmmwrap.numerics.arrays import IntArray
    from dpmmwrap.posterior.groups import Groups

TOLD_EVERY = 3.0
"""Seconds from one line about the files to the next."""
PAIRS_SHOWN = 500
"""Points in the picture of pair probabilities at most, evenly spaced."""


class Fitted(NamedTuple):
    """A fitted model, how long that took, what is to be said of it, and its clusters in groups."""

    model: DPMM
    seconds: float
    notes: tuple[str, ...] = ()
    groups: Groups | None = None
    """None of a single cluster."""
    sensitivity: list[AtSetting] | None = None
    """Clusters at other widths of the prior, where that was asked for."""

    @property
    def point_groups(self) -> IntArray:
        """The group of each point at the suggested cut."""
        labels = self.model.labels_
        return labels if self.groups is None else self.groups.of_points(labels)

    @property
    def sizes(self) -> list[int]:
        """Points of each cluster, without outliers."""
        if is_lazy(self.model.labels_):
            return [int(count) for count in self.model.mixture_.counts]
        return sizes(self.model.labels_)

    @property
    def group_sizes(self) -> list[int]:
        """Points of each group."""
        if not is_lazy(self.model.labels_):
            return sizes(self.point_groups)
        own = np.array(self.sizes)
        groups = np.arange(len(own)) if self.groups is None else self.groups.of_points(np.arange(len(own)))
        return [int(count) for count in np.bincount(groups, weights=own)]


def groups_of(model: DPMM) -> Groups | None:
    """Clusters that overlap, joined; None where there is only one."""
    return model.groups() if model.n_clusters_ > 1 else None


def summarise(fitted: Fitted, task: Task) -> dict[str, Any]:
    """The result in a few numbers, as --json prints them and summary.json keeps them."""
    from dpmmwrap import __version__

    model, truth = fitted.model, task.truth
    summary: dict[str, Any] = {
        "n_clusters": int(model.n_clusters_),
        **posterior(model),
        "groups": 1 if fitted.groups is None else fitted.groups.suggested,
        "log_posterior": float(model.log_posterior_),
        "seconds": round(fitted.seconds, 3),
        "startup_seconds": round(model.startup_seconds_, 3),
        "iterations": int(model.n_iter_),
        "stopped_by": model.stopped_by_,
        "chains": len(model.traces_),
        "draws": 0 if model.draws_ is None else model.draws_.n_draws,
        "backend": str(model.backend_),
        "backend_reason": str(model.backend_reason_),
        "family": model.family,
        "covariance_type": covariance_of(model),
        "covariance_reason": None if model.family == "multinomial" else model.covariance_reason_,
        "init": model.init_ if isinstance(model.init, str) else "splitnet",
        "alpha": float(model.alpha_),
        "prior_kappa": model.prior_kappa_,
        "prior_width": model.prior_width_,
        "prior_strength": model.prior_strength_,
        "prior_learned": learned(model),
        "sensitivity": fitted.sensitivity and [one._asdict() for one in fitted.sensitivity],
        "prior_clusters": fitted.sensitivity and prior_clusters(model),
        "seed": model.random_state,
        "interrupted": bool(model.interrupted_),
        "points": len(model.labels_),
        "dimensions": dimensions(model),
        "categorical": categorical_columns(model),
        "missing": int(model.n_missing_),
        "skipped": task.skipped,
        "scaled": task.preparation is not None and task.preparation.scales,
        "components": components(task),
        "logged": [] if task.preparation is None else task.preparation.logged,
        "converted_from": model.trace_.converted_from if model.family == "gaussian" else None,
        "empty": 0 if model._present is None else model._present.total - len(model._present.rows),
        "outliers": outliers_of(fitted),
        "sizes": fitted.sizes,
        "group_sizes": fitted.group_sizes,
        "notes": list(fitted.notes),
        "version": __version__,
    }
    if truth is not None:
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

        labels, there = np.asarray(model.labels_), present_rows(model)
        labels, truth = labels[there], truth[there]
        summary["nmi"] = float(normalized_mutual_info_score(truth, labels))
        summary["ari"] = float(adjusted_rand_score(truth, labels))
        summary["true_clusters"] = len(np.unique(truth))
    return summary


def dimensions(model: DPMM) -> int:
    """Columns of the data; of a mixed table those that are clustered by."""
    columns = model.mixture_.columns
    return int(model.n_features_in_) if columns is None else len(columns.names)


def outliers_of(fitted: Fitted) -> int:
    """Rows that have values, and no cluster all the same."""
    present = fitted.model._present
    return (len(fitted.model.labels_) if present is None else len(present.rows)) - sum(fitted.sizes)


def prior_clusters(model: DPMM) -> list[int]:
    """The middle nine tenths of the number of clusters that the prior of the partition expects of these points."""
    below = model.partition_prior_.cluster_probabilities(len(model.labels_)).cumsum()
    return [int(np.searchsorted(below, share)) for share in (0.05, 0.95)]


def learned(model: DPMM) -> list[str]:
    """Which of the default prior's numbers were learned; Julia's sampler learns none."""
    if model.prior_width_ is None or model.backend_ == "julia":
        return []
    from dpmmwrap.model.data_prior import learned_names

    return learned_names(model.prior)


def components(task: Task) -> int | None:
    """The principal components that the features were projected on."""
    preparation = task.preparation
    return None if preparation is None or preparation.components is None else preparation.width


def posterior(model: DPMM) -> dict[str, Any]:
    """What the draws say, all of it None where there are none."""
    draws, sure = model.draws_, model.confidence_
    found: dict[str, Any] = {
        "n_clusters_interval": None,
        "loss": None if sure is None else model.loss,
        "confidence": None if sure is None else float(sure.mean()),
        "unsure": None if sure is None else int((sure < 0.5).sum()),
        "diagnostics": None,
    }
    if draws is not None:
        from dpmmwrap.posterior.diagnostics import interval

        found["n_clusters_interval"] = list(interval(draws.n_clusters))
        found["diagnostics"] = {one.name: one._asdict() for one in model.diagnostics_ or ()}
        for one in found["diagnostics"].values():
            del one["name"]
    return found


def sizes(labels: IntArray) -> list[int]:
    """Points of each cluster, without outliers."""
    return [int(count) for count in np.bincount(labels[labels >= 0])]


def covariance_of(model: DPMM) -> str | None:
    """Of Gaussian clusters, and of the numeric columns of a table."""
    if model.family == "multinomial":
        return None
    return "diag" if model.family == "mixed" else str(model.covariance_type_)


def categorical_columns(model: DPMM) -> list[str] | None:
    columns = model.mixture_.columns
    return None if columns is None else [columns.names[place] for place in columns.categorical]


def to_json(summary: dict[str, Any]) -> str:
    return json.dumps(finite(summary), allow_nan=False)


def finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {name: finite(own) for name, own in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Written(NamedTuple):
    """What a folder was filled with, in a sentence; and the files to look at that could not be made."""

    sentence: str
    failed: list[str]


def write(folder: Path, fitted: Fitted, summary: dict[str, Any], task: Task) -> Written:
    """Fill the folder. What fails of the files to look at comes after all else was written."""
    model = fitted.model
    lazy = is_lazy(model.labels_)
    tell = teller()
    written = write_lazily(folder, fitted, task) if lazy else write_arrays(folder, fitted, task, tell)
    write_csv(folder / "trace.csv", trace_columns(model))
    write_json(folder / "summary.json", finite(summary))
    written += ["trace.csv", "summary.json"]
    made: dict[str, bool] = {}
    if not lazy:
        tell("report.html")
        made["report.html"] = page(folder / "report.html", fitted, summary, task)
        tell("pictures")
        made |= draw(folder, fitted, task) if plotting.available() else {}
    written += [name for name, done in made.items() if done]
    said = f"Written to {folder}: {', '.join(written)}{tidy(folder, written)}"
    if not (lazy or plotting.available()):
        said += " (for pictures: pip install matplotlib)"
    return Written(said, [name for name, done in made.items() if not done])


def teller() -> Callable[[str], None]:
    """Says now and then what is being written, unless nothing is to be said."""
    context = click.get_current_context(silent=True)
    if context is None or context.params.get("quiet"):
        return lambda what: None
    lines = Lines(TOLD_EVERY)
    return lambda what: lines.tell("writing", what)


def write_arrays(folder: Path, fitted: Fitted, task: Task, tell: Callable[[str], None]) -> list[str]:
    """Labels, model and draws; the names of the files."""
    model = fitted.model
    # Which rows of the file the labels are of.
    rows = {} if task.kept is None else {"rows.npy": task.kept}
    sure = {} if model.confidence_ is None else {"confidence.npy": model.confidence_}
    arrays = {"labels.npy": model.labels_} | rows | {"groups.npy": fitted.point_groups} | sure
    for name, array in arrays.items():
        write_npy(folder / name, array)
    # The draws have a file of their own; what predictions are averaged over is in the mixture.
    replace(model.mixture_, preparation=task.preparation).save(folder / "model.npz")
    write_labels(folder / "labels.csv", fitted, task, tell)
    written = ["labels.csv", *arrays, "model.npz"]
    if model.draws_ is None:
        return written
    model.draws_.save(folder / "draws.npz")
    return [*written, "draws.npz"]


def write_lazily(folder: Path, fitted: Fitted, task: Task) -> list[str]:
    """Labels, from one worker after the other, model and draws; the names of the files."""
    model = fitted.model
    labels: Any = model.labels_

    def write_blocks(file: IO[bytes]) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(labels.dtype), "fortran_order": False, "shape": labels.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in labels.blocks:
            file.write(np.asarray(block).tobytes())

    write_atomically(folder / "labels.npy", write_blocks)
    model.mixture_.save(folder / "model.npz")
    if model.draws_ is None:
        return ["labels.npy", "model.npz"]
    model.draws_.save(folder / "draws.npz")
    return ["labels.npy", "model.npz", "draws.npz"]


def write_labels(path: Path, fitted: Fitted, task: Task, tell: Callable[[str], None]) -> None:
    """Each row's cluster and group, how probable the cluster is, whether the row is an outlier, and its data."""
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


def present_rows(model: DPMM) -> Any:
    """Which rows have values, and a cluster for that reason."""
    there = np.ones(len(model.labels_), bool)
    if model._present is not None:
        there[:] = False
        there[model._present.rows] = True
    return there


def trace_columns(model: DPMM) -> dict[str, Any]:
    """The iterations of the search; of several chains one after the other, with their numbers."""
    from dpmmwrap.sampler.trace import COLUMNS

    traces = model.traces_
    columns = {"iteration": np.concatenate([np.arange(1, len(trace) + 1) for trace in traces])}
    columns |= {name: np.concatenate([trace[name] for trace in traces]) for name in COLUMNS}
    if len(traces) == 1:
        return columns
    return {"chain": np.repeat(np.arange(1, len(traces) + 1), [len(trace) for trace in traces])} | columns


def page(path: Path, fitted: Fitted, summary: dict[str, Any], task: Task) -> bool:
    """The page to look at; whether it could be written."""
    from dpmmwrap.describe.report import Subject, write_report

    def write_page() -> None:
        subject = Subject(
            fitted.model,
            task.data.X,
            source=Path(task.source).name,
            names=task.data.names,
            ids=row_ids(task),
            numbered=getattr(task.data, "ids", None) is None,
            command=command_line(),
            notes=fitted.notes,
            groups=fitted.groups,
            seconds=fitted.seconds,
            scores={name: summary[name] for name in ("nmi", "ari", "true_clusters") if name in summary},
            preparation=task.preparation,
            truth=task.truth,
            classes=task.classes,
        )
        write_report(path, subject)

    return attempt(path.name, write_page)


def row_ids(task: Task) -> Any:
    """The rows' own names; where some rows were left out, their numbers in the file; None for 1, 2, 3, …"""
    ids = getattr(task.data, "ids", None)
    return (None if task.kept is None else task.kept + 1) if ids is None else ids


def command_line() -> str:
    """What the user typed, but for what shows only on the way (--quiet, --json)."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    words = context.command_path.split()
    options: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not click.core.ParameterSource.COMMANDLINE or parameter.name in ("quiet", "as_json"):
            continue
        value = context.params[parameter.name or ""]
        several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
        for one in value if several else [value]:
            if isinstance(parameter, click.Argument):
                words.append(str(one))
            elif isinstance(one, bool):
                options.append((parameter.opts if one else parameter.secondary_opts)[0])
            else:
                # Columns are typed with commas between them.
                options += [parameter.opts[0], ",".join(one) if isinstance(one, tuple) else str(one)]
    return shlex.join([*words, *options])


def draw(folder: Path, fitted: Fitted, task: Task) -> dict[str, bool]:
    """The pictures, and whether they could be drawn."""

    def save(name: str, figure: Callable[[], Any]) -> bool:
        return attempt(name, lambda: plotting.save_figure(folder / name, figure()))

    return {name: save(name, figure) for name, figure in pictures(fitted, task).items()}


def attempt(name: str, make: Callable[[], None]) -> bool:
    """Whether a file to look at could be made: if not, what else there is to be written still is."""
    try:
        make()
    except InputError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        click.echo(f"dpmmwrap: {name} could not be drawn ({reason})", err=True)
        return False
    return True


def pictures(fitted: Fitted, task: Task) -> dict[str, Callable[[], Any]]:
    """What there is to be drawn, by the names of the files."""
    model, groups = fitted.model, fitted.groups
    draws, truth = model.draws_, task.truth
    true_clusters = None if truth is None else len(np.unique(truth[truth >= 0]))
    found: dict[str, Callable[[], Any]] = {
        "clusters.png": lambda: plotting.fit_figure(model, task.data.X, names=task.data.names)
    }
    if groups is not None:
        found["groups.png"] = lambda: plotting.groups_figure(groups, sizes(model.labels_))
    if draws is not None:
        found["posterior.png"] = lambda: plotting.n_clusters_figure(draws)
        if draws.labels is not None:
            found["pairs.png"] = lambda: pairs_figure(model)
        found["chains.png"] = lambda: plotting.chains_figure(draws)
    found["trace.png"] = lambda: plotting.trace_figure(
        model.trace_, true_clusters=true_clusters, title=trace_title(model)
    )
    return found


def pairs_figure(model: DPMM) -> Any:
    """How probably points share a cluster: all, or some that are evenly spaced."""
    count = len(model.labels_)
    rows = np.unique(np.linspace(0, count - 1, min(count, PAIRS_SHOWN)).astype(int))
    shown = f"{len(rows):,} of {counted(count, 'point')}" if len(rows) < count else counted(count, "point")
    title = f"{counted(model.n_clusters_, 'cluster')}, {shown}"
    return plotting.coclustering_figure(model.coclustering(rows), model.labels_[rows], title)


def trace_title(model: DPMM) -> str | None:
    """Of several chains, which it is."""
    if len(model.traces_) == 1:
        return None
    number = next(place for place, trace in enumerate(model.traces_) if trace is model.trace_) + 1
    return f"{counted(len(model.trace_), 'iteration')} of chain {number}, the best of {len(model.traces_)}"
