"""Methods of a fitted model about groups of its clusters, and about how well the model fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.answer import kept_rows
from dpmmwrap.posterior.fit_check import FitCheck, can_check, fit_check
from dpmmwrap.posterior.fold import expected_distances, fold, hellinger
from dpmmwrap.posterior.group_draws import GroupDraws, components_of_draws, group_draws
from dpmmwrap.posterior.groups import Groups
from dpmmwrap.posterior.half_samples import half_samples
from dpmmwrap.posterior.separation import GroupEvidence
from dpmmwrap.sampler.draws import Draws


def generator(model: Any) -> np.random.Generator:
    """A generator from `random_state`."""
    return np.random.default_rng(check_random_state(model.random_state).randint(2**31 - 1))


class GroupsMixin:
    """Groups of clusters, and the check of the fit that they rest on."""

    draws_: Draws | None
    labels_: IntArray
    mixture_: Mixture
    partition_prior_: Any
    outlier_weight: float
    random_state: Any
    _present: Any
    _some_weights: Any
    _some_points: Any
    _offset: Any
    _prior: Any
    _hyperprior: Any
    _outliers: Any
    _groups_known: tuple[Groups, GroupEvidence] | None
    """The default groups and what half samples show: these take seconds."""
    _fit_check: FitCheck | None
    """The result of `fit_check`, once it is known."""

    def _rows(self, X: Any) -> Any:
        raise NotImplementedError

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
        mixture, rows = (self.mixture_, self._rows(X)) if X is not None else (self._kept_mixture(), self._some_points)
        if method == "fold":
            groups = self._fold(mixture, rows, cut)
        elif method == "auto" and X is None:
            groups = self._joined(cut)[0]
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
        joined, seen = self._joined(None)
        labels, draws = np.asarray(self.labels_), self.draws_
        kept = None if draws is None or draws.labels is None else draws.kept_labels
        groups, mixture = joined.of_points(labels), self._kept_mixture()
        return group_draws(mixture, self._some_points, self._kept_rows(), kept, groups, seen, labels)

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
                raise ValueError("fit_check needs Gaussian clusters without weights and without an outlier component")
            probabilities = self._kept_mixture().predict_proba(self._some_points)
            rng = generator(self)
            self._fit_check = fit_check(self._some_points, probabilities, self._prior, self._hyperprior, rng)
        return self._fit_check

    def _can_check(self) -> bool:
        return can_check(self.mixture_.posterior, self.mixture_.outlier_weight, self._some_weights)

    def _joined(self, cut: float | None) -> tuple[Groups, GroupEvidence]:
        """The default groups of the rows that the model keeps, and the evidence from half samples."""
        if cut is None and self._groups_known is not None:
            return self._groups_known
        mixture, seen = self._kept_mixture(), GroupEvidence()
        groups = mixture.groups(self._some_points, cut=cut)
        if groups.suggested < groups.n_components:
            seen = self._seen(groups)
            groups = mixture.groups(self._some_points, cut=cut, seen=seen)
        reason = "all clusters that overlap have a gap between them, or a boundary that half samples reproduce"
        if groups.suggested < groups.n_components:
            reason = "no gap separates the clusters of a group, and half samples do not reproduce their boundaries"
        groups = replace(groups, reason=reason)
        if cut is None:
            self._groups_known = groups, seen
        return groups, seen

    def _fold(self, mixture: Mixture, rows: Any, cut: float | None) -> Groups:
        """Groups by the expected distances between the components of rows, over draws if there are any."""
        tau = mixture.predict_proba(rows)[:, : mixture.n_clusters]
        labels = tau.argmax(axis=1)
        taus = [tau] if mixture.averaged is None else [part.tau for part in components_of_draws(mixture, rows)]
        pairs = ((tau.argmax(axis=1), hellinger(tau)) for tau in taus)
        distances = expected_distances(labels, mixture.n_clusters, pairs)
        return fold(distances, np.bincount(labels, minlength=mixture.n_clusters), cut)

    def _seen(self, joined: Groups) -> GroupEvidence:
        """What half samples show of the clusters that would be joined without them."""
        labels, of_clusters = self._labels_of_some(), joined.component_groups
        clusters = np.flatnonzero(np.bincount(of_clusters)[of_clusters] > 1)
        outliers = (float(self.outlier_weight), self._outliers)
        rows = np.flatnonzero(np.isin(labels, clusters))
        priors = (self._prior, self.partition_prior_)
        halves = half_samples(self._some_points, rows, len(clusters), *priors, outliers)
        return GroupEvidence(halves=halves, fits=self._can_check() and self.fit_check().fits)

    def _kept_mixture(self) -> Mixture:
        """The mixture in the coordinates of the rows that the model keeps."""
        return replace(self.mixture_.shifted(self._offset), restored=None, subspace=None)

    def _labels_of_some(self) -> IntArray:
        """The labels of the rows that the model keeps."""
        return np.asarray(self.labels_[self._kept_rows()])

    def _kept_rows(self) -> IntArray:
        """The numbers of the rows that the model keeps."""
        rows = np.arange(len(self.labels_)) if self._present is None else self._present.rows
        return np.asarray(rows[kept_rows(len(rows), self._some_points.shape[1])])
