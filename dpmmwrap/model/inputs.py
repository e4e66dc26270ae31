"""Reading data: arrays, sparse matrices and tables, checked and stored as a family wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_non_negative, validate_data

from dpmmwrap.families import family_named
from dpmmwrap.families.base import Points
from dpmmwrap.families.tables import Columns, place_of, table_of
from dpmmwrap.files.selection import listed
from dpmmwrap.model.column_kinds import sorted_out, strange_notes
from dpmmwrap.model.data_prior import is_given
from dpmmwrap.model.empty_rows import Present, truth_labels
from dpmmwrap.model.redundant import ColumnMap, Extremes, find_redundant, sentence, without
from dpmmwrap.model.rows import by_name, digit_columns, is_table, unmasked, word_columns
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import has_missing, is_remote, sample_rows
from dpmmwrap.numerics.weights import checked_weights
from dpmmwrap.partitions import partition_prior

CHUNK = 1 << 16
FLOATS = [np.float32, np.float64]
TOO_WIDE = "the data span more than single precision holds (about 3e38); rescale them"


class FitData(NamedTuple):
    """The data of a fit."""

    points: Points
    offset: Float64Array
    """Subtracted from the numeric features, so that float64 data keep their digits in single precision."""
    columns: Columns | None = None
    n_missing: int = 0
    restored: ColumnMap | None = None
    """How to restore columns that were left out."""
    notes: tuple[str, ...] = ()
    present: Present | None = None
    """The numbers of these rows, if others have no values or no weight."""
    weights: Float64Array | None = None

    @property
    def n_rows(self) -> int:
        """The number of all rows, also of those without values."""
        return int(self.points.shape[0] if self.present is None else self.present.total)

    @property
    def rows(self) -> Any:
        """The numbers of these points among all rows."""
        return slice(None) if self.present is None else self.present.rows

    def labels(self, labels: Any, name: str) -> IntArray:
        """The labels of these points, from labels of all rows, as whole numbers from 0 without gaps."""
        return truth_labels(labels, self.n_rows, name, self.rows)

    def weighted(self, weights: Float64Array | None) -> FitData:
        """With weights, given for all rows, and without the rows of weight 0."""
        if weights is None:
            return self
        rows = np.arange(len(weights)) if self.present is None else self.present.rows
        kept = weights[rows] > 0
        if kept.sum() < 2:
            raise ValueError("sample_weight should be above zero in at least 2 rows that have values")
        notes, weights_kept = self.notes, weights[rows[kept]]
        total, count = weights_kept.sum(), len(weights_kept)
        if total < count:
            notes = (
                *notes,
                f"the weights sum to {total:,.6g}, less than the {count:,} rows, so the fit counts only {total:,.6g} "
                "points: multiply the weights if the rows stand for more",
            )
        if kept.all() and self.present is None:
            return self._replace(weights=weights_kept, notes=notes)
        present = Present(rows[kept], len(weights), int((~kept).sum()))
        return self._replace(points=self.points[kept], present=present, weights=weights_kept, notes=notes)


def read_points(estimator: Any, X: Any) -> FitData:
    """The data of a fit on this machine."""
    family, X = family_named(estimator.family), unmasked(X)
    if family.mixes:
        return read_table(estimator, X, estimator.categorical, estimator.prior)
    if family.input == "counts":
        counts = read_counts(estimator, X, reset=True)
        column = exposure_column(estimator)
        # An exposure need not be whole.
        events = counts if column is None else np.delete(counts, column, axis=1)
        values = events.data if issparse(events) else events
        parts = np.array_split(values, max(1, len(values) // CHUNK))
        whole = all(bool((part == np.round(part)).all()) for part in parts)
        notes = () if whole else ("some counts are not whole numbers, and are used as they are",)
        return FitData(counts, np.zeros(1), notes=notes)
    return read_numeric(estimator, X, estimator.prior)


def new_rows(estimator: Any, X: Any) -> Any:
    """New rows as the fitted mixture takes them."""
    mixture, X = estimator.mixture_, unmasked(X)
    if mixture.posterior.input == "table":
        table, named = checked_table(estimator, X, reset=False)
        return table if named else np.column_stack([np.asarray(column, dtype=object) for column in table.values()])
    if mixture.posterior.input == "counts":
        return read_counts(estimator, X, reset=False)
    return validate_data(estimator, X, dtype=FLOATS, reset=False, ensure_all_finite="allow-nan")


def weights_of(estimator: Any, sample_weight: Any, read: FitData) -> Float64Array | None:
    """The checked weights of all rows; None without weights."""
    if sample_weight is None:
        return None
    if is_remote(read.points):
        raise ValueError("weights of rows need the built-in sampler: backend should be native")
    process = partition_prior(estimator.partition_prior, estimator.alpha)
    if process.shift < 0 and np.min(sample_weight, initial=1) < 1:
        raise ValueError("with a Pitman-Yor process sample_weight should be at least 1 in every row")
    return checked_weights(sample_weight, read.n_rows)


def read_numeric(estimator: Any, X: Any, prior: Any) -> FitData:
    """Rows of numbers. NaN is a missing value."""
    table = X if is_table(X) and not issparse(X) else {}
    # A memory-mapped float32 array is never copied.
    try:
        X = validate_data(estimator, X, dtype=FLOATS, order="C", ensure_min_samples=2, ensure_all_finite="allow-nan")
    except (TypeError, ValueError):
        words = word_columns(table)
        if not words:
            raise
        named = ", ".join(map(repr, words))
        which = f"the column {named} does" if len(words) == 1 else f"the columns {named} do"
        raise ValueError(f"{which} not hold numbers: use family='mixed', or leave out what is no category") from None
    missing = has_missing(X)
    strange = () if hasattr(estimator, "_called") else (*digits_note(table), *strange_notes(X, called(estimator)))
    X, restored, notes = useful_columns(X, prior, called(estimator))
    present = Present.among(X) if missing else None
    if present is not None:
        X = X[present.rows]
    missing = missing and has_missing(X)
    points, offset = as_float32(X)
    count = int(np.isnan(points).sum()) if missing else 0
    notes = (*strange, *notes)
    return FitData(points, offset, None, count, restored, with_note(present, notes), present)


def digits_note(table: Any) -> tuple[str, ...]:
    """A note about columns of words or categories that were read as numbers."""
    names = digit_columns(table)
    if not names:
        return ()
    which = f"the column {names[0]!r} is" if len(names) == 1 else f"the columns {listed(names, 5)} are"
    return (
        f"{which} of words or categories, but used as numbers: family='mixed', with their names in categorical, uses "
        "them as categories",
    )


def with_note(present: Present | None, notes: tuple[str, ...]) -> tuple[str, ...]:
    return notes if present is None else (present.note, *notes)


def called(estimator: Any) -> Any:
    """The names of the columns in the table or the file that they are from; None if they have none."""
    return getattr(estimator, "feature_names_in_", getattr(estimator, "_called", None))


def useful_columns(
    X: FloatArray, prior: Any, names: Any, all_there_is: bool = True, extremes: Extremes | None = None
) -> tuple[FloatArray, ColumnMap | None, tuple[str, ...]]:
    """Columns that are informative, how to restore the others, and a sentence about these.

    No redundant column is left out if the prior is given, as it is for all columns, or if all are constant and there
    are no others (`all_there_is`). With `extremes`, X is a sample (see `find_redundant`).
    """
    redundant = find_redundant(X, extremes)
    if all_there_is and len(redundant.constant) + len(redundant.empty) == X.shape[1]:
        return X, None, ("every column is constant, so that there is nothing to tell points apart",)
    if not redundant.columns or is_given(prior):
        return X, None, ()
    kept, restored = without(X, redundant)
    return kept, restored, (sentence(redundant, names),)


def as_float32(X: FloatArray) -> tuple[Float32Array, Float64Array]:
    """The rows in single precision, and the offset that was subtracted before so that they keep their digits."""
    if X.dtype == np.float32:
        return np.asanyarray(X, dtype=np.float32), np.zeros(X.shape[1])
    offset = offset_of(X[sample_rows(len(X), 0)])
    points = to_float32(X, offset)
    if np.isinf(points).any():
        raise ValueError(TOO_WIDE)
    return points, offset


def offset_of(sample: FloatArray) -> Float64Array:
    """The mean of some rows, which is near enough to all; 0 for columns without values."""
    if sample.dtype == np.float32:
        return np.zeros(sample.shape[1])
    offset: Float64Array = sample.mean(axis=0)
    if np.isnan(offset).any():
        present = ~np.isnan(sample)
        offset = np.where(present, sample, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return offset


def to_float32(X: FloatArray, offset: Float64Array) -> Float32Array:
    """The rows less the offset, in single precision."""
    if X.dtype == np.float32:
        return np.asanyarray(X, dtype=np.float32)
    points = np.empty(X.shape, np.float32)
    for begin in range(0, len(X), CHUNK):
        # Values that are too large become infinite.
        with np.errstate(over="ignore"):
            np.subtract(X[begin : begin + CHUNK], offset, out=points[begin : begin + CHUNK], casting="same_kind")
    return points


def read_counts(estimator: Any, X: Any, reset: bool) -> Any:
    """Rows of counts, dense or CSR, in single precision."""
    accepted, least = "csr" if family_named(estimator.family).sparse else False, 2 if reset else 1
    X = validate_data(estimator, X, accept_sparse=accepted, dtype=FLOATS, reset=reset, ensure_min_samples=least)
    check_non_negative(X, f"DPMM (family {estimator.family})")
    column = exposure_column(estimator)
    if column is not None and not (X[:, column] > 0).all():
        raise ValueError("the exposure should be above 0 in every row")
    return canonical(X).astype(np.float32, copy=False)


def canonical(rows: Any) -> Any:
    """Sparse rows with one entry for each place; an array as it is."""
    if issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def exposure_column(estimator: Any) -> int | None:
    """The number of the column of exposures; None if there is none."""
    exposure = getattr(estimator, "exposure", None)
    if exposure is None:
        return None
    names = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
    if len(names) < 2:
        raise ValueError("besides the exposure there should be a column of counts")
    return place_of(exposure, [str(name) for name in names], "exposure")


def read_table(estimator: Any, X: Any, categorical: Any, prior: Any = None) -> FitData:
    """A table of numeric and categorical columns."""
    table, named = checked_table(estimator, X, reset=True)
    notes: tuple[str, ...] = ()
    if categorical is None:
        table, categorical, notes = sorted_out(table, named)
    columns = Columns.learn(table, categorical, named)
    points = columns.points(table if named else np.column_stack([np.asarray(c, object) for c in table.values()]))
    if len(points) < 2:
        raise ValueError(f"Found array with {len(points)} sample(s) while a minimum of 2 is required by DPMM.")
    names = [columns.names[column] if columns.named else f"number {column + 1}" for column in columns.numeric]
    # A file has been checked already.
    notes = notes if hasattr(estimator, "_called") else (*strange_notes(points.numeric, names), *notes)
    useful, restored, left_out = useful_columns(points.numeric, prior, names, all_there_is=not columns.categorical)
    present = Present.among(type(points)(useful, points.codes))
    there: Any = slice(None) if present is None else present.rows
    numeric, offset = as_float32(useful[there])
    points = type(points)(numeric, points.codes[there])
    n_missing = int(np.isnan(numeric).sum() + (points.codes < 0).sum())
    notes = with_note(present, (*notes, *left_out))
    return FitData(points, offset, columns, n_missing, restored, notes, present)


def checked_table(estimator: Any, X: Any, reset: bool) -> tuple[dict[str, Any], bool]:
    """The columns of a table, after scikit-learn's checks of its shape and names."""
    X = by_name(X)
    # Some sparse matrices are mappings, too.
    if isinstance(X, Mapping) and not issparse(X):
        table, named = table_of(X)
        if reset:
            estimator.n_features_in_, estimator.feature_names_in_ = len(table), np.array(list(table), dtype=object)
        return table, named
    if hasattr(X, "columns"):
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        table, named = table_of(X)
        if not table or not len(next(iter(table.values()))):
            raise ValueError(
                f"Found array with 0 sample(s) (shape={getattr(X, 'shape', None)}) while a minimum of 1 is required."
            )
        return table, named
    array = X if issparse(X) else np.asarray(X)
    if getattr(array, "dtype", np.dtype(object)).kind in "OUS":
        checked = validate_data(estimator, array, dtype=None, ensure_all_finite=False, reset=reset)
    else:
        checked = validate_data(estimator, X, dtype=FLOATS, ensure_all_finite="allow-nan", reset=reset)
    return table_of(checked)
