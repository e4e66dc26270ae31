"""The fitted mixture: each cluster's posterior predictive, weighted by its share of the points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.families.gaussian import FIELDS, NIW, Statistics
from dpmmwrap.files import InputError, read_arrays, write_npz

CHUNK = 1 << 13
FORMAT = "dpmmwrap mixture 1"


@dataclass(frozen=True)
class Mixture:
    """Clusters by their posterior distributions; labels run from 0, an outlier component carries -1."""

    counts: Float64Array
    """Points in each cluster."""
    posterior: NIW
    """One normal-inverse-Wishart per cluster; the outlier component's, if there is one, comes last."""
    outlier_weight: float = 0.0

    @classmethod
    def from_labels(
        cls,
        X: FloatArray,
        labels: IntArray,
        prior: NIW,
        outlier_weight: float = 0.0,
        outlier_prior: NIW | None = None,
    ) -> Mixture:
        """The mixture that a clustering of X implies under a prior."""
        statistics = Statistics.of(X, labels)
        posterior = prior.posterior(statistics)
        if outlier_prior is not None:
            outliers = outlier_prior.posterior(Statistics.of(X, np.where(labels < 0, 0, -1), 1))
            posterior = NIW(*(np.concatenate([getattr(posterior, name), getattr(outliers, name)]) for name in FIELDS))
        return cls(statistics.counts, posterior, outlier_weight)

    def shifted(self, offset: FloatArray) -> Mixture:
        """The same mixture for data from which `offset` has been subtracted."""
        return Mixture(self.counts, self.posterior.shifted(offset), self.outlier_weight)

    @property
    def n_clusters(self) -> int:
        return len(self.counts)

    @property
    def dim(self) -> int:
        return self.posterior.dim

    @cached_property
    def weights(self) -> Float64Array:
        """Each cluster's share; with an outlier component they sum to one less its weight."""
        return np.asarray((1 - self.outlier_weight) * self.counts / self.counts.sum())

    @property
    def means(self) -> Float64Array:
        return self.posterior.mean[: self.n_clusters]

    @cached_property
    def covariances(self) -> Float64Array:
        return self.posterior.mean_covariance()[: self.n_clusters]

    @cached_property
    def _log_weights(self) -> Float64Array:
        weights = self.weights if self.outlier_weight == 0 else np.append(self.weights, self.outlier_weight)
        return np.asarray(np.log(weights)[:, None])

    @cached_property
    def _names(self) -> IntArray:
        """The label of each component."""
        names = np.arange(len(self._log_weights), dtype=np.int32)
        names[self.n_clusters :] = -1
        return names

    def _log_densities(self, X: FloatArray) -> Float64Array:
        """log of weight times predictive density, (components, rows)."""
        return np.asarray(self._log_weights + self.posterior.log_predictive(X))

    def predict(self, X: FloatArray) -> IntArray:
        """The most probable cluster of each row; -1 for outliers."""
        labels = np.empty(len(X), np.int32)
        for rows in chunks(len(X)):
            labels[rows] = self._names[self._log_densities(X[rows]).argmax(axis=0)]
        return labels

    def predict_proba(self, X: FloatArray) -> Float64Array:
        """The probability of each component for each row; the outlier component, if any, is the last column."""
        probabilities = np.empty((len(X), len(self._log_weights)))
        for rows in chunks(len(X)):
            densities = self._log_densities(X[rows])
            probabilities[rows] = np.exp(densities - logsumexp(densities, axis=0)).T
        return probabilities

    def score_samples(self, X: FloatArray) -> Float64Array:
        """log predictive density of each row."""
        scores = np.empty(len(X))
        for rows in chunks(len(X)):
            scores[rows] = logsumexp(self._log_densities(X[rows]), axis=0)
        return scores

    def sample(self, n_samples: int, rng: Generator) -> tuple[Float64Array, IntArray]:
        """New points from the predictive mixture, and the cluster of each."""
        weights = np.exp(self._log_weights[:, 0])
        components = rng.choice(len(weights), n_samples, p=weights / weights.sum())
        freedom = np.asarray(self.posterior.degrees_of_freedom) - self.dim + 1
        strength = np.asarray(self.posterior.mean_strength)
        spread = np.sqrt((strength + 1) / (strength * freedom))[:, None, None] * self.posterior.cholesky
        normal = rng.standard_normal((n_samples, self.dim))
        tails = np.sqrt(freedom[components] / rng.chisquare(freedom[components]))
        steps = np.einsum("nij,nj->ni", spread[components], normal * tails[:, None])
        return self.posterior.mean[components] + steps, self._names[components]

    def save(self, path: str | Path) -> None:
        """Write the mixture as plain arrays (.npz): loading it cannot execute code."""
        arrays: dict[str, Any] = {name: getattr(self.posterior, name) for name in FIELDS}
        arrays |= {"format": np.array(FORMAT), "counts": self.counts, "outlier_weight": self.outlier_weight}
        write_npz(path, arrays)


def load(path: str | Path) -> Mixture:
    """Read a mixture that `save` wrote; a damaged file is refused with one sentence."""
    arrays = read_arrays(path, required=("format", "counts", "outlier_weight", *FIELDS))
    if str(arrays["format"]) != FORMAT:
        raise InputError(f"{path} should be a {FORMAT!r} file, not {str(arrays['format'])!r}")
    try:
        posterior = NIW(*(arrays[name] for name in FIELDS))
        mixture = Mixture(arrays["counts"], posterior, float(arrays["outlier_weight"]))
        expected = mixture.n_clusters + (mixture.outlier_weight > 0)
        if posterior.mean.shape[0] != expected or not np.isfinite(posterior.half_log_determinant).all():
            raise ValueError("its arrays do not belong together")
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"{path} is a damaged model file: {error}") from error
    return mixture


def chunks(rows: int) -> list[slice]:
    return [slice(begin, begin + CHUNK) for begin in range(0, rows, CHUNK)]
