"""What an estimator does with data that keep coming."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from dpmmwrap.backends import Native, as_backend
from dpmmwrap.backends.dask import is_lazy
from dpmmwrap.families import family_of
from dpmmwrap.families.base import expected_deviations, take
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.empty_rows import Present, absent_note, with_values
from dpmmwrap.model.inputs import to_float32
from dpmmwrap.model.memory import Memory, Pieces, Window, digest_of, of_cluster
from dpmmwrap.model.parameters import at_least, check_value
from dpmmwrap.model.run_settings import initializer_of
from dpmmwrap.model.warning import warn_caller
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.cells import thread_pools
from dpmmwrap.numerics.weights import checked_weights
from dpmmwrap.posterior.fitted import kept_rows, sample_of, set_mixture
from dpmmwrap.posterior.mixture_file import load
from dpmmwrap.streams.pieces import absorbed
from dpmmwrap.streams.update import Batch, Stream, Updated, begin_rows, leaving, update

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM

COARSE = 0.1
"""The largest rounding of a value, in expected standard deviations of a cluster."""
WINDOW = 5000
"""Number of rows that stay free by default."""


class StreamMixin:
    """Methods of `DPMM` for data that keep coming."""

    _streams: bool = False
    """Whether the fit is the first batch of several."""
    _read_points: Any = None
    """The data of such a fit, until the batch is over."""

    def partial_fit(
        self: Any,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        window: int = WINDOW,
        forget: float = 0.0,
        time: Any = None,
        freeze: bool = False,
        repeat: bool = False,
    ) -> Any:
        """Update the model with more rows: the first batch is a `fit`, later ones are added to it.

        Of earlier rows only statistics are kept, exactly as if these rows stayed together. The new rows join clusters
        or form new ones, and clusters merge and split. `labels_` are those of the batch, and `cluster_ids_` the lasting
        ids of the clusters. The family, the columns in use and their scaling are those of the first batch.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D), or an iterator of such batches
            The new rows. Each block of a Dask array or frame is a batch.
        y : array of int, shape (n,), default=None
            Known clusters of the first batch, as in `fit`; ignored later.
        sample_weight : array of float, shape (n,), default=None
            As in `fit`.
        window : int, default=5000
            The number of rows that stay free, so that later rows can still change their clusters: the newest rows and
            those whose clusters are doubtful.
        forget : float, default=0.0
            The share of the old statistics that is forgotten with each row, or with each unit of `time`. A cluster that
            has faded to less than a row dies.
        time : float, default=None
            When the batch was made, in any unit; it must not go back.
        freeze : bool, default=False
            Whether the clusters so far stay apart: rows join them or form new ones, but no two of them merge.
        repeat : bool, default=False
            Whether to add a batch again that the model has already seen. By default such a batch is skipped with a
            warning, and `predict` labels its rows.

        Returns
        -------
        DPMM
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from dpmmwrap import DPMM
        >>> rng, model = np.random.default_rng(0), DPMM(covariance_type="full", random_state=0)
        >>> for day in range(3):
        ...     batch = rng.normal(size=(100, 2)) + 9 * rng.integers(1 + day, size=(100, 1))
        ...     model = model.partial_fit(batch)
        >>> sorted(model.cluster_ids_.tolist())
        [0, 1, 2]
        >>> [(event.batch, event.kind, event.cluster) for event in model.history_]
        [(1, 'birth', 0), (2, 'birth', 1), (3, 'birth', 2)]
        """
        options = {"window": window, "forget": forget, "freeze": freeze, "repeat": repeat}
        if is_lazy(X):
            X = (block.compute() for block in (X.blocks if hasattr(X, "blocks") else X.partitions))
        if hasattr(X, "__next__"):
            for block in X:
                self.partial_fit(block, time=time, **options)
            return self
        check_value("window", window, [at_least(0)])
        check_value("forget", forget, [Interval(Real, 0, 1, closed="left")])
        self._check_parameters()
        clock = float("nan") if time is None else float(time)
        if not hasattr(self, "mixture_"):
            return self._first_batch(X, y, sample_weight, int(window), clock)
        memory = memory_of(self)
        elapsed = elapsed_since(memory, clock)
        batch = batch_of(self, X, sample_weight)
        digest = digest_of(memory.prior, batch.points, batch.weights)
        if not repeat and digest in memory.digests:
            return pass_over(self, X, memory.digests.index(digest) + 1)
        stream = stream_of(self, memory, int(window), float(forget), bool(freeze), elapsed, len(batch.numbers))
        # One thread for products of small matrices: more of them wait for each other.
        with thread_pools().limit(limits=1):
            found = update(memory, batch, digest, stream)
        self.window_rows_ = np.empty(0, np.int64) if memory.window is None else memory.window.numbers
        keep_batch(self, found, batch, clock)
        return self

    def _first_batch(self: Any, X: Any, y: Any, sample_weight: Any, window: int, clock: float) -> Any:
        check_can_stream(self)
        self._streams = True
        try:
            self.fit(X, y, sample_weight=sample_weight)
        finally:
            self._streams = False
        read, memory = self._read_points, memory_of(self)
        self._read_points = None
        total = len(self.labels_)
        numbers = np.arange(total) if read.present is None else read.present.rows
        labels, sides = self.labels_[numbers], self.sublabels_[numbers]
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        certainty = begin_rows(memory, memory.statistics, read.points).certainty
        free = Window(read.points, labels, numbers, certainty, read.weights)
        memory, ids = with_window(memory, free, sides, window, seed)
        set_mixture(self, replace(self.mixture_, memory=replace(memory, clock=clock, next_row=total)))
        self.row_ids_ = np.full(total, -1, np.int64)
        self.row_ids_[numbers] = ids
        self.window_labels_, self.window_row_ids_, self.window_rows_ = labels[:0], ids[:0], numbers[:0]
        return self

    def resume(self: Any, path: str | Path) -> Any:
        """Continue from a saved model: the next `partial_fit` adds to it.

        Parameters
        ----------
        path : str or Path
            A model that `save` or `dpmmwrap fit --out` has written.

        Returns
        -------
        DPMM
            The estimator itself, with the clusters of the file but without `labels_`.
        """
        mixture = load(path)
        if mixture.memory is None:
            raise ValueError(f"{path} lacks what is needed to continue: fit again with this version")
        self.family = family_of(mixture.family).name
        set_mixture(self, mixture)
        self.n_features_in_ = mixture.n_inputs
        if mixture.input_names is not None:
            self.feature_names_in_ = np.array(mixture.input_names, dtype=object)
        return self

    def current_ids(self: Any, ids: Any) -> IntArray:
        """The current clusters of earlier rows.

        Parameters
        ----------
        ids : array of int
            `row_ids_` of earlier batches.

        Returns
        -------
        ndarray of int64
            The `cluster_ids_` of their clusters; for a cluster that has died, the id that it had.
        """
        check_is_fitted(self)
        return memory_of(self).current(ids)


def pass_over(model: DPMM, X: Any, seen: int) -> DPMM:
    """Label the rows of a batch that the model has seen, and leave the model as it is."""
    note = f"the batch is the same as batch {seen}, which the model has seen: it was not added again (repeat adds it)"
    model.labels_, model.novelty_, model.notes_ = model.predict(X), model.novelty(X), [note]
    model.row_ids_ = np.where(model.labels_ < 0, -1, of_cluster(model.cluster_ids_[model.labels_]))
    warn_caller(note)
    return model


def memory_of(model: DPMM) -> Memory:
    """What the model keeps of earlier rows."""
    memory = model.mixture_.memory
    if memory is None:
        raise ValueError("the model does not keep what partial_fit needs: outlier_weight should be 0")
    return memory


def check_can_stream(model: DPMM) -> None:
    """Raise a ValueError for parameters that batches do not support."""
    if model.outlier_weight:
        raise ValueError("partial_fit knows no outlier component: outlier_weight should be 0")
    if model.n_draws:
        raise ValueError("partial_fit makes no draws: n_draws should be 0")
    if as_backend(model.backend).name not in ("auto", "native"):
        raise ValueError(f"partial_fit needs the built-in sampler: backend should be native, not {model.backend!r}")


def elapsed_since(memory: Memory, clock: float) -> float:
    """Time since the last batch; NaN if there is none."""
    if np.isnan(clock) != np.isnan(memory.clock):
        raise ValueError("time should be given for all batches or for none")
    if clock < memory.clock:
        raise ValueError(f"time should not go back, but it is {clock:g} after {memory.clock:g}")
    return clock - memory.clock


def batch_of(model: DPMM, X: Any, sample_weight: Any) -> Batch:
    """The rows of a batch that have values, as the chain takes them."""
    mixture: Mixture = model.mixture_
    values = mixture._prepared(mixture._read(model._rows(X)))
    there = with_values(values)
    total, numbers = len(there), np.flatnonzero(there)
    if not len(numbers):
        raise ValueError("the batch has no row with a value")
    weights = None if sample_weight is None else checked_weights(sample_weight, total)[numbers]
    if weights is not None and not weights.all():
        raise ValueError("sample_weight should be above 0 in every row of a batch")
    values = values if len(numbers) == total else values[numbers]
    return Batch(as_points(model, values), numbers, total, weights)


def as_points(model: DPMM, values: Any) -> Any:
    """Prepared rows as points of the model's family."""
    if model.mixture_.subspace is not None:
        return model.mixture_.subspace.points(values)
    if isinstance(values, TablePoints):
        return TablePoints(less_offset(model, values.numeric), values.codes)
    return less_offset(model, values) if memory_of(model).prior.input == "numbers" else values


def less_offset(model: DPMM, rows: Any) -> Any:
    """Rows in single precision after subtracting the offset, with noise on columns of few values."""
    from dpmmwrap.families.learned.ties import spread_ties

    memory = memory_of(model)
    whole = np.asarray(rows, dtype=np.float64) if memory.offset.any() else rows
    points = np.ascontiguousarray(to_float32(whole, memory.offset))
    check_resolution(points, getattr(memory.prior, "numeric", memory.prior), model.mixture_)
    return points if memory.steps is None else spread_ties(points, memory.steps)


def check_resolution(points: Any, prior: Any, mixture: Mixture) -> None:
    """Refuse a batch if most of it is so far from the first one that single precision rounds away what is within a
    cluster."""
    rounding = np.finfo(np.float32).eps * np.abs(points)
    coarse = (rounding > COARSE * expected_deviations(prior)).mean(axis=0)
    if not (coarse > 0.5).any():
        return
    column = int(coarse.argmax())
    away = np.fmax.reduce(np.abs(points[:, column]))
    number = column if mixture.restored is None else mixture.restored.kept[column]
    number = number if mixture.columns is None else mixture.columns.numeric[number]
    where = f"{away:.2g} away from the first one in column {mixture._feature_names[number]}"
    raise ValueError(
        f"the batch is {where}, too far for single precision to distinguish rows of a cluster: begin a new model"
    )


def with_window(memory: Memory, rows: Window, sides: Any, window: int, seed: int) -> tuple[Memory, IntArray]:
    """The memory of a first batch, with free rows and the others in pieces; the ids of all."""
    none, ids = np.empty(0, np.int64), of_cluster(memory.ids[rows.labels])
    gone = leaving(rows, window)
    memory = replace(
        memory, statistics=take(memory.statistics, none), pieces=Pieces(none, none, none), next_piece=0,
        window=rows.without(gone),
    )  # fmt: skip
    memory, ids[gone] = absorbed(memory, rows.part(gone), sides[gone], np.random.default_rng(seed))
    return memory, ids


def stream_of(
    model: DPMM, memory: Memory, window: int, forget: float, freeze: bool, elapsed: float, rows: int
) -> Stream:
    """The settings of an update."""
    check_can_stream(model)
    backend = as_backend(model.backend)
    native = backend if isinstance(backend, Native) else backend.as_kind(Native)
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    initializer, _ = initializer_of(model, memory.prior, native)
    return Stream(
        window, forget, freeze, float(rows) if np.isnan(elapsed) else elapsed, initializer,
        native.settings() | {"checkpoint": None},
        # Another one for each batch.
        int(np.random.SeedSequence([seed, memory.batches]).generate_state(1)[0]),
        None if isinstance(model.max_iter, str) else int(model.max_iter), model.max_clusters,
    )  # fmt: skip


def keep_batch(model: DPMM, found: Updated, batch: Batch, clock: float) -> None:
    """Set the attributes of the estimator after a batch."""
    memory, result, before = replace(found.memory, clock=clock), found.result, model.mixture_
    made = Mixture.from_statistics(found.whole, memory.prior, columns=before.columns).shifted(-memory.offset)
    mixture = replace(
        made, feature_names=before.feature_names, preparation=before.preparation, restored=before.restored,
        size_shift=memory.partition_prior.shift, subspace=before.subspace, memory=memory, statistics=None,
    )  # fmt: skip
    set_mixture(model, mixture)
    count = len(batch.numbers)
    own = len(found.labels) - count
    model.labels_ = batch.spread(found.labels[own:], -1)
    model.sublabels_ = batch.spread(result.sublabels[len(result.sublabels) - count :], 0)
    model.novelty_ = batch.spread(found.novelty, np.nan)
    model.row_ids_ = batch.spread(found.row_ids[own:], -1)
    model.window_labels_, model.window_row_ids_ = found.labels[:own], found.row_ids[:own]
    model.partition_prior_, model.alpha_ = memory.partition_prior, memory.partition_prior.alpha
    values = None if memory.hyperprior is None else memory.hyperprior.summary(memory.prior)
    model.prior_kappa_, model.prior_width_, model.prior_strength_ = (None, None, None) if values is None else values
    model.trace_, model.traces_, model.n_iter_ = result.trace, [result.trace], len(result.trace)
    model.log_posterior_, model.interrupted_ = float(result.log_posterior), result.interrupted
    model.stopped_by_ = "interrupt" if result.interrupted else found.stopped_by
    model.chain_agreement_, model.reproducibility_ = (), ()
    model.draws_ = model.confidence_ = model.diagnostics_ = None
    model.backend_, model.backend_reason_, model.startup_seconds_ = "native", "batches need it", 0.0
    model.covariance_reason_ = getattr(model, "covariance_reason_", "the model has them")
    numbers = getattr(batch.points, "numeric", batch.points)
    model.n_missing_ = int(np.isnan(numbers).sum()) if isinstance(numbers, np.ndarray) else 0
    model.notes_ = [] if count == batch.total else [absent_note(batch.total - count)]
    model._present = None if count == batch.total else Present(batch.numbers, batch.total)
    model._offset, model._some_points = memory.offset, sample_of(batch.points)
    model._some_weights = None if batch.weights is None else batch.weights[kept_rows(*batch.points.shape)]
    model._log_noise, model._prior, model._hyperprior, model._outliers = 0.0, memory.prior, memory.hyperprior, None
    model._components = None
