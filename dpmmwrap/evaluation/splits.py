"""How well each start splits a cluster: the paper's easy, medium and hard test sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.splitnet.synthesis import LEVELS, TEST_CONCENTRATION, draw_test_sets, split_log_hastings
from dpmmwrap.starts import Initializer, SplitCriterion, make_initializer

Splitter = Callable[[Float32Array], Sequence[UInt8Array]]
"""Sets (count, n, D) in, 0/1 labels of each out."""


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


NO_OTHERS = {"ball_candidates": 0, "projection_candidates": 0, "radial_candidates": False}
PARTS: dict[str, dict[str, object]] = {
    "network, 2-means, EM": {**NO_OTHERS},
    "network, 2-means, no EM": {**NO_OTHERS, "refine": 0},
    "2-means, EM": {**NO_OTHERS, "network": False},
    "other candidates, EM, no network": {"network": False},
    "all candidates, no EM": {"refine": 0},
    "all candidates, EM, no polish": {"polish": False},
}
"""SplitNet's start without some of its parts. 2-means is always among its candidates."""


def splitters(dim: int, seed: int, weights: Path | None, parts: bool) -> dict[str, Splitter]:
    """The methods by name, in the order of the table."""
    options: dict[str, object] = {"weights": weights}
    found = {
        "random": by_start(make_initializer("random"), seed),
        "2-means": by_start(make_initializer("kmeans"), seed),
        "EM, 2 Gaussians": by_expectation_maximisation,
        "network alone": by_network(dim, weights, seed),
        "splitnet": by_start(make_initializer("splitnet", **options), seed),
    }
    for name, changed in PARTS.items() if parts else ():
        found[f"  {name}"] = by_start(make_initializer("splitnet", **{**options, **changed}), seed)
    return found


def by_start(start: Initializer, seed: int) -> Splitter:
    """All sets at once, as clusters of one data set."""

    def split(sets: Float32Array) -> list[UInt8Array]:
        count, n, dim = sets.shape
        start.bind(sets.reshape(-1, dim), SplitCriterion(NIW.reference(dim), TEST_CONCENTRATION))
        members: list[IntArray] = list(np.arange(count * n).reshape(count, n))
        return start(members, np.random.default_rng(seed))

    return split


def by_expectation_maximisation(sets: Float32Array) -> list[UInt8Array]:
    """scikit-learn's mixture of two Gaussians, begun by k-means."""
    return [
        GaussianMixture(2, random_state=0, reg_covar=1e-6).fit_predict(X.astype(np.float64)).astype(np.uint8)
        for X in sets
    ]


def by_network(dim: int, weights: Path | None, seed: int) -> Splitter:
    """The first proposal of the network for all points of a set: no EM, no other candidates."""
    from dpmmwrap.splitnet.proposals import first_proposal
    from dpmmwrap.splitnet.weights_io import load_weights, network_dim, shipped_dims, shipped_path

    network = load_weights(shipped_path(network_dim(dim, shipped_dims())) if weights is None else weights)

    def split(sets: Float32Array) -> list[UInt8Array]:
        rng = np.random.default_rng(seed)
        return [first_proposal(network, X, rng) for X in sets]

    return split


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


def judge(
    method: str, level: str, X: Float64Array, truth: IntArray, labels: IntArray, milliseconds: float
) -> SplitResult:
    agreement = np.mean([adjusted_rand_score(y, z) for y, z in zip(truth, labels, strict=True)])
    positive = (split_log_hastings(X, labels, TEST_CONCENTRATION) > 0).mean()
    return SplitResult(method, level, float(agreement), float(positive), milliseconds)


def table(rows: list[SplitResult], dim: int) -> str:
    """The rows as a Markdown table, a line per method."""
    names = list(dict.fromkeys(row.method for row in rows))
    cells = {(row.method, row.level): row for row in rows}
    header = ["D = " + str(dim), *(f"{level}: ARI" for level in LEVELS), *(f"{level}: H > 1" for level in LEVELS), "ms"]
    lines = [header, ["---"] * len(header)]
    for name in names:
        found = [cells[name, level] for level in LEVELS]
        times = [row.milliseconds for row in found if not np.isnan(row.milliseconds)]
        lines.append(
            [
                name,
                *(f"{row.ari:.2f}" for row in found),
                *(f"{row.positive:.2f}" for row in found),
                f"{np.mean(times):.1f}" if times else "",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
