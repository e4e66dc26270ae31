"""How well each start splits a cluster: the paper's easy, medium and hard test sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray, UInt8Array
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.splitnet.synthesis import LEVELS, TEST_CONCENTRATION, draw_test_sets, split_log_hastings
from dpmmwrap.starts import Initializer, SplitCriterion, make_initializer

Splitter = Callable[[Float32Array], Sequence[UInt8Array] | Sequence[Float64Array]]
"""Sets (count, n, D) in, 0/1 labels of each out, or the probability of 1."""


@dataclass(frozen=True)
class SplitResult:
    """What a method came to on the sets of one level."""

    method: str
    level: str
    ari: float
    positive: float
    """Share of splits with a positive log Hastings ratio."""
    milliseconds: float
    """Per set; not a number for the oracle, which is given the truth."""
    calibration: float = float("nan")
    """The expected calibration error, for methods that give probabilities."""


class Reliability(NamedTuple):
    """Of points by what was said of them: their share, the mean probability, and how often it came true."""

    shares: Float64Array
    said: Float64Array
    came_true: Float64Array


CALIBRATION_BINS = 10


NETWORK_ALONE, START = "SplitNet, network alone", "SplitNet start"
PARTS: dict[str, dict[str, object]] = {"without EM": {"refine": 0}, "without the network": {"network": False}}
"""SplitNet's start without some of its parts. 2-means is always among its candidates."""


def splitters(dim: int, seed: int, weights: Path | None, parts: bool) -> dict[str, Splitter]:
    """The methods by name, in the order of the table."""
    options: dict[str, object] = {"weights": weights}
    found = {
        "random": by_start(make_initializer("random"), seed),
        "2-means": by_start(make_initializer("kmeans"), seed),
        "EM, 2 Gaussians": by_expectation_maximisation,
        NETWORK_ALONE: by_network(dim, weights),
        START: by_start(make_initializer("splitnet", **options), seed),
    }
    for name, changed in PARTS.items() if parts else ():
        found[f"{START} {name}"] = by_start(make_initializer("splitnet", **{**options, **changed}), seed)
    return found


def by_start(start: Initializer, seed: int) -> Splitter:
    """All sets at once, as clusters of one data set."""

    def split(sets: Float32Array) -> list[UInt8Array]:
        count, n, dim = sets.shape
        start.bind(sets.reshape(-1, dim), SplitCriterion(NIW.reference(dim), DirichletProcess(TEST_CONCENTRATION)))
        members: list[IntArray] = list(np.arange(count * n).reshape(count, n))
        return start(members, np.random.default_rng(seed))

    return split


def by_expectation_maximisation(sets: Float32Array) -> list[UInt8Array]:
    """scikit-learn's mixture of two Gaussians, begun by k-means."""
    return [
        GaussianMixture(2, random_state=0, reg_covar=1e-6).fit_predict(X.astype(np.float64)).astype(np.uint8)
        for X in sets
    ]


def by_network(dim: int, weights: Path | None) -> Splitter:
    """The first proposal of the network for all points of a set, as probabilities: no EM, no other candidates."""
    from dpmmwrap.splitnet.network import SplitNet

    network = SplitNet.load(dim if weights is None else weights)
    return lambda sets: [network.split(X) for X in sets]


def compare_splits(
    dim: int,
    *,
    sets: int = 80,
    seed: int = 0,
    weights: Path | None = None,
    parts: bool = False,
    n: int | None = None,
) -> list[SplitResult]:
    """One row per level and method; `parts` adds SplitNet's start without each of its parts."""
    methods = splitters(dim, seed, weights, parts)
    rows = []
    for number, level in enumerate(LEVELS):
        mixtures, X, truth = draw_test_sets(np.random.default_rng((seed, dim, number)), dim, level, sets, n)
        points = X.astype(np.float32)
        for name, split in methods.items():
            split(points[:1])  # compiled and loaded before the clock runs
            begun = time.perf_counter()
            labels = np.stack(split(points))
            milliseconds = 1000 * (time.perf_counter() - begun) / sets
            rows.append(judge(name, level, X, truth, labels, milliseconds))
        oracle = mixtures.responsibilities(X).argmax(axis=1)
        rows.append(judge("oracle", level, X, truth, oracle, float("nan")))
    return rows


def judge(method: str, level: str, X: Float64Array, truth: IntArray, found: Any, milliseconds: float) -> SplitResult:
    """By labels 0 or 1, or by probabilities, which are also compared with how often they come true."""
    labels = (found > 0.5).astype(np.int64)
    agreement = np.mean([adjusted_rand_score(y, z) for y, z in zip(truth, labels, strict=True)])
    positive = (split_log_hastings(X, labels, TEST_CONCENTRATION) > 0).mean()
    error = calibration_error(found, truth) if np.issubdtype(found.dtype, np.floating) else float("nan")
    return SplitResult(method, level, float(agreement), float(positive), milliseconds, error)


def reliability(found: FloatArray, truth: IntArray) -> Reliability:
    """How often probabilities (sets, n) of side 1 come true, by tenths; a set's sides are named as fits it best."""
    turned = ((found > 0.5) == (truth == 1)).mean(axis=1) < 0.5
    probabilities = np.where(turned[:, None], 1 - found, found).ravel()
    bins = np.minimum((probabilities * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    counts = np.bincount(bins, minlength=CALIBRATION_BINS)
    sums = [np.bincount(bins, x, CALIBRATION_BINS) for x in (probabilities, (truth == 1).ravel().astype(np.float64))]
    said, came_true = (total / np.maximum(counts, 1) for total in sums)
    return Reliability(counts / counts.sum(), said, came_true)


def calibration_error(found: FloatArray, truth: IntArray) -> float:
    """The expected calibration error: the mean over points of how far what was said is from what came true."""
    bins = reliability(found, truth)
    return float((bins.shares * np.abs(bins.said - bins.came_true)).sum())


def table(rows: list[SplitResult], dim: int) -> str:
    """The rows as a Markdown table, a line per method."""
    names = list(dict.fromkeys(row.method for row in rows))
    cells = {(row.method, row.level): row for row in rows}
    header = [
        "D = " + str(dim),
        *(f"{level}: ARI" for level in LEVELS),
        *(f"{level}: H > 1" for level in LEVELS),
        "calibration error",
        "ms",
    ]
    lines = [header, ["---"] * len(header)]
    for name in names:
        found = [cells[name, level] for level in LEVELS]
        times = [row.milliseconds for row in found if not np.isnan(row.milliseconds)]
        lines.append(
            [
                name,
                *(f"{row.ari:.2f}" for row in found),
                *(f"{row.positive:.2f}" for row in found),
                "" if np.isnan(found[0].calibration) else f"{np.mean([row.calibration for row in found]):.3f}",
                f"{np.mean(times):.1f}" if times else "",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
