"""What a fitted model says about new rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Points, nothing_like, take
from dpmmwrap.families.screening import NEGLIGIBLE, log_joint, log_sum
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.memory import Memory
from dpmmwrap.model.mixture_rows import MixtureRows
from dpmmwrap.model.subspace import RowsWithGaps
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.side_by_side import for_each
from dpmmwrap.posterior.averaging import AveragedMixture

BLOCK, MOST_ROWS = 1 << 19, 1 << 13
"""The size of a block: rows times components and features (about 30 bytes each), and rows at most."""

Answer = Callable[[Any, IntArray], Any]
"""From points and their row numbers to the answer for each."""


class Predictor:
    """Methods that `DPMM` and `Mixture` share. With Dask arrays and frames (`DPMM` only), they are lazy."""

    def _ask(self, method: str, X: Any) -> Any:
        """The answer of one of the methods below."""
        raise NotImplementedError

    def predict(self, X: Any) -> IntArray:
        """The most probable cluster of each row, by `predict_proba`; -1 for outliers, and for rows without any value.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.

        Returns
        -------
        ndarray of int32, shape (n,)
            A label for each row.
        """
        labels: IntArray = self._ask("predict", X)
        return labels

    def predict_proba(self, X: Any) -> Float64Array:
        """The probability of each cluster for each row, by the clusters' posterior predictives.

        Averaged over draws if there are any. For a row without any value these are the clusters' weights.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.

        Returns
        -------
        ndarray of float64, shape (n, K) or (n, K + 1)
            Each row sums to 1. An outlier component is the last column.
        """
        probabilities: Float64Array = self._ask("predict_proba", X)
        return probabilities

    def score_samples(self, X: Any) -> Float64Array:
        """Log predictive density of each row, of the mean over draws if there are any.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.

        Returns
        -------
        ndarray of float64, shape (n,)
            In nats. Low values are rows unlike those of the fit; 0 for a row without any value.
        """
        densities: Float64Array = self._ask("score_samples", X)
        return densities

    def novelty(self, X: Any) -> Float64Array:
        """How probably each row belongs to a new cluster, given those of the fit and the prior's weight of a new one.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.

        Returns
        -------
        ndarray of float64, shape (n,)
            Posterior probabilities; NaN for a row without any value.
        """
        probabilities: Float64Array = self._ask("novelty", X)
        return probabilities


class Assignment(NamedTuple):
    """The most probable cluster of each row (-1 for outliers), and how probable it is."""

    labels: IntArray
    probabilities: Float64Array


class MixturePredictor(MixtureRows, Predictor):
    """The answers of a fitted mixture, block by block."""

    averaged: AveragedMixture | None
    counts: Float64Array
    outlier_weight: float
    size_shift: float
    memory: Memory | None
    _log_weights: Any
    _names: Any

    def _by_blocks(self, X: Any, answer: Answer, fill: Any, noise: bool = False) -> Any:
        """An answer for each row of X, in blocks to bound memory; `fill` for rows without any value.

        With `noise`, the log density outside of a subspace is added.
        """
        points = self._read(X)
        found = np.empty((points.shape[0], *fill.shape), fill.dtype)
        components = len(self._names if self.averaged is None else self.averaged.clusters)
        step = min(max(BLOCK // (components + self.dim), 1), MOST_ROWS)

        def work(begin: int) -> None:
            rows = self._prepared(points[begin : begin + step])
            numbers = np.arange(begin, begin + rows.shape[0])
            present = with_values(rows)
            if not present.all():
                found[numbers[~present]] = fill
                rows, numbers = rows[present], numbers[present]
            if self.subspace is not None:
                self._answer_in_subspace(rows, numbers, answer, noise, found)
            elif len(numbers):
                found[numbers] = answer(rows, numbers)

        for_each(work, range(0, len(found), step))
        return found

    def _answer_in_subspace(self, rows: Any, numbers: IntArray, answer: Answer, noise: bool, found: Any) -> None:
        """Rows with gaps are no points of the subspace, so they are answered separately."""
        assert self.subspace is not None
        points = self.subspace.projected(rows)
        gaps = np.isnan(points).any(axis=1)
        whole = ~gaps
        if whole.any():
            found[numbers[whole]] = answer(points[whole], numbers[whole])
            if noise:
                found[numbers[whole]] += self.subspace.log_noise(rows[whole])
        if gaps.any():
            found[numbers[gaps]] = answer(RowsWithGaps(rows[gaps]), numbers[gaps])

    @cached_property
    def _moments(self) -> tuple[Float64Array, Float64Array]:
        """Means and expected covariances of all components, in the subspace."""
        return np.asarray(self.posterior.mean), np.asarray(self.posterior.mean_covariance())

    def _log_densities(self, points: Any, within: float = NEGLIGIBLE) -> Float64Array:
        """log of weight times predictive density (rows, components). It may be -inf for components that are more than
        `within` nats worse than the best."""
        if isinstance(points, RowsWithGaps):
            assert self.subspace is not None
            return np.asarray(self._log_weights + self.subspace.log_observed(points.rows, *self._moments))
        return log_joint(self.posterior, points, self._log_weights, within=within)

    def _probabilities(self, points: Any) -> Float64Array:
        """The probability of each component for each row (rows, components)."""
        if self.averaged is not None and not isinstance(points, RowsWithGaps):
            return self.averaged.predict_proba(points, len(self._names))
        densities = self._log_densities(points)
        return np.asarray(np.exp(densities - log_sum(densities)[:, None]))

    def _score(self, points: Any) -> Float64Array:
        if self.averaged is not None and not isinstance(points, RowsWithGaps):
            return self.averaged.score_samples(points)
        return log_sum(self._log_densities(points))

    def _labels(self, points: Any) -> IntArray:
        likely = self._log_densities(points, 0.0) if self.averaged is None else self._probabilities(points)
        return np.asarray(self._names[likely.argmax(axis=1)])

    @cached_property
    def _new_cluster(self) -> tuple[Any, float]:
        """The predictive distribution of a cluster without points, and its log weight."""
        memory = self.memory
        if memory is None:
            raise ValueError("the model does not keep its prior: novelty needs a model that this version has fitted")
        nothing = nothing_like(take(memory.statistics, slice(0, 1)), 1)
        weight = memory.log_new(self.counts) - np.log((self.counts + self.size_shift).sum())
        return memory.prior.posterior(nothing).shifted(-memory.offset), weight + np.log1p(-self.outlier_weight)

    def _novelty(self, points: Any) -> Float64Array:
        if isinstance(points, RowsWithGaps):
            raise ValueError("novelty needs all values of a row if clusters are in a subspace")
        unseen, weight = self._new_cluster
        new = unseen.log_predictive(points)[0] + weight
        return np.asarray(np.exp(new - np.logaddexp(new, log_sum(self._log_densities(points)))))

    def _ask(self, method: str, X: Any) -> Any:
        answers: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "predict": (self._labels, np.int32(-1)),
            "predict_proba": (self._probabilities, np.exp(self._log_weights)),
            "score_samples": (self._score, np.float64(0.0)),
            "novelty": (self._novelty, np.float64(np.nan)),
        }
        answer, fill = answers[method]
        return self._by_blocks(X, lambda points, _: answer(points), fill, noise=method == "score_samples")

    def assign(self, X: Any) -> Assignment:
        """The most probable cluster of each row, and how probable it is.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.

        Returns
        -------
        Assignment
            `labels` and `probabilities`; -1 and NaN for a row without any value.
        """
        kind = np.dtype([("label", np.int32), ("probability", np.float64)])

        def answer(points: Points, _: Any) -> Any:
            probabilities = self._probabilities(points)
            best = probabilities.argmax(axis=1)
            found = np.empty(len(best), kind)
            found["label"], found["probability"] = self._names[best], of_each(probabilities, best)
            return found

        found = self._by_blocks(X, answer, np.array((-1, np.nan), kind))
        return Assignment(np.ascontiguousarray(found["label"]), np.ascontiguousarray(found["probability"]))

    def probability_of(self, X: Any, labels: IntArray) -> Float64Array:
        """The probability that each row is in a given cluster.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.
        labels : array of int, shape (n,)
            A cluster for each row; -1 is the outlier component.

        Returns
        -------
        ndarray of float64, shape (n,)
            NaN for a row without any value.
        """
        found: Float64Array = self._by_blocks(
            X, lambda points, rows: of_each(self._probabilities(points), labels[rows]), np.float64(np.nan)
        )
        return found


def of_each(probabilities: Float64Array, components: IntArray) -> Float64Array:
    """The probability of one component for each row."""
    return np.asarray(probabilities[np.arange(len(components)), components])
