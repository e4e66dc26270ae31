"""What a fitted model says of new rows: the methods that `DPMM` and `Mixture` share."""

from __future__ import annotations

from typing import Any

from dpmmwrap.numerics.arrays import Float64Array, IntArray


class Predictor:
    """Methods that answer for each row; with Dask arrays and frames (`DPMM` only), lazily."""

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
