"""Methods of a fitted model beyond its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpmmwrap.backends.dask import is_lazy
from dpmmwrap.model.inputs import new_rows
from dpmmwrap.model.parameters import at_least, check_value
from dpmmwrap.model.sensitivity import AtSetting, FittedPrior, sensitivity_of
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.posterior.answers import OneAnswer, answers
from dpmmwrap.posterior.arviz import to_arviz
from dpmmwrap.posterior.credible_ball import CredibleBall, credible_ball
from dpmmwrap.posterior.density import Density
from dpmmwrap.posterior.group_mixin import GroupsMixin, generator
from dpmmwrap.posterior.imputing import impute
from dpmmwrap.posterior.predictor import Predictor
from dpmmwrap.posterior.representative import coclustering
from dpmmwrap.posterior.resampling import Reproducibility
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.evidence import log_evidence_at_best


class PosteriorMixin(GroupsMixin, Predictor):
    """Predictions of a fitted model, and methods that use its draws."""

    chain_agreement_: tuple[float, ...]
    reproducibility_: tuple[Reproducibility, ...]
    loss: str | None
    _log_noise: float
    _components: IntArray | None
    """The clusters of the kept rows before some were joined, if some were."""

    def _ask(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        if not is_lazy(X):
            return getattr(self.mixture_, method)(self._rows(X))
        from dpmmwrap.backends.dask.lazy import by_blocks

        columns = self.mixture_.n_clusters + int(self.outlier_weight > 0) if method == "predict_proba" else None
        return by_blocks(self, method, X, np.int32 if method == "predict" else np.float64, columns)

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

    def _rows(self, X: Any) -> Any:
        """New rows as the fitted mixture takes them."""
        check_is_fitted(self)
        return new_rows(self, X)

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
        return credible_ball(self._draws().kept_labels, self.labels_, level, self.loss)  # type: ignore[arg-type]

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
        return answers(self._draws().kept_labels, most, self.loss)  # type: ignore[arg-type]

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

    def _components_of_some(self) -> IntArray:
        """The components of the rows that the model keeps: their clusters, before some were joined."""
        return self._labels_of_some() if self._components is None else self._components

    @property
    def log_evidence_(self) -> float:
        """A lower bound of log p(X) of the kept rows, over all labellings. Computed on access."""
        check_is_fitted(self)
        labels = self._components_of_some()
        inside, weights = labels >= 0, self._some_weights
        evidence = log_evidence_at_best(
            self._prior, self._hyperprior, self._some_points[inside], labels[inside], self.partition_prior_,
            None if weights is None else weights[inside],
        )  # fmt: skip
        return evidence + self._log_noise * int(inside.sum())

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
        points, labels = self._some_points, self._components_of_some()
        outliers = (float(self.outlier_weight), self._outliers)
        priors = (self._prior, self._hyperprior, self.partition_prior_)
        return sensitivity_of(FittedPrior(points, labels, *priors, *outliers, self._some_weights))
