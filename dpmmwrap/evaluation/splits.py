"""How well each start splits the paper's easy, medium and hard test sets: a table and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from dpmmwrap.describe import plotting
from dpmmwrap.describe.report.engine import Picture, ReportTable, Section, write_sections
from dpmmwrap.evaluation.figures import SplitExample, save_both, splits_figure
from dpmmwrap.evaluation.summary import formatted
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.files import write_csv
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray, UInt8Array
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.splitnet.synthesis import LEVELS, TEST_CONCENTRATION, draw_test_sets, split_log_hastings
from dpmmwrap.starts import Initializer, SplitCriterion, make_initializer

Splitter = Callable[[Float32Array], Sequence[UInt8Array] | Sequence[Float64Array]]
"""From sets (count, n, D) to the 0/1 labels of each, or the probabilities of 1."""


@dataclass(frozen=True)
class SplitResult:
    """The results of a method on the sets of one level."""

    method: str
    level: str
    ari: float
    positive: float
    """The share of splits with a positive log Hastings ratio."""
    milliseconds: float
    """Per set; NaN for the oracle, which knows the truth."""
    calibration: float = float("nan")
    """The expected calibration error of methods that give probabilities."""


NETWORK_ALONE, START = "SplitNet, network alone", "SplitNet start"
PARTS: dict[str, dict[str, object]] = {"without EM": {"refine": 0}, "without the network": {"network": False}}
"""SplitNet's start without some of its parts. 2-means is always among its candidates."""


def splitters(dim: int, seed: int, weights: Path | None, parts: bool) -> dict[str, Splitter]:
    """The methods by name, in the order of the table."""
    from dpmmwrap.splitnet.network import SplitNet

    network = SplitNet.load(dim if weights is None else weights)

    def by_expectation_maximisation(sets: Float32Array) -> list[UInt8Array]:
        """scikit-learn's mixture of two Gaussians, started by k-means."""
        model = GaussianMixture(2, random_state=0, reg_covar=1e-6)
        return [model.fit_predict(X.astype(np.float64)).astype(np.uint8) for X in sets]

    options: dict[str, object] = {"weights": weights}
    methods: dict[str, Splitter] = {
        "random": by_start(make_initializer("random"), seed),
        "2-means": by_start(make_initializer("kmeans"), seed),
        "EM, 2 Gaussians": by_expectation_maximisation,
        # The probabilities that the network proposes, without EM and other candidates.
        NETWORK_ALONE: lambda sets: [network.split(X) for X in sets],
        START: by_start(make_initializer("splitnet", **options), seed),
    }
    for name, changed in PARTS.items() if parts else ():
        methods[f"{START} {name}"] = by_start(make_initializer("splitnet", **{**options, **changed}), seed)
    return methods


def by_start(start: Initializer, seed: int) -> Splitter:
    """All sets at once, as clusters of one data set."""

    def split(sets: Float32Array) -> list[UInt8Array]:
        count, n, dim = sets.shape
        start.bind(sets.reshape(-1, dim), SplitCriterion(NIW.reference(dim), DirichletProcess(TEST_CONCENTRATION)))
        members: list[IntArray] = list(np.arange(count * n).reshape(count, n))
        return start(members, np.random.default_rng(seed))

    return split


def compare_splits(dim: int, sets: int, seed: int, weights: Path | None, parts: bool) -> list[SplitResult]:
    """A result per level and method; `parts` adds SplitNet's start without each of its parts."""
    methods = splitters(dim, seed, weights, parts)
    rows = []
    for number, level in enumerate(LEVELS):
        mixtures, X, truth = draw_test_sets(np.random.default_rng((seed, dim, number)), dim, level, sets)
        points = X.astype(np.float32)
        for name, split in methods.items():
            # Compile and load before the clock runs.
            split(points[:1])
            begun = time.perf_counter()
            labels = np.stack(split(points))
            milliseconds = 1000 * (time.perf_counter() - begun) / sets
            rows.append(judge(name, level, X, truth, labels, milliseconds))
        oracle = mixtures.responsibilities(X).argmax(axis=1)
        rows.append(judge("oracle", level, X, truth, oracle, float("nan")))
    return rows


def judge(method: str, level: str, X: Float64Array, truth: IntArray, split: Any, milliseconds: float) -> SplitResult:
    """Judge labels 0 and 1, or probabilities, whose calibration is measured, too."""
    labels = (split > 0.5).astype(np.int64)
    agreement = np.mean([adjusted_rand_score(y, z) for y, z in zip(truth, labels, strict=True)])
    positive = (split_log_hastings(X, labels, TEST_CONCENTRATION) > 0).mean()
    error = calibration_error(split, truth) if np.issubdtype(split.dtype, np.floating) else float("nan")
    return SplitResult(method, level, float(agreement), float(positive), milliseconds, error)


def reliability(split: FloatArray, truth: IntArray) -> tuple[Float64Array, Float64Array, Float64Array]:
    """By ten bins of the probabilities (sets, n) of half 1: shares of points, mean probabilities, frequencies.

    Halves are named to fit the truth best.
    """
    turned = ((split > 0.5) == (truth == 1)).mean(axis=1) < 0.5
    probabilities = np.where(turned[:, None], 1 - split, split).ravel()
    bins = np.minimum((probabilities * 10).astype(np.int64), 9)
    counts = np.bincount(bins, minlength=10)
    sums = [np.bincount(bins, x, 10) for x in (probabilities, (truth == 1).ravel().astype(np.float64))]
    probability, frequency = (total / np.maximum(counts, 1) for total in sums)
    return counts / counts.sum(), probability, frequency


def calibration_error(split: FloatArray, truth: IntArray) -> float:
    """The expected calibration error: the mean distance between probability and frequency."""
    shares, probability, frequency = reliability(split, truth)
    return float((shares * np.abs(probability - frequency)).sum())


def levels_table(rows: Sequence[SplitResult], title: str = "method") -> ReportTable:
    cells = {(row.method, row.level): row for row in rows}
    header = [title, *(f"{level}: {measure}" for level in LEVELS for measure in ("ARI", "H > 1", "ms"))]
    lines = []
    for method in dict.fromkeys(row.method for row in rows):
        levels = [cells[method, level] for level in LEVELS]
        each = [(f"{row.ari:.2f}", f"{row.positive:.2f}", formatted(row.milliseconds, ".1f", "")) for row in levels]
        error = formatted(float(np.mean([row.calibration for row in levels])), ".3f", "")
        lines.append([method, *(cell for three in each for cell in three), error])
    return ReportTable([*header, "calibration error"], lines)


EXAMPLES = 2
"""The first sets of each level are in the figure."""
SHOWN = ("2-means", START)


def write_splits(
    folder: Path, results: Sequence[SplitResult], dim: int, sets: int, seed: int, weights: Path | None, command: str
) -> None:
    """results.csv, the figure, report.html and report.md."""
    columns = {name: [getattr(row, name) for row in results] for name in vars(results[0])}
    same = {"dim": dim, "sets": sets, "seed": seed, "weights": "shipped" if weights is None else str(weights)}
    write_csv(folder / "results.csv", {name: [value] * len(results) for name, value in same.items()} | columns)
    words = [
        f"{sets} pairs of Gaussians of each of the paper's levels, in {dim} dimensions. "
        "ARI is against the truth; H > 1 is the share of splits that the sampler would accept at once; "
        "milliseconds are per set; the calibration error is the mean distance of probabilities from frequencies. "
        "The oracle knows the true parameters."
    ]
    section = Section("Results", words, levels_table(results))
    if plotting.available() and dim > 1:
        examples = draw_examples(dim, sets, seed, weights)
        file = save_both(folder, "splits", splits_figure(examples))
        seen = "" if dim == 2 else ", on two principal components"
        section.pictures.append(Picture(file, f"The first sets of each level{seen}."))
    write_sections(folder, f"Splits in {dim} dimensions", command, [section])


def draw_examples(dim: int, sets: int, seed: int, weights: Path | None) -> list[SplitExample]:
    """The first sets of each level, the same as in `compare_splits`."""
    methods = splitters(dim, seed, weights, parts=False)
    examples = []
    for number, level in enumerate(LEVELS):
        _, X, truth = draw_test_sets(np.random.default_rng((seed, dim, number)), dim, level, sets)
        few = X[: min(EXAMPLES, sets)]
        splits = {name: methods[name](few.astype(np.float32)) for name in SHOWN}
        for i, points in enumerate(few):
            labellings = {"truth": truth[i]}
            for name, labels in splits.items():
                labellings[f"{name}: ARI {adjusted_rand_score(truth[i], labels[i]):.2f}"] = labels[i]
            examples.append(SplitExample(level, points, labellings))
    return examples
