"""Predictions averaged over the mixtures of several draws, or of one whose components are joined to clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.families import prior_from_fields
from dpmmwrap.families.base import Points, Prior, concatenate, take
from dpmmwrap.families.screening import log_joint, log_sum
from dpmmwrap.files import read_arrays
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray, evenly_spaced

DRAWS = 30
"""The number of draws to average over, evenly spaced: a probability is then usually within .1 of that of all draws."""
PREFIX = "averaged_"


@dataclass(frozen=True)
class AveragedMixture:
    """The components of the mixtures of several draws, and the cluster of the labels that each corresponds to."""

    posterior: Any
    """The components of all draws, one draw after the other."""
    weights: Float64Array
    """The weight of each component in its draw."""
    starts: IntArray
    """The first component of each draw."""
    clusters: IntArray
    """The cluster of each component; -1 for outliers."""

    @classmethod
    def of(
        cls,
        X: Points,
        draws: IntArray,
        labels: IntArray,
        priors: Sequence[Prior],
        outlier_weight: float,
        outlier_prior: Any,
        shifts: Any = 0.0,
        row_weights: Any = None,
    ) -> AveragedMixture:
        """From evenly spaced draws (M, N), each with its prior, matched with `labels`. `shifts` are added to the sizes
        of each draw's clusters in their weights."""
        # It imports numba, which predictions from a file do not need.
        from dpmmwrap.posterior.matching import match

        chosen = draws_averaged(len(draws))
        statistics, clusters, weights = [], [], []
        shifts = np.broadcast_to(shifts, len(draws))
        outside = int(outlier_prior is not None)
        for draw in chosen:
            drawn = np.asarray(draws[draw])
            count = int(drawn.max(initial=-1)) + 1
            # Outliers are one more component, after the others.
            sums = priors[draw].statistics(X, np.where(drawn < 0, count, drawn), count + outside, row_weights)
            inside = sums.counts[:count] + shifts[draw]
            statistics.append(sums)
            clusters.append(np.append(match(drawn, labels), np.full(outside, -1)))
            weights.append(np.append((1 - outlier_weight) * inside / inside.sum(), [outlier_weight] * outside))
        edges = np.cumsum([0, *(len(part) for part in clusters)])
        every = concatenate(statistics)
        posterior = priors[chosen[0]].posterior(every)
        for begin, end, draw in zip(edges[:-1], edges[1:], chosen, strict=True):
            if priors[draw] is not priors[chosen[0]]:
                rows = np.arange(begin, end)
                posterior = posterior.replaced(rows, priors[draw].posterior(take(every, rows)))
        if outlier_prior is not None:
            last = edges[1:] - 1
            posterior = posterior.replaced(last, outlier_prior.posterior(take(every, last)))
        return cls(posterior, np.concatenate(weights), edges[:-1], np.concatenate(clusters))

    def __str__(self) -> str:
        if len(self.starts) == 1:
            return f"{len(self.clusters)} components"
        return f"averaged over {len(self.starts)} draws"

    def shifted(self, offset: FloatArray) -> AveragedMixture:
        """The same for data from which `offset` has been subtracted."""
        return AveragedMixture(self.posterior.shifted(offset), self.weights, self.starts, self.clusters)

    @cached_property
    def _by_cluster(self) -> tuple[IntArray, IntArray, IntArray]:
        """The components in the order of their clusters, the first of each cluster there, and the clusters' numbers."""
        order = np.argsort(self.clusters, kind="stable")
        clusters, begins = np.unique(self.clusters[order], return_index=True)
        return order, begins, clusters

    def _shares(self, points: Points) -> tuple[Float64Array, Float64Array]:
        """Each component's share of its draw's mixture (rows, components), and the mixtures' log densities (rows,
        draws)."""
        with np.errstate(divide="ignore"):
            densities = log_joint(self.posterior, points, np.log(self.weights), self.starts)
        sizes = np.diff(np.append(self.starts, len(self.clusters)))
        best = np.maximum.reduceat(densities, self.starts, axis=1)
        densities -= np.repeat(best, sizes, axis=1)
        shares = np.exp(densities, out=densities)
        sums = np.add.reduceat(shares, self.starts, axis=1)
        shares /= np.repeat(sums, sizes, axis=1)
        return shares, best + np.log(sums)

    def predict_proba(self, points: Points, columns: int) -> Float64Array:
        """The mean over draws of each cluster's probability (rows, columns), outliers last if there are any."""
        shares, _ = self._shares(points)
        order, begins, clusters = self._by_cluster
        probabilities = np.zeros((len(shares), columns))
        # Outliers have the number -1, which is the last column.
        probabilities[:, clusters] = np.add.reduceat(shares[:, order], begins, axis=1) / len(self.starts)
        return probabilities

    def score_samples(self, points: Points) -> Float64Array:
        """log of the mean over draws of the predictive density."""
        return np.asarray(log_sum(self._shares(points)[1]) - np.log(len(self.starts)))

    def arrays(self) -> dict[str, Any]:
        """The contents of a file."""
        arrays = {"weights": self.weights, "starts": self.starts, "clusters": self.clusters}
        arrays |= {name: getattr(self.posterior, name) for name in self.posterior.FIELDS}
        return {f"{PREFIX}{name}": array for name, array in arrays.items()}

    @classmethod
    def read(cls, path: str | Path, family: str, fields: tuple[str, ...]) -> AveragedMixture | None:
        """Read from a file; None if it has no averages."""
        names = [f"{PREFIX}{name}" for name in ("weights", "starts", "clusters", *fields)]
        arrays = read_arrays(path, required=(), optional=names)
        if not arrays:
            return None
        if len(arrays) < len(names):
            raise ValueError("the averages over draws are incomplete")
        weights, starts, clusters, *values = (arrays[name] for name in names)
        same = len(weights) == len(clusters) == len(values[-1])
        if not same or (np.diff(np.append(starts, len(weights))) < 1).any():
            raise ValueError("its arrays do not belong together")
        return cls(prior_from_fields(family, values), weights, starts, clusters)


def draws_averaged(n_draws: int) -> IntArray:
    """The numbers of the draws that are averaged over."""
    return evenly_spaced(n_draws, DRAWS)
