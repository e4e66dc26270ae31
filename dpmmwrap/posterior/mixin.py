"""Methods of a fitted model beyond its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dpmmwrap.backends.dask import by_blocks, is_lazy
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.estimator_parameters import LOSSES, EstimatorParameters
from dpmmwrap.model.inputs import new_rows
from dpmmwrap.model.parameters import at_least, check_value
from dpmmwrap.model.short_chains import AtSetting, sensitivity_of
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.posterior.answers import CredibleBall, OneAnswer, answers, credible_ball
from dpmmwrap.posterior.density import Density
from dpmmwrap.posterior.diagnostics import to_arviz
from dpmmwrap.posterior.fit_check import FitCheck, can_check, fit_check
from dpmmwrap.posterior.groups import Groups
from dpmmwrap.posterior.imputing import impute
from dpmmwrap.posterior.model_groups import (
    GroupDraws,
    default_groups,
    fold_groups,
    group_draws,
    kept_components,
    kept_mixture,
)
from dpmmwrap.posterior.predictor import Predictor
from dpmmwrap.posterior.representative import coclustering
from dpmmwrap.posterior.separation import GroupEvidence
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.evidence import log_evidence_at_best


class PosteriorMixin(Predictor, EstimatorParameters):
    """Predictions of a fitted model, its groups, and methods that use its draws."""

    mixture_: Mixture
    labels_: IntArray
    draws_: Draws | None
    partition_prior_: PartitionPrior
    _some_points: Any
    """The rows that the model keeps, less `_offset`, as the sampler takes them."""
    _some_weights: Any
    _components: IntArray | None
    """The clusters of these rows before some were joined; None if none were."""
    _offset: Any
    _present: Any
    _prior: Any
    _hyperprior: Any
    _outliers: Any
    _log_noise: float
    _groups_known: tuple[Groups, GroupEvidence] | None
    _fit_check: FitCheck | None

    def _ask(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        if not is_lazy(X):
            return getattr(self.mixture_, method)(self._rows(X))
        columns = self.mixture_.n_clusters + int(self.outlier_weight > 0) if method == "predict_proba" else None
        return by_blocks(self, method, X, np.int32 if method == "predict" else np.float64, columns)

    def _rows(self, X: Any) -> Any:
        """New rows as the fitted mixture takes them."""
        check_is_fitted(self)
        return new_rows(self, X)

    def impute(self, X: Any, n_draws: int | None = None) -> Float64Array:
        """Fill in missing values (NaN) of columns of numbers.

        Parameters
        ----------
        X : array or table, shape (n, D)
            Rows with the columns of the fit.
        n_draws : int, default=None
            None fills in means: the clusters' conditional means given the observed values of a row, weighted by the
            probability of each cluster. A number gives as many copies with drawn values, for multiple imputation.

        Returns
        -------
        ndarray of float64, shape (n, D) or (n_draws, n, D)
            X without gaps.

        Examples
        --------
        >>> import numpy as np
        >>> from dpmmwrap import DPMM
        >>> x = np.random.default_rng(0).normal(size=(200, 1))
        >>> model = DPMM(covariance_type="full", n_chains=1, random_state=0).fit(np.hstack([x, 2 * x + 0.1 * x**2]))
        >>> model.impute([[1.0, np.nan]]).round(1)
        array([[1. , 2.1]])
        """
        check_is_fitted(self)
        if n_draws is not None:
            check_value("n_draws", n_draws, [at_least(1)])
        return impute(self.mixture_, new_rows(self, X), n_draws, generator(self))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit.
        y : ignored
            Not used.

        Returns
        -------
        float
            The mean of `score_samples`, for grid searches and comparisons on rows that were held out. With Dask it is
            lazy, too.
        """
        mean = self.score_samples(X).mean()
        return mean if is_lazy(X) else float(mean)

    def sample(self, n_samples: int = 1) -> tuple[Float64Array, IntArray]:
        """New points from the fitted mixture, or from those of the draws that predictions are averaged over.

        Parameters
        ----------
        n_samples : int, default=1
            The number of points.

        Returns
        -------
        X : ndarray of float64, shape (n_samples, D)
            The points; for a mixed table, an array of objects.
        labels : ndarray of int32, shape (n_samples,)
            The cluster of each.
        """
        check_is_fitted(self)
        check_value("n_samples", n_samples, [at_least(1)])
        return self.mixture_.sample(int(n_samples), generator(self))

    def save(self, path: str | Path) -> None:
        """Write the fitted mixture, and the draws if there are any, to a file that cannot execute code.

        Parameters
        ----------
        path : str or Path
            A .npz file, for `dpmmwrap.load` and `dpmmwrap predict`. It is never written in part.
        """
        check_is_fitted(self)
        replace(self.mixture_, draws=self.draws_).save(path)

    def _draws(self) -> Draws:
        check_is_fitted(self)
        if self.draws_ is None:
            raise ValueError("this needs draws from the posterior: n_draws should be above 0")
        return self.draws_

    def coclustering(self, rows: Any = None) -> Float64Array:
        """The probability that two points share a cluster, by the draws.

        Parameters
        ----------
        rows : list of int, default=None
            Numbers of some rows; None for all, which takes N x N numbers.

        Returns
        -------
        ndarray of float64, shape (n, n)
            1 on the diagonal.
        """
        return coclustering(self._draws().kept_labels, rows)

    def density(
        self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95), *, columns: Sequence[str | int] | None = None
    ) -> Density:
        """The density of Gaussian clusters at each row, and its uncertainty.

        Mixtures are drawn from the posterior: partitions from its draws, if there are any, then weights and Gaussians
        given the partition. Without draws the partition is `labels_`, and the bands leave out its uncertainty.

        Parameters
        ----------
        X : array or table, shape (n, D)
            Rows with the columns of the fit; with `columns`, an array with just these.
        quantiles : list of float, default=(0.05, 0.5, 0.95)
            Quantiles of the density over drawn mixtures.
        columns : list of str or int, default=None
            The columns whose marginal density to compute, by name or number; None for all.

        Returns
        -------
        Density
            `mean`, shape (n,), and `quantiles`, shape (q, n).

        Examples
        --------
        >>> import numpy as np
        >>> from dpmmwrap import DPMM
        >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + 9 * k for k in range(2)])
        >>> model = DPMM(init="kmeans", covariance_type="full", n_chains=1, random_state=0).fit(X)
        >>> low, high = model.density([[0.0], [4.5]], quantiles=(0.05, 0.95), columns=[0]).quantiles
        >>> bool(low[0] > high[1])
        True
        """
        check_is_fitted(self)
        rows = X if columns is not None else self._rows(X)
        return self.mixture_.density(rows, quantiles, columns=columns, rng=generator(self))

    def groups(
        self, X: Any = None, *, method: str = "auto", cut: float | None = None, n_groups: int | None = None
    ) -> Groups:
        """Clusters that overlap, joined step by step into a tree.

        A class that is not Gaussian comes out as several clusters, which together are a group.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D), default=None
            The data, or other rows, to measure overlap; None for the rows that the model keeps.
        method : {"auto", "separation", "dip", "demp", "entropy", "fold"}, default="auto"
            The first four join the two clusters that are confused most often (Hennig 2010). "separation" does not join
            clusters with a gap between them, by the dip test (Hartigan and Hartigan 1985) at the level of 5%; "auto"
            nor those whose boundary fits to half of the rows reproduce (Hennig 2007); "dip" tests at the level of 25%;
            "demp" always joins. "entropy" joins the two whose union lowers the entropy most (Baudry et al. 2010),
            "fold" the two whose components are closest, over all draws (Dombowsky and Dunson 2024).
        cut : float, default=None
            Where to cut the tree: at this probability of confusion (by default 0.01, and 0.025 for "demp"), at this
            drop in entropy in nats per point ("entropy"; by default the elbow of the entropy), or at this Hellinger
            distance ("fold"; by default the mean over all pairs of rows).
        n_groups : int, default=None
            The number of groups; None for the suggested cut.

        Returns
        -------
        Groups
            The tree, and where to cut it.

        Examples
        --------
        Points on an arc come out as several Gaussians that overlap:

        >>> import numpy as np
        >>> from dpmmwrap import DPMM
        >>> angle = np.linspace(0, 3, 400)
        >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
        >>> X += 0.05 * np.random.default_rng(0).normal(size=X.shape)
        >>> model = DPMM(init="kmeans", covariance_type="full", n_chains=1, random_state=0).fit(X)
        >>> groups = model.groups()
        >>> groups.suggested < model.n_clusters_
        True
        >>> groups.of_points(model.labels_).shape
        (400,)
        """
        check_is_fitted(self)
        mixture, rows = (self.mixture_, self._rows(X)) if X is not None else (kept_mixture(self), self._some_points)
        if method == "fold":
            groups = fold_groups(mixture, rows, cut)
        elif method == "auto" and X is None:
            groups = default_groups(self, cut)[0]
        else:
            groups = mixture.groups(rows, "separation" if method == "auto" else method, cut)
        if method == "auto":
            groups = replace(groups, second_opinion=mixture.groups(rows, "demp").suggested)
        if n_groups is None:
            return groups
        groups.labels_at(n_groups)
        return replace(groups, suggested=int(n_groups), threshold=None, reason=f"n_groups is {n_groups}")

    @property
    def groups_(self) -> IntArray:
        """The group of each row at the suggested cut of `groups()` (N,), -1 for outliers. Computed on access; groups
        consist of the clusters in `labels_`."""
        return self.groups().of_points(self.labels_)

    def group_draws(self) -> GroupDraws:
        """How sure the suggested groups are: the groups of several draws, each with other half samples.

        Returns
        -------
        GroupDraws
            `n_groups`, the probability of each number of groups; `confidence` of each row's group; `coclustering`;
            `credible_ball`.
        """
        check_is_fitted(self)
        return group_draws(self)

    def fit_check(self) -> FitCheck:
        """Whether the data are consistent with the model, such as Gaussian clusters.

        The log densities of held-out rows are compared with those of points drawn from the model.

        Returns
        -------
        FitCheck
            `p_value`, `distance`, `fits`; `print` summarises it in a sentence.
        """
        check_is_fitted(self)
        if self._fit_check is None:
            if not self._can_check():
                needed = "Gaussian clusters without weights and without an outlier component, and at least two rows"
                raise ValueError(f"fit_check needs {needed}")
            probabilities = kept_mixture(self).predict_proba(self._some_points)
            rng = generator(self)
            self._fit_check = fit_check(self._some_points, probabilities, self._prior, self._hyperprior, rng)
        return self._fit_check

    def _can_check(self) -> bool:
        comparable = can_check(self.mixture_.posterior, self.mixture_.outlier_weight, self._some_weights)
        # A stream may have seen a single row last.
        return comparable and self._some_points.shape[0] > 1

    def credible_ball(self, level: float = 0.95) -> CredibleBall:
        """How far the draws are from `labels_` (Wade and Ghahramani 2018).

        Parameters
        ----------
        level : float, default=0.95
            The share of the draws in the ball.

        Returns
        -------
        CredibleBall
            The radius, and the clusterings on the edge; `print` summarises it in a sentence.
        """
        return credible_ball(self._draws().kept_labels, self.labels_, level, self.loss or LOSSES[0])

    def answers(self, most: int = 3) -> list[OneAnswer]:
        """The partitions that represent the draws, several if these have distinct modes (Balocchi and Wade 2025).

        Parameters
        ----------
        most : int, default=3
            The largest number of partitions.

        Returns
        -------
        list of OneAnswer
            `labels`, `n_clusters` and `share` of the draws, the largest share first; only one without distinct modes.
        """
        check_value("most", most, [at_least(1)])
        return answers(self._draws().kept_labels, most, self.loss or LOSSES[0])

    def to_arviz(self) -> Any:
        """The draws for ArviZ (pip install 'dpmmwrap[posterior]').

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            n_clusters, alpha, weights, and lp among the sample statistics.
        """
        return to_arviz(self._draws())

    @property
    def covariances_(self) -> Float64Array:
        """The clusters' expected covariances. Computed on access."""
        if not hasattr(self, "mixture_") or not self.mixture_.is_gaussian:
            raise AttributeError(f"{type(self).__name__} has no covariances_ before a fit of Gaussian clusters")
        return self.mixture_.covariances

    @property
    def log_evidence_(self) -> float:
        """A lower bound of log p(X) of the kept rows, over all labellings. Computed on access."""
        check_is_fitted(self)
        labels = kept_components(self)
        inside, weights = labels >= 0, self._some_weights
        evidence = log_evidence_at_best(
            self._prior, self._hyperprior, self._some_points[inside], labels[inside], self.partition_prior_,
            None if weights is None else weights[inside],
        )  # fmt: skip
        return float(evidence + self._log_noise * int(inside.sum()))

    def sensitivity(self) -> list[AtSetting]:
        """How the number of clusters depends on the default prior's width, its kappa and the concentration.

        Each is a quarter, half, once, twice and four times its value. Short chains on at most 4,000 points begin with
        the fitted clusters.

        Examples
        --------
        >>> [one.n_clusters for one in model.sensitivity() if one.setting == "width"]  # doctest: +SKIP
        [9, 6, 5, 5, 4]
        """
        check_is_fitted(self)
        if self._hyperprior is None:
            raise ValueError("sensitivity needs the default prior of numeric columns, and this model has another prior")
        return sensitivity_of(self, kept_components(self))


def generator(model: Any) -> np.random.Generator:
    """A generator from `random_state`."""
    return np.random.default_rng(check_random_state(model.random_state).randint(2**31 - 1))
