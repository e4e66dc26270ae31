"""Whether the clusters' distributions fit the data: a posterior predictive check of the density.

If the model is right, points that were left out are as probable as points that the model itself draws. Here a fifth of
the rows is left out at a time, the clusters' posteriors are computed from the rest, and the log densities of the rows
left out are compared with those of drawn points by the test of Kolmogorov and Smirnov. Labels are first drawn from
each row's probabilities: the most probable ones would make clusters that overlap look narrower than they are. For the
same reason, a learned prior is moved to where it makes these clusters most probable.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.stats import ks_2samp

from dpmmwrap.families.base import Prior
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import FloatArray
from dpmmwrap.numerics.categorical_draws import draw_columns
from dpmmwrap.posterior.matching import without_gaps

LEVEL = 0.05
"""The probability that the check refutes data that follow the model."""
FOLDS = 5
DRAWN = 20_000
"""Points that are drawn in all folds together: enough that most of the randomness is in the rows."""


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


def can_check(family: Prior, outlier_weight: float, weights: FloatArray | None) -> bool:
    """Whether rows compare with points drawn from the mixture. Not rows of counts, whose totals are not modelled;
    not rows with weights, which stand for several; and not with an outlier component, as the outliers are unknown."""
    return bool(family.input == "numbers" and family.covariances) and not outlier_weight and weights is None


def fit_check(
    points: FloatArray, probabilities: FloatArray, prior: Prior, hyperprior: LearnedPrior | None, rng: Generator
) -> FitCheck:
    """Check the clusters of these rows, given each row's probability of each cluster. O(N K D^2)."""
    labels = without_gaps(draw_columns(probabilities, rng))
    if hyperprior is not None:
        prior = hyperprior.unrestricted().climb(prior, prior.statistics(points, labels))
    fold = rng.permutation(len(labels)) % min(FOLDS, len(labels))
    left_out, drawn = [], []
    for number in np.unique(fold):
        rows = points[fold == number]
        # A small cluster may have no rows but these.
        mixture = Mixture.from_labels(points[fold != number], without_gaps(labels[fold != number]), prior)
        left_out.append(mixture.score_samples(rows))
        drawn.append(mixture.score_samples(draw_like(mixture, rows, DRAWN // FOLDS, rng)))
    test = ks_2samp(np.concatenate(left_out), np.concatenate(drawn), method="asymp")
    return FitCheck(float(test.pvalue), float(test.statistic))


def draw_like(mixture: Mixture, rows: FloatArray, count: int, rng: Generator) -> FloatArray:
    """New points, with the gaps of randomly chosen rows."""
    points: FloatArray = mixture.sample(count, rng)[0]
    missing = np.isnan(rows)
    if missing.any():
        points[missing[rng.integers(len(rows), size=count)]] = np.nan
    return points
