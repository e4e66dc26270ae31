"""The time of predictions, for `benchmark.py serve`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from benchmark import Row, fastest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior.averaging import AveragedMixture

SIZES = (
    ("diag", 50_000, 384, 200),
    ("spherical", 50_000, 384, 200),
    ("diag", 300_000, 10, 30),
    ("full", 300_000, 10, 30),
)
DRAWS, FEWER = 30, 20
"""Draws to average over, and by how much the rows are fewer there."""


def prior_of(family: str, dim: int) -> Any:
    if family == "full":
        return NIW(np.zeros(dim), 0.1, (dim + 3) * np.eye(dim), dim + 3.0)
    return (
        NIG(np.zeros(dim), 0.1, np.full(dim, 5.0), 5.0)
        if family == "diag"
        else SphericalNIG(np.zeros(dim), 0.1, np.array([5.0]), 5.0)
    )


def rows() -> list[Row]:
    with threadpool_limits(os.cpu_count()):
        return list(measured())


def measured() -> Iterator[Row]:
    for family, count, dim, clusters in SIZES:
        rng, prior = np.random.default_rng(0), prior_of(family, dim)
        y = np.concatenate([np.arange(2 * clusters) % clusters, rng.choice(clusters, count - 2 * clusters)])
        X = (rng.normal(size=(clusters, dim))[y] + rng.normal(size=(count, dim))).astype(np.float32)
        mixture = Mixture.from_labels(X, y, prior)
        some, some_labels = X[:20_000], y[:20_000].astype(np.int32)
        draws = np.stack([np.where(rng.random(len(some)) < 0.01, 0, some_labels) for _ in range(DRAWS)])
        averaged = AveragedMixture.of(some, draws, some_labels, [prior] * DRAWS, 0.0, None)
        yield timed(X, mixture, replace(mixture, averaged=averaged)) | {"family": family}


def timed(X: np.ndarray, mixture: Mixture, over_draws: Mixture) -> Row:
    factors = np.ascontiguousarray(mixture.means.T, np.float32)
    kmeans = KMeans(mixture.n_clusters, init=factors.T, n_init=1, max_iter=1).fit(X[:5000])
    product, nearest, ours, one = fastest(
        lambda: X @ factors, lambda: kmeans.predict(X), lambda: mixture.predict(X), lambda: mixture.predict(X[:1]),
        repetitions=5,
    )  # fmt: skip
    alone, many = fastest(
        lambda: mixture.predict(X[: len(X) // FEWER]), lambda: over_draws.predict(X[: len(X) // FEWER]), repetitions=3
    )
    return {
        "family": "", "N": len(X), "D": X.shape[1], "K": mixture.n_clusters, "product s": product,
        "k-means s": nearest, "predict s": ours, "predict / product": ours / product, "one row ms": 1e3 * one,
        f"{DRAWS} draws / none": many / alone,
    }  # fmt: skip
