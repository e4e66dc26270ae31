"""The parameters of the estimator: names, defaults, and the values that they may have."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions

from dpmmwrap.backends import Auto, as_backend
from dpmmwrap.families import COVARIANCE_TYPES, FAMILIES, TAILS, families_of, family_named
from dpmmwrap.model.parameters import AUTO, POSITIVE, Constraints, at_least, check_parameters, with_nested
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.partitions import partition_prior as as_partition_prior
from dpmmwrap.starts import Initializer, Start

Loss: TypeAlias = Literal["vi", "binder"]
LOSSES: tuple[Loss, ...] = get_args(Loss)


@dataclass(kw_only=True, repr=False, eq=False)
class EstimatorParameters(ClusterMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """The parameters of `DPMM`, which describes them."""

    _parameter_constraints: ClassVar[Constraints] = {
        # These are checked where they are used.
        "partition_prior": "no_validation",
        "categorical": "no_validation",
        "exposure": "no_validation",
        "prior": "no_validation",
        "init": "no_validation",
        "init_clusters": "no_validation",
        "outlier_prior": "no_validation",
        "backend": "no_validation",
        "random_state": "no_validation",
        "alpha": [AUTO, POSITIVE],
        "family": [StrOptions(set(FAMILIES))],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "tails": [StrOptions(set(TAILS))],
        "subspace": [AUTO, at_least(1), None],
        "max_clusters": [at_least(1), None],
        "max_iter": [AUTO, at_least(1)],
        "n_draws": [at_least(0)],
        "thin": [at_least(1)],
        "n_chains": [AUTO, at_least(1)],
        "loss": [StrOptions(set(LOSSES)), None],
        "outlier_weight": [Interval(Real, 0, 1, closed="left")],
        "verbose": ["verbose"],
    }

    alpha: float | str = "auto"
    partition_prior: str | PartitionPrior = "dirichlet"
    family: str = FAMILIES[0]
    covariance_type: str = "auto"
    tails: str = TAILS[0]
    subspace: int | str | None = "auto"
    categorical: Any = None
    exposure: Any = None
    prior: Any = None
    init: Start | Initializer = "auto"
    init_clusters: int | str | IntArray = "auto"
    max_clusters: int | None = None
    max_iter: int | str = "auto"
    n_draws: int = 0
    thin: int = 5
    n_chains: int | str = "auto"
    loss: Loss | None = "vi"
    outlier_weight: float = 0.0
    outlier_prior: Any = None
    backend: str | Auto = "auto"
    random_state: Any = None
    verbose: int = 0

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of a backend or prior that is an object, such as `backend__n_jobs`.

        Parameters
        ----------
        **params
            Parameters by their names.

        Returns
        -------
        DPMM
            The estimator itself.
        """
        super().set_params(**with_nested(self.get_params(deep=False), params))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.family in FAMILIES:
            family = family_named(self.family)
            tags.input_tags.sparse = family.sparse
            tags.input_tags.positive_only = family.input == "counts"
            tags.input_tags.categorical = tags.input_tags.string = family.mixes
            tags.input_tags.allow_nan = family.input != "counts" and family.gaps
        return tags

    def _check_parameters(self) -> None:
        """Refuse values that are not allowed, alone or together."""
        check_parameters(self)
        as_backend(self.backend)
        as_partition_prior(self.partition_prior, self.alpha)
        family = families_of(self.family, self.tails)[0]
        if not family.mixes and self.categorical is not None:
            raise ValueError("categorical columns need the family mixed")
        if not family.exposure and self.exposure is not None:
            raise ValueError(f"an exposure is for the family poisson, not {self.family}")
        if self.covariance_type not in family.covariance_types:
            raise ValueError(f"covariance_type is for the family gaussian, not {self.family}")
