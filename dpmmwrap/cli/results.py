"""What `dpmmwrap fit` says at the end and leaves in its folder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dpmmwrap.arrays import IntArray
from dpmmwrap.files import Data, write_csv, write_json, write_npy

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM

SIZES_SHOWN = 8


def summarise(model: DPMM, seconds: float, truth: IntArray | None) -> dict[str, Any]:
    """The result in a few numbers, as --json prints them and summary.json keeps them."""
    from dpmmwrap import __version__

    summary: dict[str, Any] = {
        "n_clusters": int(model.n_clusters_),
        "log_posterior": float(model.log_posterior_),
        "seconds": round(seconds, 3),
        "iterations": int(model.n_iter_),
        "backend": str(model.backend_),
        "init": model.init if isinstance(model.init, str) else "splitnet",
        "alpha": float(model.alpha),
        "seed": model.random_state,
        "interrupted": bool(model.interrupted_),
        "points": len(model.labels_),
        "dimensions": int(model.n_features_in_),
        "converted_from": model.trace_.converted_from,
        "outliers": int((model.labels_ < 0).sum()),
        "sizes": np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_clusters_).tolist(),
        "version": __version__,
    }
    if truth is not None:
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

        summary["nmi"] = float(normalized_mutual_info_score(truth, model.labels_))
        summary["ari"] = float(adjusted_rand_score(truth, model.labels_))
        summary["true_clusters"] = len(np.unique(truth))
    return summary


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
    click.echo(f"{source}: {summary['points']:,} points in {summary['dimensions']} dimensions")
    for name, value in rows(summary):
        click.echo(f"  {click.style(f'{name:<14}', bold=True)} {value}")


def rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the table: a name and what is to be said about it."""
    clusters = f"{summary['n_clusters']}"
    if "true_clusters" in summary:
        clusters += f" (the truth has {summary['true_clusters']})"
    told = [
        ("clusters", clusters),
        ("sizes", sizes(summary["sizes"])),
        ("log posterior", f"{summary['log_posterior']:,.1f}"),
        ("time", f"{summary['seconds']:.1f} s, {summary['iterations']} iterations"),
        ("sampler", f"{summary['backend']}, {summary['init']} subclusters, seed {summary['seed']}"),
    ]
    if summary["outliers"]:
        told.insert(2, ("outliers", f"{summary['outliers']:,}"))
    if "nmi" in summary:
        told.insert(-2, ("NMI, ARI", f"{summary['nmi']:.3f}, {summary['ari']:.3f}"))
    if summary["converted_from"]:
        told.append(("data", f"converted from {summary['converted_from']} to float32, once"))
    if summary["interrupted"]:
        told.append(("interrupted", "this is the result so far"))
    return told


def sizes(counts: list[int]) -> str:
    """The largest clusters first."""
    ordered = sorted(counts, reverse=True)
    shown = ", ".join(f"{count:,}" for count in ordered[:SIZES_SHOWN])
    more = len(ordered) - SIZES_SHOWN
    return f"{shown} and {more} smaller" if more > 0 else shown


def write(folder: Path, model: DPMM, summary: dict[str, Any], data: Data, truth: IntArray | None) -> str:
    """Fill the folder; one sentence says with what."""
    from dpmmwrap.trace import COLUMNS

    write_npy(folder / "labels.npy", model.labels_)
    model.save(folder / "model.npz")
    iterations = {"iteration": np.arange(1, len(model.trace_) + 1)}
    write_csv(folder / "trace.csv", iterations | {name: model.trace_[name] for name in COLUMNS})
    write_json(folder / "summary.json", finite(summary))
    written = ["labels.npy", "model.npz", "trace.csv", "summary.json"]
    pictures = draw(folder, model, data, truth)
    missing = "" if pictures else " (for pictures: pip install matplotlib)"
    return f"Written to {folder}: {', '.join(written + pictures)}{missing}"


def draw(folder: Path, model: DPMM, data: Data, truth: IntArray | None) -> list[str]:
    """The pictures, where matplotlib is installed."""
    from dpmmwrap.evaluation import figures

    if not figures.available():
        return []
    clusters = figures.clusters_figure(data.X, model.labels_, model.means_, model.covariances_)
    figures.save_figure(folder / "clusters.png", clusters)
    true_clusters = None if truth is None else len(np.unique(truth))
    figures.save_figure(folder / "trace.png", figures.trace_figure(model.trace_, true_clusters=true_clusters))
    return ["clusters.png", "trace.png"]
