"""Restricted Gibbs: weights, parameters, labels and sublabels for a fixed number of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpmmwrap import conjugate
from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.backends.native import bookkeeping, kernels, pairs
from dpmmwrap.prior import NIW, Gaussians, Statistics

CHUNK_BYTES = 1 << 20
"""A chunk of points is to stay in a core's second-level cache while it is looked at three times."""


@dataclass(frozen=True)
class Model:
    """What the chain samples from: concentration, prior, and the outlier component (always cluster 0) if any."""

    alpha: float
    prior: NIW
    outlier_weight: float = 0.0
    outlier_prior: NIW | None = None

    @property
    def outliers(self) -> int:
        """How many of the first clusters are outlier components: 0 or 1."""
        return int(self.outlier_weight > 0)


@dataclass(frozen=True)
class Evidence:
    """All that the statistics say of K clusters and their 2K subclusters (left and right of each in turn)."""

    clusters: Statistics
    subclusters: Statistics
    posterior: NIW
    log_marginal: Float64Array
    """Posterior and log marginal likelihood of the K clusters, then of the 2K subclusters."""

    @property
    def n_clusters(self) -> int:
        return len(self.clusters)

    @property
    def sides(self) -> Float64Array:
        """Number of points left and right: (K, 2)."""
        return self.subclusters.counts.reshape(-1, 2)


def measure(model: Model, subclusters: Statistics) -> Evidence:
    """Posteriors and marginal likelihoods from the subclusters' statistics."""
    prior, count = model.prior, len(subclusters) // 2
    every, worked_out, log_marginal = conjugate.evidence(
        prior.fields, prior.log_partition[0], subclusters.counts, subclusters.means, subclusters.scatters
    )
    every, posterior = Statistics(*every), NIW.worked_out(*worked_out)
    if model.outlier_prior is not None:
        rows = np.array([0, count, count + 1])
        special = model.outlier_prior.posterior(every[rows])
        log_marginal[rows] = model.outlier_prior.log_marginal_likelihood(every[rows], special)
        posterior = posterior.replaced(rows, special)
    return Evidence(every[:count], subclusters, posterior, log_marginal)


def log_posterior(model: Model, evidence: Evidence) -> float:
    """log p(labels, X) up to a constant: the Chinese restaurant process times the marginal likelihoods."""
    counts = evidence.clusters.counts
    seated = conjugate.log_seating(model.alpha, counts)
    return float(seated + evidence.log_marginal[: len(counts)].sum())


@dataclass(frozen=True)
class Parameters:
    """Drawn weights and Gaussians of the clusters and subclusters, as the kernels take them."""

    log_weights: Float64Array
    log_subweights: Float64Array
    gaussians: Gaussians


def draw_parameters(model: Model, evidence: Evidence, rng: Generator) -> Parameters:
    """Weights ~ Dir(N_1, ..., N_K, alpha), subweights ~ Dir(N_l + alpha/2, N_r + alpha/2), Gaussians from their NIW."""
    posterior = evidence.posterior
    count, dim = posterior.mean.shape
    shapes = conjugate.gamma_shapes(
        model.alpha, evidence.clusters.counts[model.outliers :], evidence.sides, posterior.degrees_of_freedom, dim
    )
    gammas = rng.standard_gamma(shapes)
    masses, squares = gammas[: -dim * count], gammas[-dim * count :].reshape(dim, count)
    normals = rng.standard_normal((dim * (dim + 1) // 2, count), dtype=np.float32)
    log_weights, log_subweights, means, whitening, halves = conjugate.drawn(
        masses, squares, normals, evidence.n_clusters, posterior.mean, posterior.mean_strength, posterior.factors[0]
    )
    if model.outliers:
        log_weights = np.append(np.log(model.outlier_weight), log_weights + np.log1p(-model.outlier_weight))
    return Parameters(log_weights, log_subweights, Gaussians.worked_out(means, whitening, halves))


class Points:
    """The data, the labels, and the threads that go over them in fixed chunks."""

    def __init__(self, X: Float32Array, labels: IntArray, sublabels: UInt8Array, n_jobs: int) -> None:
        # Always read-only: the kernels are then compiled once, for arrays and memory maps alike.
        self.X = X.view(np.ndarray)
        self.X.setflags(write=False)
        self.labels = labels
        self.sublabels = sublabels
        self.bounds = chunk_bounds(*X.shape)
        # Each chunk's rows in order of their labels, and where each cluster begins: as the last sweep left them.
        self.order = np.empty(len(X), np.int32)
        self.starts = np.empty((len(self.bounds) - 1, 0), np.int64)
        self.is_sorted = False
        self.tables: Any = None
        """What the last sweep knew of its clusters and their neighbours."""
        self.n_jobs = n_jobs
        self.pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def run(self, task: Callable[[int], None], count: int) -> None:
        """Do task(0), ..., task(count - 1), on all threads."""
        if self.pool is None:
            for number in range(count):
                task(number)
        else:
            for _ in self.pool.map(task, range(count)):
                pass

    def sweep(self, parameters: Parameters, key: np.uint64, greedy: bool) -> tuple[Statistics, Float64Array]:
        """Draw all labels and sublabels; the subclusters' new statistics, and the log probability with which each
        cluster's sublabels came up."""
        count = len(parameters.log_weights)
        clusters, neighbours, subclusters = kernel_tables(parameters)
        if not self.is_sorted:
            self.starts = np.empty((len(self.bounds) - 1, count + 1), np.int64)
        sorting = (self.order, self.starts, self.is_sorted)
        dim = self.X.shape[1]
        groups = self.groups(count)
        counts = np.zeros((len(groups) - 1, count, 2), np.int64)
        sums = np.zeros((len(groups) - 1, count, 2, dim))
        squares = np.zeros((len(groups) - 1, count, 2, dim, dim))
        log_chances = np.zeros((len(groups) - 1, count))
        parts = min(4 * self.n_jobs if self.n_jobs > 1 else 1, len(groups) - 1)
        edges = even_edges(len(groups) - 1, parts)

        def sweep_part(number: int) -> None:
            begin, end = edges[number], edges[number + 1]
            own = (counts[begin:end], sums[begin:end], squares[begin:end], log_chances[begin:end])
            kernels.sweep(
                self.X, self.labels, self.sublabels, self.bounds, groups[begin : end + 1], sorting, clusters,
                neighbours, subclusters, key, greedy, own,
            )  # fmt: skip

        self.run(sweep_part, parts)
        self.is_sorted = True
        self.tables = clusters, neighbours
        return Statistics(*kernels.collect_statistics(counts, sums, squares, neighbours[0])), log_chances.sum(axis=0)

    def log_partings(self, one: IntArray, other: IntArray, least: Float64Array) -> Float64Array:
        """log probability of the last sweep's labels within pairs of its clusters; what is below `least` is only
        known to be so."""
        found = np.empty(len(one))
        sorting = (self.order, self.starts)

        def look_at(pair: int) -> None:
            found[pair] = pairs.log_parting(
                self.X, self.bounds, sorting, *self.tables, one[pair], other[pair], least[pair]
            )

        self.run(look_at, len(one))
        return found

    def groups(self, count: int) -> IntArray:
        """First chunk of each group: chunks whose statistics are summed one after the other.

        As many groups as memory allows, up to 64; no more depends on them than which threads can work at once.
        """
        dim = self.X.shape[1]
        most = max(4, (32 << 20) // (16 * count * (dim * dim + dim + 1)))
        chunks = len(self.bounds) - 1
        return even_edges(chunks, min(chunks, 64, most))

    def relabel(self, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        """Give each point the label and sublabel that its old pair maps to."""
        bookkeeping.relabel(self.labels, self.sublabels, to_label, to_sublabel)
        self.is_sorted = False

    def members(self, clusters: IntArray, counts: Float64Array) -> list[IntArray]:
        """The row numbers of each of these clusters, in order."""
        slot_of = np.full(len(counts), -1, np.int64)
        slot_of[clusters] = np.arange(len(clusters))
        starts = np.zeros(len(clusters) + 1, np.int64)
        np.cumsum(counts[clusters], out=starts[1:])
        rows = np.empty(starts[-1], np.int32 if len(self.labels) < 2**31 else np.int64)
        bookkeeping.collect_members(self.labels, slot_of, starts[:-1].copy(), rows)
        return [rows[begin:end] for begin, end in itertools.pairwise(starts)]

    def set_sublabels(self, members: list[IntArray], sides: list[UInt8Array], origins: Float64Array) -> Statistics:
        """Write the sublabels of whole clusters and return the statistics of their subclusters."""
        dim = self.X.shape[1]
        near = origins.astype(np.float32)
        rows, sides_of_rows = np.concatenate(members), np.concatenate(sides)
        bounds = np.zeros(len(members) + 1, np.int64)
        np.cumsum([len(part) for part in members], out=bounds[1:])
        sums_of = (
            np.zeros((len(members), 2), np.int64),
            np.zeros((len(members), 2, dim)),
            np.zeros((len(members), 2, dim, dim)),
        )
        # Clusters differ in size: many parts, so that no thread waits long for another.
        parts = len(members) if self.n_jobs > 1 else 1
        edges = even_edges(len(members), parts)

        def start(number: int) -> None:
            begin, end = edges[number], edges[number + 1]
            kernels.start_subclusters(
                self.X, self.sublabels, rows, sides_of_rows, bounds[begin : end + 1], near[begin:end],
                *(total[begin:end] for total in sums_of),
            )  # fmt: skip

        self.run(start, parts)
        return Statistics(*kernels.collect_statistics(*(total[None] for total in sums_of), near))


def chunk_bounds(rows: int, dim: int) -> IntArray:
    """Edges of the chunks: a function of the data's shape alone, so that sums do not depend on the threads."""
    largest = min(max(CHUNK_BYTES // (4 * dim), 4096), 32768)
    # Not too small either: in each chunk the last block of a cluster's points is only partly filled.
    chunks = max(-(-rows // largest), min(8, rows // 10_000), 1)
    return even_edges(rows, chunks)


def even_edges(length: int, parts: int) -> IntArray:
    """Where each of so many nearly equal parts begins, and where the last one ends."""
    return np.arange(parts + 1) * length // parts


def kernel_tables(parameters: Parameters) -> tuple[Any, Any, Any]:
    """The drawn parameters as the kernels take them: clusters, their neighbours, their subclusters."""
    gaussians = parameters.gaussians
    clusters, (origins, offsets, radii), subclusters = pairs.tables(
        parameters.log_weights, parameters.log_subweights, gaussians.means, gaussians.whitening,
        gaussians.log_normalisers,
    )  # fmt: skip
    return clusters, (origins, offsets, np.argsort(radii, axis=1), radii), subclusters
