"""What a fitted model says about new rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from dpmmwrap.families.base import nothing_like, take
from dpmmwrap.families.screening import NEGLIGIBLE, log_joint, log_sum
from dpmmwrap.families.tables import Columns, TablePoints, table_of
from dpmmwrap.files.selection import listed, numbered
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.memory import Memory
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.model.redundant import ColumnMap
from dpmmwrap.model.rows import by_name, is_table, unmasked
from dpmmwrap.model.subspace import RowsWithGaps, Subspace
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


class MixturePredictor(Predictor):
    """The rows that a fitted mixture takes, and its answers, block by block."""

    posterior: Any
    counts: Float64Array
    outlier_weight: float
    size_shift: float
    averaged: AveragedMixture | None
    memory: Memory | None
    columns: Columns | None
    feature_names: tuple[str, ...] | None
    preparation: Preparation | None
    restored: ColumnMap | None
    subspace: Subspace | None
    _log_weights: Any
    _names: Any

    @property
    def dim(self) -> int:
        """Features of the clusters."""
        return int(self.posterior.dim)

    @property
    def n_features(self) -> int:
        """Columns of the prepared data."""
        left_out = 0 if self.restored is None else len(self.restored.offset) - len(self.restored.kept)
        return left_out + (self.dim if self.subspace is None else self.subspace.n_features)

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the columns of rows to predict; None if they are not known."""
        if self.columns is not None:
            return self.columns.names if self.columns.named else None
        return self.feature_names if self.preparation is None else self.preparation.names

    @property
    def n_inputs(self) -> int:
        """Columns of rows to predict."""
        if self.columns is not None:
            return len(self.columns.names)
        return self.n_features if self.preparation is None else len(self.preparation.shift)

    @property
    def _feature_names(self) -> tuple[str, ...]:
        """The names of the features, or their numbers from 1."""
        return numbered(self.n_features) if self.feature_names is None else self.feature_names

    def _all_columns(self, rows: Any) -> Any:
        """Rows with the columns that were left out."""
        return rows if self.restored is None else self.restored.features(rows)

    def _points(self, X: Any) -> Any:
        """Rows in the coordinates of the clusters."""
        rows = self._prepared(self._read(X))
        return rows if self.subspace is None else self.subspace.points(rows)

    def _read(self, X: Any) -> Any:
        """Rows as the family stores them, before their preparation."""
        return self._rows(X) if self.columns is None else self.columns.points(by_name(X))

    def _prepared(self, points: Any) -> Any:
        if self.columns is None:
            return self._useful(points)
        return TablePoints(self._useful(points.numeric), points.codes)

    def _useful(self, rows: Any) -> Any:
        """Prepared rows, without the columns that were left out."""
        rows = rows if self.preparation is None else self.preparation(rows)
        return rows if self.restored is None else rows[:, self.restored.kept]

    def _rows(self, X: Any) -> Any:
        """An array or a sparse matrix as it is; the columns of a table by their names."""
        if is_table(X) and not issparse(X):
            table, _ = table_of(by_name(X))
            names = self.input_names if self.input_names is not None else tuple(table)
            lacking = [name for name in names if name not in table]
            if lacking:
                raise ValueError(f"X should have a column {lacking[0]!r}, but it has {listed(tuple(table))}")
            X = np.column_stack([np.asarray(table[name], dtype=np.float64) for name in names])
        rows = unmasked(X) if hasattr(X, "shape") else np.asarray(X)
        if len(rows.shape) != 2:
            raise ValueError(f"X should have two dimensions (rows, columns), but it has {len(rows.shape)}")
        if rows.shape[1] != self.n_inputs:
            known = "" if self.input_names is None else f" ({listed(self.input_names)})"
            raise ValueError(f"X should have {self.n_inputs} columns like the model{known}, but it has {rows.shape[1]}")
        return rows

    def _by_blocks(self, X: Any, answer: Answer, fill: Any, noise: bool = False) -> Any:
        """An answer for each row of X, in blocks to bound memory; `fill` for rows without any value.

        With `noise`, the log density outside of a subspace is added.
        """
        points = self._read(X)
        answers = np.empty((points.shape[0], *fill.shape), fill.dtype)
        components = len(self._names if self.averaged is None else self.averaged.clusters)
        step = min(max(BLOCK // (components + self.dim), 1), MOST_ROWS)

        def work(begin: int) -> None:
            rows = self._prepared(points[begin : begin + step])
            numbers = np.arange(begin, begin + rows.shape[0])
            present = with_values(rows)
            if not present.all():
                answers[numbers[~present]] = fill
                rows, numbers = rows[present], numbers[present]
            if self.subspace is not None:
                projected = self.subspace.projected(rows)
                gaps = np.isnan(projected).any(axis=1)
                if gaps.any():
                    # They are no points of the subspace.
                    answers[numbers[gaps]] = answer(RowsWithGaps(rows[gaps]), numbers[gaps])
                rows, numbers, all_rows = projected[~gaps], numbers[~gaps], rows[~gaps]
            if len(numbers):
                answers[numbers] = answer(rows, numbers)
                if noise and self.subspace is not None:
                    answers[numbers] += self.subspace.log_noise(all_rows)

        for_each(work, range(0, len(answers), step))
        return answers

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

        def answer(points: Any, _: Any) -> Any:
            probabilities = self._probabilities(points)
            best = probabilities.argmax(axis=1)
            answers = np.empty(len(best), kind)
            answers["label"], answers["probability"] = self._names[best], probabilities.max(axis=1)
            return answers

        answers = self._by_blocks(X, answer, np.array((-1, np.nan), kind))
        return Assignment(np.ascontiguousarray(answers["label"]), np.ascontiguousarray(answers["probability"]))

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

        def answer(points: Any, rows: IntArray) -> Any:
            return self._probabilities(points)[np.arange(len(rows)), labels[rows]]

        answers: Float64Array = self._by_blocks(X, answer, np.float64(np.nan))
        return answers
