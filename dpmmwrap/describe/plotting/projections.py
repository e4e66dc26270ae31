"""Projections of points to the plane: as they are, or by their first two principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 256
"""The largest number of features for which all principal components are computed."""


def is_sparse(X: Any) -> bool:
    return hasattr(X, "toarray")


@dataclass(frozen=True)
class Projection:
    """A projection of points to the plane."""

    origin: Float64Array
    directions: Float64Array
    """Two columns."""
    names: tuple[str, str]
    """The names of the axes."""

    def flat(self, points: Any) -> Float64Array:
        if is_sparse(points):
            return np.asarray(points @ self.directions - self.origin @ self.directions)
        return np.asarray((points - self.origin) @ self.directions)

    def shapes(self, covariances: Float64Array) -> Float64Array:
        """Covariances (K, D, D), or variances (K, D), as covariances in the plane (K, 2, 2)."""
        if covariances.ndim == 3:
            return np.asarray(self.directions.T @ covariances @ self.directions)
        return np.asarray(np.einsum("di,kd,dj->kij", self.directions, covariances, self.directions))

    def name(self, axes: Axes) -> None:
        axes.set_xlabel(self.names[0])
        axes.set_ylabel(self.names[1])


def projection(
    points: Any, names: Sequence[str] = ("feature 1", "feature 2"), *, standardised: bool = False, kind: str = ""
) -> Projection:
    """Two dimensions as they are; of more, the first two principal components.

    Standardised features make them independent of units. Otherwise `kind` describes the features.
    """
    if points.shape[1] == 2 and not is_sparse(points):
        return Projection(np.zeros(2), np.eye(2), (names[0], names[1]))
    if not standardised:
        origin, directions, shares = principal_components(points)
    else:
        centre, scales = points.mean(axis=0), points.std(axis=0)
        # A constant feature has no unit.
        scales = np.where(scales > 0, scales, 1.0)
        origin, directions, shares = principal_components((points - centre) / scales)
        origin, directions = centre + scales * origin, directions / scales[:, None]
    kind = ", standardised features" if standardised else kind
    titles = [f"principal component {i + 1} ({shares[i]:.0%} of the variance{kind})" for i in range(2)]
    return Projection(origin, directions, (titles[0], titles[1]))


def principal_components(points: Any) -> tuple[Float64Array, Float64Array, Float64Array]:
    """The mean, the first two directions as columns, and their shares of the variance."""
    if min(points.shape) > WIDE:
        from sklearn.decomposition import PCA

        # Only two components, not thousands; sparse rows stay sparse.
        pca = PCA(2, svd_solver="arpack", random_state=0).fit(points)
        return pca.mean_, pca.components_.T, pca.explained_variance_ratio_
    points = points.toarray() if is_sparse(points) else points
    origin = points.mean(axis=0)
    if points.shape[1] > WIDE:
        _, lengths, rows = np.linalg.svd(points - origin, full_matrices=False)
        variances, directions = lengths[:2] ** 2, rows[:2].T
        whole = (lengths**2).sum()
    else:
        every, columns = np.linalg.eigh(np.cov(points, rowvar=False, ddof=0))
        variances, directions = every[:-3:-1], columns[:, :-3:-1]
        whole = every.sum()
    return origin, directions, variances / max(whole, np.finfo(float).tiny)
