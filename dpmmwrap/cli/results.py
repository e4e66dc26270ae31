"""What `dpmmwrap fit` says at the end and leaves in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from dpmmwrap import plotting
from dpmmwrap.files import InputError, write_csv, write_json, write_npy
from dpmmwrap.plotting import counted

if TYPE_CHECKING:
    from dpmmwrap.cli.fit import Task
    from dpmmwrap.estimator import DPMM

SIZES_SHOWN = 8


class Fitted(NamedTuple):
    """A fitted model, how long that took, and what is to be said of it."""

    model: DPMM
    seconds: float
    notes: tuple[str, ...] = ()


def summarise(fitted: Fitted, task: Task) -> dict[str, Any]:
    """The result in a few numbers, as --json prints them and summary.json keeps them."""
    from dpmmwrap import __version__

    model, truth = fitted.model, task.truth
    summary: dict[str, Any] = {
        "n_clusters": int(model.n_clusters_),
        "log_posterior": float(model.log_posterior_),
        "seconds": round(fitted.seconds, 3),
        "iterations": int(model.n_iter_),
        "backend": str(model.backend_),
        "family": model.family,
        "covariance_type": covariance_of(model),
        "covariance_reason": None if model.family == "multinomial" else model.covariance_reason_,
        "init": model.init_ if isinstance(model.init, str) else "splitnet",
        "alpha": float(model.alpha_),
        "seed": model.random_state,
        "interrupted": bool(model.interrupted_),
        "points": len(model.labels_),
        "dimensions": int(model.n_features_in_),
        "categorical": categorical_columns(model),
        "missing": int(model.n_missing_),
        "skipped": task.skipped,
        "converted_from": model.trace_.converted_from if model.family == "gaussian" else None,
        "outliers": int((model.labels_ < 0).sum()),
        "sizes": np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_clusters_).tolist(),
        "notes": list(fitted.notes),
        "version": __version__,
    }
    if truth is not None:
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

        summary["nmi"] = float(normalized_mutual_info_score(truth, model.labels_))
        summary["ari"] = float(adjusted_rand_score(truth, model.labels_))
        summary["true_clusters"] = len(np.unique(truth))
    return summary


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


def finite(summary: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN and no infinity: null stands for them."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in summary.items()
    }


def show(summary: dict[str, Any], source: str) -> None:
    """A short table on stdout."""
    click.echo(f"{source}: {counted(summary['points'], 'point')} {extent(summary)}")
    for name, value in rows(summary):
        click.echo(f"  {click.style(f'{name:<14}', bold=True)} {value}")
    for note in summary["notes"]:
        click.echo(f"note: {note}")


def extent(summary: dict[str, Any]) -> str:
    """How wide the data are."""
    columns = summary["dimensions"]
    if summary["family"] == "multinomial":
        return f"of {counted(columns, 'count')}"
    if summary["family"] == "gaussian":
        return f"in {counted(columns, 'dimension')}"
    categorical = len(summary["categorical"])
    return f"of {columns - categorical:,} numeric and {counted(categorical, 'categorical column')}"


def rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the table: a name and what is to be said about it."""
    clusters = f"{summary['n_clusters']}"
    if "true_clusters" in summary:
        clusters += f" (the truth has {summary['true_clusters']})"
    told = [
        ("clusters", clusters),
        ("sizes", sizes(summary["sizes"])),
        ("log posterior", f"{summary['log_posterior']:,.1f}"),
        ("family", family_words(summary)),
        ("time", f"{summary['seconds']:.1f} s, {counted(summary['iterations'], 'iteration')}"),
        ("sampler", f"{summary['backend']}, {summary['init']} subclusters, seed {summary['seed']}"),
    ]
    if summary["outliers"]:
        told.insert(2, ("outliers", f"{summary['outliers']:,}"))
    if "nmi" in summary:
        told.insert(-3, ("NMI, ARI", f"{summary['nmi']:.3f}, {summary['ari']:.3f}"))
    if summary["missing"]:
        told.append(("missing", counted(summary["missing"], "value")))
    if summary["skipped"]:
        told.append(("left out", f"{counted(summary['skipped'], 'row')} with missing values"))
    if summary["converted_from"]:
        told.append(("data", f"converted from {summary['converted_from']} to float32, once"))
    if summary["interrupted"]:
        told.append(("interrupted", "this is the result so far"))
    return told


def family_words(summary: dict[str, Any]) -> str:
    """The family, and why it has these covariances."""
    if summary["family"] == "multinomial":
        return "multinomial"
    if summary["family"] == "gaussian":
        return f"gaussian, {summary['covariance_type']} covariances: {summary['covariance_reason']}"
    names = summary["categorical"]
    return f"mixed, categorical: {', '.join(names)}" if names else "mixed, no column is categorical"


def sizes(counts: list[int]) -> str:
    """The largest clusters first."""
    ordered = sorted(counts, reverse=True)
    shown = ", ".join(f"{count:,}" for count in ordered[:SIZES_SHOWN])
    more = len(ordered) - SIZES_SHOWN
    return f"{shown} and {more} smaller" if more > 0 else shown


def write(folder: Path, model: DPMM, summary: dict[str, Any], task: Task) -> str:
    """Fill the folder; one sentence says with what."""
    from dpmmwrap.trace import COLUMNS

    write_npy(folder / "labels.npy", model.labels_)
    model.save(folder / "model.npz")
    iterations = {"iteration": np.arange(1, len(model.trace_) + 1)}
    write_csv(folder / "trace.csv", iterations | {name: model.trace_[name] for name in COLUMNS})
    write_json(folder / "summary.json", finite(summary))
    written = ["labels.npy", "model.npz", "trace.csv", "summary.json"]
    if task.kept is not None:
        # Which rows of the file the labels are of.
        write_npy(folder / "rows.npy", task.kept)
        written.insert(1, "rows.npy")
    if not plotting.available():
        return f"Written to {folder}: {', '.join(written)} (for pictures: pip install matplotlib)"
    return f"Written to {folder}: {', '.join([*written, *draw(folder, model, task)])}"


def draw(folder: Path, model: DPMM, task: Task) -> list[str]:
    """The pictures that could be drawn."""
    true_clusters = None if task.truth is None else len(np.unique(task.truth))
    pictures: dict[str, Callable[[], Any]] = {
        "clusters.png": lambda: plotting.fit_figure(model, task.data.X, names=task.data.names),
        "trace.png": lambda: plotting.trace_figure(model.trace_, true_clusters=true_clusters),
    }
    drawn = []
    for name, figure in pictures.items():
        try:
            plotting.save_figure(folder / name, figure())
        except InputError:
            raise
        # Whatever is odd about the data: the result is there, and a picture is not worth more than it.
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            click.echo(f"dpmmwrap: note: {name} could not be drawn ({reason})", err=True)
        else:
            drawn.append(name)
    return drawn
