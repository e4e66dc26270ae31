"""What a chain's steps are given beside its state, and never change: the data, the model, the settings."""

from __future__ import annotations

from typing import NamedTuple

from dpmmwrap.families.base import Model
from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.partitions.base import log_joint_with_outliers
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.settings import Settings


class Context(NamedTuple):
    data: Data
    model: Model
    settings: Settings

    def log_posterior(self, partition_prior: PartitionPrior, counts: Float64Array, log_marginal: Float64Array) -> float:
        """log p(labels, parameters of both priors, X), up to a constant."""
        weight, hyperprior = self.model.outlier_weight, self.settings.hyperprior
        of_prior = 0.0 if hyperprior is None else hyperprior.log_density(self.model.prior)
        return of_prior + log_joint_with_outliers(partition_prior, counts, log_marginal, weight)
