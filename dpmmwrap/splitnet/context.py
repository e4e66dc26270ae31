"""Contexts: samples of the points of clusters, which a search for splits uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from dpmmwrap.splitnet.features import Features
from dpmmwrap.splitnet.subcluster_models import SubclusterModel, View

LEAST_STRENGTH = 0.1
"""Least weight of the prior in EM: a context has few points for two covariances."""


@dataclass(frozen=True)
class SplitContext:
    """Points (B, n, D) of B clusters in the frames of a model, which of them are not padding (B, n), the clusters'
    sizes (B,), and which values are observed (B, n, D) if some are missing.

    Padding and missing values are zero, and have no effect because their features phi are zero.
    """

    model: SubclusterModel
    Z: Tensor
    present: Tensor
    sizes: Tensor
    observed: Tensor | None = None
    view: View | None = None
    centred: Tensor | None = None
    """The centred points, in the units of the data."""

    @property
    def n(self) -> int:
        """Points in the largest context."""
        return int(self.Z.shape[1])

    @cached_property
    def counts(self) -> Tensor:
        """Points in the context (B,)."""
        return self.present.sum(dim=1)

    @cached_property
    def features(self) -> Features:
        """The features phi of each point."""
        return self.model.features(self.Z, self.present, self.observed)

    @property
    def total(self) -> Tensor:
        """The sum of all points' features (B, 1, F)."""
        return self.total_of(self.n)

    def features_of(self, points: int) -> Features:
        """The features of the first points, which are a random sample of all."""
        return self.features if points == self.n else self.features.head(points)

    def total_of(self, points: int) -> Tensor:
        """The sum of the first points' features (B, 1, F)."""
        if points not in self._totals:
            there = self.present[:, None, :points].to(self.Z.dtype)
            self._totals[points] = self.features_of(points).sums(there)
        return self._totals[points]

    @cached_property
    def _totals(self) -> dict[int, Tensor]:
        """Cached by number of points, as several steps use the same."""
        return {}

    @property
    def seen(self) -> View:
        assert self.view is not None, "this context has no view for candidates"
        return self.view

    @property
    def strength(self) -> Tensor:
        """The weight of the prior in EM (B,): the context's share of the cluster, so that the prior's influence is the
        same as in the whole cluster."""
        return (self.counts / self.sizes).double().clamp_min(LEAST_STRENGTH)

    def take(self, clusters: Tensor) -> SplitContext:
        """The context of some of the clusters."""
        if len(clusters) == len(self.Z):
            return self
        view = None if self.view is None else View(*(part[clusters] for part in self.view))
        observed, centred = (None if part is None else part[clusters] for part in (self.observed, self.centred))
        model, Z, present = self.model.take(clusters), self.Z[clusters], self.present[clusters]
        return SplitContext(model, Z, present, self.sizes[clusters], observed, view, centred)
