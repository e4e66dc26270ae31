"""Base class of the priors of linear families."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.linear.statistics import LinearStatistics, union, with_unions
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.loops import Loops

loops = Loops("dpmmwrap.families.linear.points")


class LinearPrior(Prior):
    """A prior, or a batch of posteriors, of a family whose statistics are sums of features."""

    STATISTICS: ClassVar[type[tuple[Any, ...]]] = LinearStatistics

    @abstractmethod
    def make_parts(self, X: Points) -> list[Any]:
        """Split points into kinds of columns with their loops (`linear.parts.Part`)."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """The prior of each kind of columns."""
        return (self,)

    def points(
        self, X: Points, n_jobs: int, stretch: Any = None, missing: bool | None = None, weights: Any = None
    ) -> Any:
        parts = self.make_parts(X)
        for part in parts:
            if missing is not None:
                part.expect(missing)
            if not (stretch is None and missing is None and weights is None):
                # With weights, or for a part of the rows, the type in which sums are exact is unknown.
                part.sum_type = np.float64
        return loops.LinearPoints(X, parts, n_jobs, stretch, weights)

    def posterior(self, statistics: LinearStatistics) -> Any:
        return self.compute(statistics).posterior

    def log_marginal_likelihood(self, statistics: LinearStatistics, posterior: Any = None) -> Float64Array:
        return self.compute(statistics).log_marginal

    def union_log_marginals(self, statistics: LinearStatistics, one: IntArray, other: IntArray) -> Float64Array:
        """Log marginal likelihoods of the unions of pairs of clusters."""
        pairs = (LinearStatistics(statistics.counts[rows], statistics.sums[rows]) for rows in (one, other))
        return self.log_marginal_likelihood(union(*pairs))

    @staticmethod
    def with_unions(subclusters: LinearStatistics) -> LinearStatistics:
        return with_unions(subclusters)

    def shifted(self, offset: FloatArray) -> Any:
        """Only numeric columns are shifted."""
        return self

    @staticmethod
    def origin(X: Points) -> Any:
        """Sums need no origin."""
        return None

    def plain_sums(self, X: Points, labels: IntArray, n_clusters: int, origin: Any) -> Any:
        return self.statistics(X, labels, n_clusters)

    @staticmethod
    def statistics_from_sums(sums: tuple[Any, ...], origin: Any) -> LinearStatistics:
        return LinearStatistics(*sums)
