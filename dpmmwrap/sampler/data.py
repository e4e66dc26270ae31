"""Restricted Gibbs: weights, parameters, labels and sublabels for a fixed number of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.families import wishart
from dpmmwrap.families.gaussian import NIW, Gaussians, Statistics, concatenate
from dpmmwrap.sampler.kernels import labels as bookkeeping
from dpmmwrap.sampler.kernels import pairs
from dpmmwrap.sampler.kernels import whitened as kernels

CHUNK_BYTES = 1 << 20
"""A chunk of points is to stay in a core's second-level cache while it is looked at three times."""


@dataclass(frozen=True)
class Model:
    """What the chain samples from: concentration, prior, and the outlier component (always cluster 0) if any."""

    alpha: float
    prior: NIW
    outlier_weight: float = 0.0
    outlier_prior: NIW | None = None

    @cached_property
    def outliers(self) -> int:
        """How many of the first clusters are outlier components: 0 or 1."""
        return int(self.outlier_weight > 0)


class Evidence(NamedTuple):
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
    prior = model.prior
    return evidence_of(
        model,
        subclusters,
        *wishart.evidence(
            prior.fields, prior.log_partition[0], subclusters.counts, subclusters.means, subclusters.scatters
        ),
    )


def evidence_of(
    model: Model, subclusters: Statistics, own: Any, worked_out: Any, log_marginal: Float64Array
) -> Evidence:
    """What `wishart.evidence` found, with the outlier component by its own prior."""
    clusters, posterior = Statistics(*own), NIW.worked_out(*worked_out)
    if model.outlier_prior is not None:
        rows = np.array([0, len(clusters), len(clusters) + 1])
        outliers = concatenate([clusters[:1], subclusters[:2]])
        special = model.outlier_prior.posterior(outliers)
        log_marginal[rows] = model.outlier_prior.log_marginal_likelihood(outliers, special)
        posterior = posterior.replaced(rows, special)
    return Evidence(clusters, subclusters, posterior, log_marginal)


def log_posterior(model: Model, evidence: Evidence) -> float:
    """log p(labels, X) up to a constant: the Chinese restaurant process times the marginal likelihoods."""
    return float(wishart.log_joint(model.alpha, evidence.clusters.counts, evidence.log_marginal))


class Parameters(NamedTuple):
    """Drawn weights and Gaussians of the clusters and subclusters, as the kernels take them."""

    log_weights: Float64Array
    log_subweights: Float64Array
    gaussians: Gaussians


def draw_parameters(model: Model, evidence: Evidence, rng: Generator) -> Parameters:
    """Weights ~ Dir(N_1, ..., N_K, alpha), subweights ~ Dir(N_l + alpha/2, N_r + alpha/2), Gaussians from their NIW."""
    posterior, counts = evidence.posterior, evidence.clusters.counts[model.outliers :]
    log_weights, log_subweights, *gaussians = wishart.drawn(
        key_of(rng), model.alpha, counts, evidence.sides, posterior.degrees_of_freedom, posterior.mean,
        posterior.mean_strength, posterior.factors[0],
    )  # fmt: skip
    if model.outliers:
        log_weights = np.append(np.log(model.outlier_weight), log_weights + np.log1p(-model.outlier_weight))
    return Parameters(log_weights, log_subweights, Gaussians.worked_out(*gaussians))


def key_of(rng: Generator) -> Any:
    """A key for compiled random numbers (`variates`)."""
    return np.uint64(rng.bit_generator.random_raw())


class Points:
    """The data, the labels, and the threads that go over them in fixed chunks."""

    def __init__(self, X: Float32Array, labels: IntArray, sublabels: UInt8Array, n_jobs: int) -> None:
        # Always read-only: the kernels are then compiled once, for arrays and memory maps alike.
        self.X = X.view(np.ndarray)
        self.X.setflags(write=False)
        self.labels = labels
        self.sublabels = sublabels
        self.bounds = chunk_bounds(*X.shape)
        # Each chunk's rows in order of their labels, and where each cluster begins.
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

    def run(self, task: Callable[[int, int], None], length: int, parts: int) -> None:
        """Do task(begin, end) for so many parts of a length, on all threads; with one thread, all of it at once."""
        if self.pool is None:
            task(0, length)
        else:
            edges = even_edges(length, min(parts, length)).tolist()
            for _ in self.pool.map(task, edges[:-1], edges[1:]):
                pass

    def sweep(self, parameters: Parameters, key: np.uint64, greedy: bool) -> tuple[Statistics, Float64Array]:
        """Draw all labels and sublabels; the subclusters' new statistics, and the log probability with which each
        cluster's sublabels came up."""
        count = len(parameters.log_weights)
        clusters, neighbours, subclusters = kernel_tables(parameters)
        self.sort(count)
        sorting = (self.order, self.starts)
        dim = self.X.shape[1]
        groups = self.groups(count)
        counts = np.zeros((len(groups) - 1, count, 2), np.int64)
        sums = np.zeros((len(groups) - 1, count, 2, dim))
        squares = np.zeros((len(groups) - 1, count, 2, dim, dim))
        log_chances = np.zeros((len(groups) - 1, count))

        def sweep_part(begin: int, end: int) -> None:
            own = (counts[begin:end], sums[begin:end], squares[begin:end], log_chances[begin:end])
            kernels.sweep(
                self.X, self.labels, self.sublabels, self.bounds, groups[begin : end + 1], sorting, clusters,
                neighbours, subclusters, key, greedy, own,
            )  # fmt: skip

        self.run(sweep_part, len(groups) - 1, 4 * self.n_jobs)
        self.tables = clusters, neighbours
        return Statistics(*kernels.collect_statistics(counts, sums, squares, neighbours[0])), log_chances.sum(axis=0)

    def charge_partings(self, one: IntArray, other: IntArray, lead: Float64Array) -> Float64Array:
        """`lead` plus the log probability of the last sweep's labels within pairs of its clusters; what is below zero
        is only known to be so."""
        charged = np.empty(len(one))

        def look_at(begin: int, end: int) -> None:
            pairs.charge_partings(
                self.X, self.bounds, (self.order, self.starts), *self.tables, one[begin:end], other[begin:end],
                lead[begin:end], charged[begin:end],
            )  # fmt: skip

        self.run(look_at, len(one), len(one))
        return charged

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

    def sort(self, count: int) -> None:
        """Put each chunk's rows in order of their labels, of which there are so many; the last sweep may have."""
        if self.is_sorted:
            return
        chunks = len(self.bounds) - 1
        self.starts = np.empty((chunks, count + 1), np.int64)

        def sort_part(begin: int, end: int) -> None:
            kernels.sort_chunks(self.labels, self.bounds[begin : end + 1], self.starts[begin:end], self.order)

        self.run(sort_part, chunks, 4 * self.n_jobs)
        self.is_sorted = True

    def members(self, clusters: IntArray, counts: Float64Array) -> list[IntArray]:
        """The row numbers of each of these clusters, in order; counts are all clusters'."""
        self.sort(len(counts))
        rows = np.empty(int(counts[clusters].sum()), np.int32 if len(self.labels) < 2**31 else np.int64)
        ends = np.zeros(len(clusters) + 1, np.int64)
        bookkeeping.collect_members(self.order, self.starts, self.bounds, clusters, ends[1:], rows)
        return [rows[begin:end] for begin, end in itertools.pairwise(ends)]

    def halves(self, members: list[IntArray]) -> list[IntArray]:
        """The row numbers of all left subclusters of whole clusters, then of all right ones."""
        sides = [self.sublabels[rows] > 0 for rows in members]
        left = [rows[~side] for rows, side in zip(members, sides, strict=True)]
        return left + [rows[side] for rows, side in zip(members, sides, strict=True)]

    def set_sublabels(self, members: list[IntArray], sides: list[UInt8Array], origins: Float64Array) -> Statistics:
        """Write the sublabels of whole clusters and return the statistics of their subclusters."""
        dim = self.X.shape[1]
        near = origins.astype(np.float32)
        rows, sides_of_rows = np.concatenate(members), np.concatenate(sides)
        bounds = np.array([0, *itertools.accumulate(len(part) for part in members)])
        sums_of = (
            np.zeros((len(members), 2), np.int64),
            np.zeros((len(members), 2, dim)),
            np.zeros((len(members), 2, dim, dim)),
        )

        def start(begin: int, end: int) -> None:
            kernels.start_subclusters(
                self.X, self.sublabels, rows, sides_of_rows, bounds[begin : end + 1], near[begin:end],
                *(total[begin:end] for total in sums_of),
            )  # fmt: skip

        # Clusters differ in size: many parts, so that no thread waits long for another.
        self.run(start, len(members), len(members))
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
    drawn = parameters.gaussians
    clusters, (origins, offsets, radii) = pairs.neighbour_tables(
        parameters.log_weights, drawn.means, drawn.whitening, drawn.log_normalisers
    )
    subclusters = pairs.subcluster_tables(
        parameters.log_subweights, drawn.means, drawn.whitening, drawn.log_normalisers, origins
    )
    return clusters, (origins, offsets, np.argsort(radii, axis=1), radii), subclusters
