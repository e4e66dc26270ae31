"""How good a clustering is: against the truth, under the model, and how soon it was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.sampler.stopping import GREEDY_STEPS

if TYPE_CHECKING:
    from dpmmwrap.families.base import Points, Prior


def ari_of_table(table: IntArray) -> float:
    """Adjusted Rand index from a contingency table: the same number as scikit-learn's, cheap enough for a trace."""
    counts = np.asarray(table, dtype=np.float64)
    rows, columns = pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0))
    chance = rows * columns / max(pairs(counts.sum(keepdims=True)), 1.0)
    most = (rows + columns) / 2
    # Both are one cluster, or both are all singletons: there is nothing to disagree about.
    return 1.0 if most == chance else float((pairs(counts) - chance) / (most - chance))


def pairs(counts: Float64Array) -> float:
    """How many pairs of points lie together in groups of these sizes."""
    return float((counts * (counts - 1)).sum() / 2)


def log_posterior(X: Points, labels: IntArray, alpha: float, prior: Prior) -> float:
    """log p(labels, X) up to a constant, for labels from any method: the sampler's own log posterior."""
    from scipy.special import gammaln

    found = np.unique(labels, return_inverse=True)[1]
    clusters = prior.statistics(X, found)
    tables = np.log(alpha) + gammaln(clusters.counts)
    total = gammaln(alpha) - gammaln(len(found) + alpha)
    return float(total + (prior.log_marginal_likelihood(clusters) + tables).sum())


def classes_in(truth: IntArray) -> int:
    """How many classes the labelled points have."""
    return len(np.unique(truth[truth >= 0]))


def iterations_until_settled(values: Float64Array, share: float = 0.01) -> int:
    """The first iteration (from 1) after which all values stay within 1% of the last one.

    The greedy steps at the end of a search rise above all that it has sampled, and do not count.
    """
    values = values[:-GREEDY_STEPS] if len(values) > 2 * GREEDY_STEPS else values
    far = np.abs(values - values[-1]) > share * abs(values[-1])
    return int(np.flatnonzero(far)[-1]) + 2 if far.any() else 1
