"""What a chain's steps are given beside its state, and never change: the data, the model, the settings."""

from __future__ import annotations

from typing import NamedTuple

from dpmmwrap.arrays import Float64Array
from dpmmwrap.backends import Settings
from dpmmwrap.dirichlet_process import log_joint_with_outliers
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.state import Model


class Context(NamedTuple):
    data: Data
    model: Model
    settings: Settings

    def log_posterior(self, alpha: float, counts: Float64Array, log_marginal: Float64Array) -> float:
        """log p(labels, concentration, X), up to a constant."""
        weight = self.model.outlier_weight
        return log_joint_with_outliers(alpha, self.settings.alpha_prior, counts, log_marginal, weight)
