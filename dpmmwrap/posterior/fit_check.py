"""Whether the clusters' distributions fit the data: a posterior predictive check of the density.

If the model is right, points that were left out are as probable as points that the model itself draws. Here a fifth of
the rows is left out at a time, the clusters' posteriors are computed from the rest, and the log densities of the rows
left out are compared with those of drawn points by the test of Kolmogorov and Smirnov. Labels are drawn once more from
each row's probabilities: the most probable ones would make clusters that overlap look narrower than they are. For the
same reason a learned prior is taken where it makes these clusters most probable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ks_2samp

from dpmmwrap.families.base import LearnedPrior, Points, Prior
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray

LEVEL = 0.05
"""The share of data sets that follow the model for which the check says that they do not."""
FOLDS = 5
DRAWN = 20_000
"""Points that are drawn, of which each fold has its share: chance among them is then small beside that of the rows."""


class FitCheck(NamedTuple):
    """How the log densities of rows that were left out compare with those of points drawn from the model.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> check = DPMM(random_state=0).fit(X).fit_check()
    >>> check.fits
    False
    """

    p_value: float
    """How often data that follow the model would differ from it as much."""
    distance: float
    """The largest difference between the two distribution functions, from 0 to 1."""

    @property
    def fits(self) -> bool:
        """Whether the data may well follow the model."""
        return self.p_value >= LEVEL

    def __str__(self) -> str:
        if self.fits:
            return f"the data may well follow the model (p = {self.p_value:.2g})"
        return f"the data do not follow the model (p = {self.p_value:.2g}): some clusters have another shape"


def can_check(prior: Prior) -> bool:
    """Whether points drawn from a family compare with any row; rows of counts have totals of their own."""
    return hasattr(prior, "mean_covariance")


def fit_check(
    points: Points, probabilities: FloatArray, prior: Prior, hyperprior: LearnedPrior | None, seed: int
) -> FitCheck:
    """Check the clusters of these rows, given each row's probability of each cluster. O(N K D^2)."""
    rng = np.random.default_rng(seed)
    labels = drawn_labels(probabilities, rng)
    if hyperprior is not None:
        prior = hyperprior.unrestricted().climb(prior, prior.statistics(points, labels))
    fold = rng.permutation(len(labels)) % min(FOLDS, len(labels))
    left_out, drawn = [], []
    for number in np.unique(fold):
        rest, rows = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        mixture = PredictiveMixture.of(prior, points[rest], labels[rest])
        left_out.append(mixture.log_density(points[rows]))
        drawn.append(mixture.log_density(mixture.draw_like(points[rows], DRAWN // FOLDS, rng)))
    found = ks_2samp(np.concatenate(left_out), np.concatenate(drawn), method="asymp")
    return FitCheck(float(found.pvalue), float(found.statistic))


class PredictiveMixture(NamedTuple):
    """The posterior predictives of clusters, with weights by their sizes."""

    log_weights: Float64Array
    posterior: Any

    @classmethod
    def of(cls, prior: Prior, points: Points, labels: IntArray) -> PredictiveMixture:
        _, labels = np.unique(labels, return_inverse=True)
        statistics = prior.statistics(points, labels.astype(np.int32))
        return cls(np.log(statistics.counts / statistics.counts.sum()), prior.posterior(statistics))

    def log_density(self, points: Points) -> Float64Array:
        found: Float64Array = np.logaddexp.reduce(
            self.log_weights[:, None] + self.posterior.log_predictive(points), axis=0
        )
        return found

    def draw_like(self, rows: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        """New points, with values missing where they are in some of these rows."""
        components = rng.choice(len(self.log_weights), count, p=np.exp(self.log_weights))
        found: FloatArray = self.posterior.sample(components, rng)
        missing = np.isnan(rows)
        if missing.any():
            found[missing[rng.integers(len(rows), size=count)]] = np.nan
        return found


def drawn_labels(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """A cluster for each row, drawn from its probabilities; numbers without gaps."""
    reached = np.cumsum(probabilities, axis=1)
    drawn = (reached < rng.random(len(reached))[:, None] * reached[:, -1:]).sum(axis=1)
    return np.unique(drawn, return_inverse=True)[1].astype(np.int32)
