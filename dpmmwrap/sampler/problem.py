"""The constant input of a chain: the data, the settings, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.numerics.cells import Embedder
from dpmmwrap.partitions.base import log_joint_with_outliers
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.proposals import NO_NEAR, Near, Proposal, SequentialAllocation
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import State


@dataclass(frozen=True, eq=False)
class Problem:
    """The second argument of every move: `step(key, state, problem) -> state, info`."""

    data: Data
    settings: Settings
    X: Points
    """The points as given to the chain, possibly remote."""
    number: int = 0
    """The index of the chain."""
    proposal: Proposal = field(default_factory=SequentialAllocation)
    """How split-merge moves divide the points of a cluster."""

    @cached_property
    def outliers(self) -> int:
        """Number of outlier components: 0 or 1. They come first."""
        return int(self.settings.outlier_weight > 0)

    @property
    def exact(self) -> bool:
        """Whether the search makes exact moves."""
        return self.settings.exact_moves and self.settings.full_ratio and self.data.exact

    @cached_property
    def embed(self) -> Embedder:
        """Coordinates in which nearby points are similar."""
        return self.settings.prior.embedder(self.X)

    @cached_property
    def near(self) -> Near:
        """Pairs of nearby points, from which half of the split-merge proposals grow."""
        return self.settings.near.of(self.X, self.data, self.embed) if self.settings.near_pairs else NO_NEAR

    @cached_property
    def digest(self) -> str:
        """A digest of the data."""
        return self.data.digest()

    def is_greedy(self, state: State) -> bool:
        """Whether this is one of the last iterations of a search, which take the most likely labels."""
        return state.iteration > state.last - self.settings.greedy_steps

    def log_posterior(self, state: State, log_marginal: Float64Array) -> float:
        """log p(labels, parameters of both priors, X) up to a constant, from log marginal likelihoods. If missing
        values are imputed, X stands for the observed values, approximately."""
        hyperprior: Any = self.settings.hyperprior
        of_prior = 0.0 if hyperprior is None else hyperprior.log_density(state.model.prior)
        weight = self.settings.outlier_weight
        found = log_joint_with_outliers(state.partition_prior, state.counts, log_marginal, weight)
        return float(of_prior + found - self.data.log_missing(state))
