"""The multinomial distribution for rows of counts, dense or sparse, with a Dirichlet prior on the proportions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.sparse import csr_matrix
from scipy.special import gammaln

from dpmmwrap.families.base import (
    ClusterPosteriors,
    Input,
    Points,
    PosteriorBatch,
    concatenate,
    counts_of,
    grouped,
    put_rows,
    take,
)
from dpmmwrap.families.linear.prior import LinearPrior
from dpmmwrap.families.linear.statistics import LinearStatistics, union
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.cells import Embedder
from dpmmwrap.numerics.loops import Loops

proportions = Loops("dpmmwrap.families.multinomial.proportions")
loops = Loops("dpmmwrap.families.multinomial.points")
CHUNK_ROWS = 1 << 14
ROWS_PER_FEATURE = 100


@dataclass(frozen=True)
class Dirichlet(LinearPrior):
    """Dirichlet prior on proportions: proportions ~ Dir(concentration). A row of counts is one multinomial draw.

    Parameters
    ----------
    concentration : array, shape (D,)
        Positive, one per feature. Smaller values expect clusters with few features each, and give more clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM, Dirichlet
    >>> X = np.repeat([[9, 1, 0, 0], [0, 0, 1, 9]], 30, axis=0)
    >>> model = DPMM(family="multinomial", prior=Dirichlet(np.full(4, 0.5)), n_chains=1, random_state=0)
    >>> model.fit(X).n_clusters_
    2
    """

    concentration: Float64Array
    family: ClassVar[str] = "multinomial"
    input: ClassVar[Input] = "counts"
    profile: ClassVar[Input] = "counts"
    coordinates: ClassVar[str] = "square roots of the proportions"
    called: ClassVar[str] = "a Dirichlet prior"
    FIELDS: ClassVar[tuple[str, ...]] = ("concentration",)

    def __post_init__(self) -> None:
        concentration = np.ascontiguousarray(self.concentration, dtype=np.float64)
        object.__setattr__(self, "concentration", concentration)
        if concentration.shape[-1] == 0 or not (concentration > 0).all():
            raise ValueError("a Dirichlet prior needs a positive concentration for each feature")

    @classmethod
    def from_data(cls, X: Points) -> Dirichlet:
        """The default prior: a concentration of 0.1 for every feature.

        Parameters
        ----------
        X : array or sparse matrix, shape (N, D)
            The data.

        Returns
        -------
        Dirichlet
            The prior.
        """
        return cls(np.full(X.shape[1], 0.1))

    @staticmethod
    def is_wide(X: Points) -> bool:
        """Typical of documents with many words: halves of all rows say little about many topics."""
        return bool(X.shape[0] < ROWS_PER_FEATURE * X.shape[1])

    @property
    def dim(self) -> int:
        return int(self.concentration.shape[-1])

    @cached_property
    def prior_terms(self) -> tuple[float, Float64Array]:
        """Log Gamma of the total concentration and of each feature's concentration."""
        return math.lgamma(float(self.concentration.sum())), np.asarray(gammaln(self.concentration))

    def compute(self, statistics: LinearStatistics) -> PosteriorBatch:
        """The posterior and the log marginal likelihood of each cluster."""
        return PosteriorBatch(self.posterior(statistics), self.log_marginal_likelihood(statistics))

    def compute_both(self, subclusters: LinearStatistics) -> ClusterPosteriors:
        """Avoids further arrays of the size of the statistics, which are large for wide data."""
        clusters = union(take(subclusters, slice(0, None, 2)), take(subclusters, slice(1, None, 2)))
        both = clusters, subclusters
        log_marginal = np.concatenate([self.log_marginal_likelihood(one) for one in both])
        return ClusterPosteriors(*both, CountPosteriors(self, *both), log_marginal)

    @classmethod
    def _unchecked(cls, concentration: Float64Array) -> Dirichlet:
        made = object.__new__(cls)
        made.__dict__["concentration"] = concentration
        return made

    def posterior(self, statistics: LinearStatistics) -> Dirichlet:
        return Dirichlet._unchecked(self.concentration + statistics.sums)

    def log_marginal_likelihood(self, statistics: LinearStatistics, posterior: Any = None) -> Float64Array:
        """log f of each cluster without the multinomial coefficients of its rows, which do not depend on the labels."""
        return np.asarray(proportions.log_marginals(self.concentration, *self.prior_terms, statistics.sums))

    def union_log_marginals(self, statistics: LinearStatistics, one: IntArray, other: IntArray) -> Float64Array:
        return np.asarray(
            proportions.union_log_marginals(self.concentration, *self.prior_terms, statistics.sums, one, other)
        )

    def make_parts(self, X: Points) -> list[Any]:
        return [loops.count_part(X)]

    def draw_tables(self, key: Any) -> Any:
        """Log proportions (K, V) drawn from each distribution of the batch."""
        # A single column of V levels.
        return proportions.draw_log_proportions(key, np.array([0, self.dim]), self.concentration)

    def expected_tables(self, clusters: int) -> tuple[Any, Any]:
        """Logs of the expected proportions of clusters and of their halves (V, K), for the search."""
        nothing, both = np.zeros(self.dim), (self.concentration[:clusters], self.concentration[clusters:])
        return proportions.expected_tables(nothing, both[0], False), proportions.expected_tables(nothing, both[1], True)

    def log_predictive(self, X: Points) -> Float64Array:
        """Log probability of each row under each distribution's Dirichlet-multinomial (K, N).

        Gamma(a + x) / Gamma(a) is a (a + 1) ... (a + x - 1). The logs of the j-th factors of all entries form one
        product with the sparse indicator matrix of counts above j. Counts above STEPS, and fractional ones, are
        computed one by one.
        """
        batch = self.concentration.reshape(-1, self.dim)
        rows, columns, values = entries(X)
        lengths = np.bincount(rows, values, minlength=X.shape[0])
        found = np.zeros((X.shape[0], len(batch)))
        found += (gammaln(lengths + 1) - np.bincount(rows, gammaln(values + 1), minlength=X.shape[0]))[:, None]
        distinct, which = np.unique(lengths, return_inverse=True)
        totals = batch.sum(axis=1)
        found += (gammaln(totals) - gammaln(totals + distinct[:, None]))[which]
        small = (values <= STEPS) & (values == np.floor(values))
        for step in range(int(values[small].max(initial=0.0))):
            above = small & (values > step)
            found += log_factors(batch, step, rows[above], columns[above], X.shape[0])
        for row, column, value in zip(rows[~small], columns[~small], values[~small], strict=True):
            found[row] += gammaln(batch[:, column] + value) - gammaln(batch[:, column])
        return found.T

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw a row of SAMPLED_LENGTH counts from each of these distributions; the model does not include the
        length."""
        batch = self.concentration.reshape(-1, self.dim)
        rows = np.empty((len(components), self.dim))
        for row, k in enumerate(components):
            rows[row] = rng.multinomial(SAMPLED_LENGTH, rng.dirichlet(batch[k]))
        return rows

    def statistics(
        self, X: Points, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> LinearStatistics:
        labels, count = grouped(labels, X.shape[0], n_clusters)
        sums = np.zeros((count, X.shape[1]))
        for begin in range(0, X.shape[0], CHUNK_ROWS):
            part, its_labels = X[begin : begin + CHUNK_ROWS], labels[begin : begin + CHUNK_ROWS]
            for k in np.flatnonzero(np.bincount(its_labels[its_labels >= 0], minlength=count)):
                members = its_labels == k
                if weights is None:
                    total = part[members].sum(axis=0, dtype=np.float64)
                else:
                    total = part[members].T @ weights[begin : begin + CHUNK_ROWS][members]
                sums[k] += np.asarray(total).ravel()
        return LinearStatistics(counts_of(labels, count, weights), sums)

    def replaced(self, rows: IntArray, other: Dirichlet) -> Dirichlet:
        others = other.concentration.reshape(-1, self.dim)
        return Dirichlet._unchecked(put_rows(self.concentration, rows, others))

    def embedder(self, X: Points) -> Embedder:
        """Square roots of each row's proportions, so that distances are Hellinger distances."""
        return root_proportions

    def outliers(self, X: Points, n_rows: int | None = None) -> Dirichlet:
        """The proportions of all data, as certain as all of the data, so that no outliers can change them much."""
        share = X.shape[0] / (n_rows or X.shape[0])
        return Dirichlet(np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / share + self.concentration)


class CountPosteriors(NamedTuple):
    """The posteriors of clusters and subclusters, stored as the prior and the statistics: for wide data, another array
    of that size would be too much."""

    prior: Dirichlet
    clusters: LinearStatistics
    subclusters: LinearStatistics

    @property
    def parts(self) -> tuple[CountPosteriors]:
        return (self,)

    @property
    def batch(self) -> Dirichlet:
        """The posteriors as an explicit batch."""
        return self.prior.posterior(concatenate([self.clusters, self.subclusters]))

    def expected_tables(self, clusters: int) -> tuple[Any, Any]:
        prior, tables = self.prior.concentration, proportions.expected_tables
        return tables(prior, self.clusters.sums, False), tables(prior, self.subclusters.sums, True)

    def replaced(self, rows: IntArray, other: Dirichlet) -> Dirichlet:
        return self.batch.replaced(rows, other)


SAMPLED_LENGTH = 100
STEPS = 16
"""Counts up to which rising factorials are computed factor by factor."""


def log_factors(batch: Float64Array, step: int, rows: IntArray, columns: IntArray, count: int) -> Float64Array:
    """Sums of log(concentration + step) over the entries of `count` rows (count, K)."""
    # Only those of the many thousand words that occur here.
    used, places = np.unique(columns, return_inverse=True)
    above = csr_matrix((np.ones(len(rows)), (rows, places)), shape=(count, len(used)))
    return np.asarray(above @ np.log(batch[:, used].T + step))


def entries(X: Points) -> tuple[IntArray, IntArray, Float64Array]:
    """The rows, columns and values of the nonzero counts, row by row."""
    if hasattr(X, "indptr"):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return rows, X.indices, np.asarray(X.data, dtype=np.float64)
    rows, columns = np.nonzero(X)
    return rows, columns, np.asarray(X[rows, columns], dtype=np.float64)


def root_proportions(X: Points) -> Any:
    """Square roots of the proportions of each row; sparse rows stay sparse."""
    totals = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
    totals[totals == 0] = 1.0
    if hasattr(X, "indptr"):
        found = X.astype(np.float32)
        found.data = np.sqrt(found.data / np.repeat(totals, np.diff(X.indptr))).astype(np.float32)
        if max(found.nnz, X.shape[1]) < 2**31:
            # scikit-learn's k-means requires 32-bit indices.
            found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
        return found
    return np.sqrt(X / totals[:, None]).astype(np.float32)
