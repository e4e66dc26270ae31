"""A fitted model in a notebook: plots, facts, report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpmmwrap.describe import facts
from dpmmwrap.describe.wording import counted
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.files.checks import class_names
from dpmmwrap.model.empty_rows import truth_labels, with_values
from dpmmwrap.model.rows import all_columns
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.posterior.fitted import sample_of

if TYPE_CHECKING:
    from dpmmwrap.describe.differences import Difference


class NotebookMixin:
    """Plots as matplotlib axes, and the facts of a fitted model above scikit-learn's diagram of it.

    Plots need matplotlib (pip install 'dpmmwrap[plot]').
    """

    def plot(
        self, X: Any, *, names: Sequence[str] | None = None, columns: Sequence[str | int] | None = None, ax: Any = None
    ) -> Any:
        """Plot the rows of X, coloured by cluster.

        Two features are shown as they are, more by principal components of the standardised features. Colours show
        `labels_` for the data of the fit, and the result of `predict` for other rows.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            The data of the fit, or other rows.
        names : list of str, default=None
            Names of the features; None for those of the table or the model.
        columns : list of str or int, default=None
            One or two columns, by name or index, to show as they are; for Gaussian clusters.
        ax : matplotlib Axes, default=None
            Axes to draw into; None for a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        check_is_fitted(self)
        from dpmmwrap.describe.plotting.clusters import draw_fit
        from dpmmwrap.describe.plotting.notebook import on

        points, labels, called = all_columns(self, X), labels_of(self, X), names_of(self, X, names)
        with on(ax, 7.0, 5.6) as axes:
            draw_fit(axes, self, points, labels, names=called, columns=columns, own_figure=ax is None)
            return axes

    def plot_trace(self, what: str = "n_clusters", *, ax: Any = None) -> Any:
        """Plot a column of `trace_` by iteration, with a line for each chain.

        Parameters
        ----------
        what : str, default="n_clusters"
            "n_clusters", "log_posterior", "alpha", "nmi" or another column of a `Trace`.
        ax : matplotlib Axes, default=None
            Axes to draw into; None for a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        check_is_fitted(self)
        from dpmmwrap.describe.plotting.notebook import plot_trace

        return plot_trace(self, what, ax)

    def plot_profile(self, X: Any, *, names: Sequence[str] | None = None, n_features: int = 12, ax: Any = None) -> Any:
        """Plot what sets the clusters apart: their means (or shares) of the most telling features.

        Colours show how far these are from those of all other rows.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            The data of the fit, or other rows.
        names : list of str, default=None
            Names of the features; None for those of the table or the model.
        n_features : int, default=12
            The largest number of features.
        ax : matplotlib Axes, default=None
            Axes to draw into; None for a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        check_is_fitted(self)
        from dpmmwrap.describe.plotting.notebook import plot_profile
        from dpmmwrap.describe.profiles import profiles_for

        points, labels, called = all_columns(self, X), labels_of(self, X), names_of(self, X, names)
        profiles = profiles_for(self, points, labels, self.n_clusters_, called)  # type: ignore[attr-defined]
        return plot_profile(profiles, n_features, ax)

    def plot_density(self, columns: Sequence[str | int], X: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """Plot the density of one column with a credible band, or of two columns as a map.

        Parameters
        ----------
        columns : list of str or int
            One or two columns of the data, by name or index.
        X : array or table, shape (n, D), default=None
            Rows to plot as well, as a histogram or as dots.
        level : float, default=0.9
            The probability that the density lies in the band, point by point.
        ax : matplotlib Axes, default=None
            Axes to draw into; None for a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        check_is_fitted(self)
        from dpmmwrap.describe.plotting.notebook import plot_density

        return plot_density(self, columns, None if X is None else all_columns(self, X), level, ax)

    def plot_posterior(self, *, ax: Any = None) -> Any:
        """Plot the posterior of the number of clusters, from the draws.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw into; None for a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        from dpmmwrap.describe.plotting.notebook import on
        from dpmmwrap.describe.plotting.posterior import draw_n_clusters

        draws = self._draws()  # type: ignore[attr-defined]
        with on(ax, 7.0, 3.8) as axes:
            draw_n_clusters(axes, draws, own_figure=ax is None)
            return axes

    def explain_difference(self, a: Any, b: Any, X: Any, *, names: Sequence[str] | None = None) -> Difference:
        """Explain which clusters only one of two clusterings divides, and what sets the parts apart.

        Parameters
        ----------
        a, b : array of int, shape (N,)
            Two clusterings of the rows, such as two of the `answers()`, or `labels_` and `groups_`; -1 for outliers.
        X : array, sparse matrix or table, shape (N, D)
            The rows.
        names : list of str, default=None
            Names of the features; None for those of the table or the model.

        Returns
        -------
        Difference
            The divided clusters, in `splits`; `print` describes them.
        """
        check_is_fitted(self)
        from dpmmwrap.describe.differences import difference_between

        return difference_between(self, all_columns(self, X), a, b, names_of(self, X, names))

    def write_report(
        self,
        path: str | Path,
        X: Any,
        *,
        names: Sequence[str] | None = None,
        ids: Sequence[Any] | None = None,
        truth: Sequence[Any] | None = None,
    ) -> None:
        """Write a report on the fit and its data as one HTML file, as `dpmmwrap fit --out` does.

        Parameters
        ----------
        path : str or Path
            The file, which is written completely or not at all.
        X : array, sparse matrix or table, shape (N, D)
            The data of the fit.
        names : list of str, default=None
            Names of the features; None for those of the table or the model.
        ids : list, default=None
            Names of the rows; None for a data frame's index, or the rows' numbers from 1.
        truth : list, default=None
            Known labels, a number or a word for each row, which the report compares with the clusters.
        """
        check_is_fitted(self)
        from dpmmwrap.describe.report import Subject, write_report

        if ids is None and hasattr(X, "columns"):
            ids = getattr(X, "index", None)
        groups = self.groups() if self.n_clusters_ > 1 else None  # type: ignore[attr-defined]
        rows = len(self.labels_)  # type: ignore[attr-defined]
        numbers: IntArray | None = None
        classes: tuple[str, ...] = ()
        if truth is not None:
            values = np.asarray(truth)
            values = values.astype(str) if values.dtype.kind == "O" else values
            # Labels as numbers from 0, -1 for the empty word.
            unknown = np.int32(values.dtype.kind == "U" and bool((values == "").any()))
            numbers, classes = truth_labels(values, rows) - unknown, class_names(values)
        called = names_of(self, X, names)
        write_report(path, Subject(self, X, given_names=called, ids=ids, groups=groups, truth=numbers, classes=classes))

    def _repr_html_inner(self) -> str:
        diagram = super()._repr_html_inner()  # type: ignore[misc]
        return facts_html(self) + diagram if hasattr(self, "mixture_") else str(diagram)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle and hasattr(self, "mixture_"):
            bundle["text/html"] = facts_html(self) + bundle["text/html"]
        return bundle


def names_of(model: Any, X: Any, given: Sequence[str] | None) -> Sequence[str] | None:
    """The names of the columns: those given, those of the data frame, or those of the model."""
    from dpmmwrap.describe.profiles import feature_names

    if given is None and hasattr(X, "columns"):
        given = [str(name) for name in X.columns]
    return feature_names(model, given)


def labels_of(model: Any, X: Any) -> IntArray:
    """The labels of the fit if X is its data; else predictions."""
    points = model.mixture_._points(model._rows(X))
    present = with_values(points)
    if len(present) == len(model.labels_) and are_those_of_the_fit(model, points if present.all() else points[present]):
        return np.asarray(model.labels_)
    return np.asarray(model.predict(X))


def are_those_of_the_fit(model: Any, points: Any) -> bool:
    """Whether these rows are those of the fit, by the sample that the model keeps."""
    mine, kept = sample_of(points), model._some_points
    if mine.shape != kept.shape:
        return False
    if isinstance(mine, TablePoints):
        return bool((mine.codes == kept.codes).all()) and close(mine.numeric - model._offset, kept.numeric)
    if hasattr(mine, "toarray"):
        return hasattr(kept, "toarray") and mine.shape == kept.shape and (mine != kept).nnz == 0
    return not hasattr(kept, "toarray") and close(np.asarray(mine, dtype=np.float64) - model._offset, kept)


def close(mine: Float64Array, kept: Any) -> bool:
    """Whether arrays agree up to single precision."""
    kept = np.asarray(kept, dtype=np.float64)
    scale = float(np.nanmax(np.abs(kept), initial=0.0))
    return mine.shape == kept.shape and np.allclose(mine, kept, rtol=1e-5, atol=1e-6 * scale, equal_nan=True)


def facts_html(model: Any) -> str:
    """The facts as a table, in the colours of the surrounding page."""
    known = facts.facts(model)
    texts = facts.texts(known)
    first = ("sizes", "outliers", "number of clusters", "confidence", "family", "clusters differ")
    table = [
        *((name, texts[name]) for name in first),
        ("prior over partitions", facts.partition_prior_text(model)),
        ("log posterior", texts["log posterior"]),
        ("search", texts["search"] + (", interrupted" if known["interrupted"] else "")),
        *(("note", note) for note in known["notes"]),
    ]
    title = f"{counted(known['n_clusters'], 'cluster')} in {counted(known['points'], 'row')}"
    lines = "".join(
        f'<tr><th scope="row" style="text-align: left; vertical-align: top">{html.escape(name)}</th>'
        f'<td style="text-align: left">{html.escape(value)}</td></tr>'
        for name, value in table
        if value
    )
    return (
        f'<table><caption style="text-align: left; font-weight: bold">{title}</caption><tbody>{lines}</tbody></table>'
    )
