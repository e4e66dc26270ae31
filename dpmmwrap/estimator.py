"""DPMM, the scikit-learn estimator: validate, choose a backend, expose the fitted attributes."""

from __future__ import annotations

import numbers
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dpmmwrap.backends import Chosen, Wanted, choose_backend, started, told_of
from dpmmwrap.backends.dask import check_dask_can, is_lazy, on_workers
from dpmmwrap.describe.notebook import NotebookMixin
from dpmmwrap.describe.notes import doubts_about
from dpmmwrap.describe.progress import shown_progress
from dpmmwrap.families import COVARIANCE_TYPES, FAMILIES
from dpmmwrap.families.defaults import is_costly
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.choice import Choice, ModelOptions, choose_model, concentration
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.inputs import NO_GAPS, Read, fraction_notes, mixed_rows, read_counts, read_mixed, read_numeric
from dpmmwrap.model.parameters import check_among, check_number, check_whole
from dpmmwrap.model.warning import warn_caller
from dpmmwrap.numerics import compiling
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.cells import is_remote, kmeans_bins, many_clusters, sample_rows
from dpmmwrap.partitions.dirichlet_process import ALPHA_PRIOR
from dpmmwrap.posterior.answer import (
    LOSSES,
    Answer,
    PosteriorMixin,
    answer_of,
    kept_rows,
    learned_values,
    sample_of,
)
from dpmmwrap.sampler.settings import (
    ACCEPTANCE_RATIOS,
    FULL_RATIOS,
    Progress,
    Result,
    Settings,
    chain_count,
    search_length,
)
from dpmmwrap.sampler.stopping import stopped_by
from dpmmwrap.starts import Initializer, NetworkUnavailable, Start, check_torch, make_initializer

if TYPE_CHECKING:
    from dpmmwrap.model.sensitivity import AtSetting

RESTART_AFTER = 10
"""Iterations in a rejected split after which subclusters begin anew."""
ROWS_PER_FEATURE = 100
JULIA_ALPHA, JULIA_ITERATIONS = 10.0, 100
"""By its own ratio the reference package is left to itself: it learns neither its concentration nor when to stop, and
these are its defaults."""
DEPRECATED = "deprecated"
RENAMED = {"burnout": "min_cluster_age", "fresh_start_after": "restart_after", "merge_ratio": "acceptance_ratio"}
"""Settings whose old names still work, with a warning."""


class DPMM(NotebookMixin, PosteriorMixin, ClusterMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Dirichlet process mixture, sampled by split and merge moves: finds the number of clusters.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Concentration of the Dirichlet process; more of it means more clusters. "auto" learns it (Escobar and West
        1995); with Julia by the reference's own ratio it is 10.
    alpha_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma prior of a concentration that is learned. The default expects few clusters, and is
        soon outweighed by data that have many.
    family : {"gaussian", "multinomial", "mixed"}, default="gaussian"
        What the points of a cluster follow. "multinomial" is for rows of counts, dense or sparse (CSR); "mixed" for
        tables of numeric and categorical columns.
    covariance_type : {"auto", "full", "diag", "spherical"}, default="auto"
        Of Gaussian clusters: any ellipsoid, one along the axes, or a ball. "auto" takes the one that makes the data
        most probable, by short chains with each. Missing values (NaN) need "diag" or "spherical", and "auto" knows
        that.
    categorical : list of str or int, default=None
        Of the family "mixed": the categorical columns by name or number. None for those that hold words or two to ten
        different whole numbers; words of which nearly every row has its own, as ids and texts do, are left out.
    init : "auto", "splitnet", "kmeans", "random" or callable, default="auto"
        How a new cluster's two subclusters begin: by a network, by 2-means, by coin, or by a callable from the
        points of a cluster to sublabels 0 and 1. "auto" is 2-means, and the network for Gaussian clusters where splits
        are accepted by the reference's ratio, as in Julia.
    max_iter : int or "auto", default="auto"
        Iterations of the search. "auto" ends it when the log posterior has been flat for a while, after 500 at the
        latest; with Julia by the reference's own ratio it is 100.
    n_draws : int, default=0
        Draws from the posterior that each chain makes after the search, by moves that leave it invariant. With draws,
        `labels_` is the partition that represents them best, and there is a posterior to ask: `draws_`.
    thin : int, default=5
        Iterations from one draw to the next.
    n_chains : int or "auto", default="auto"
        Independent chains, side by side if `n_jobs` allows it. Without draws the best of them is taken; with draws they
        tell whether the draws can be trusted. "auto" is 4 with draws and up to 10,000 points (and a million numbers),
        else 1.
    keep_labels : bool, default=True
        Whether the labels of all draws are kept, 4 bytes a point and draw (in a temporary file beyond 1 GB). Without
        them `labels_` is the best of the search, and there is no `confidence_`.
    loss : {"vi", "binder"}, default="vi"
        What the representative partition has least of, on average over draws: variation of information, or Binder's
        loss.
    prior_kappa, prior_width, prior_strength : float or "auto", default="auto"
        Of the default prior of numeric columns: how close to each other clusters are (a cluster's variance over that of
        all clusters' means), how wide they are (as a share of each feature's variance), and how alike in that, in
        degrees of freedom beyond the least that a covariance needs. "auto" learns them. A narrower prior gives more
        clusters.
    prior : None, "data", "reference", or a prior such as `NIW`, default=None
        None and "data" are tied to how wide the data are locally; "reference" is mean 0 and identity. An `NIW`, `NIG`,
        `SphericalNIG` or `Dirichlet` of one's own decides the covariance type, too.
    backend : {"auto", "native", "julia", "dask"}, default="auto"
        The built-in sampler, DPMMSubClusters.jl, or the built-in sampler on the workers of the current Dask client.
        "auto" takes Dask for data of Dask's, and Julia where it is set up and gives all that is asked: it neither
        chooses a covariance type nor learns a prior, and makes one chain without draws and checkpoints.
    min_cluster_age : int, default=3
        Iterations before a new cluster may split or merge.
    init_clusters : int, "many", "auto" or array of labels, default="auto"
        A number, small ones that then merge, or a label per point. "auto" is one by all of the Hastings ratio, and many
        by the reference's, by which splits alone do not find overlapping clusters.
    max_clusters : int, default=None
        No splits beyond this number of clusters.
    outlier_weight : float, default=0.0
        Share of a broad component that collects outliers, labelled -1; 0 for none.
    outlier_prior : a prior of the same family, default=None
        Of the outlier component; None is twice as wide as the data.
    acceptance_ratio : {"auto", "jain-neal", "reference", "printed"}, default="auto"
        How splits and merges are accepted; "auto" is "jain-neal", all of the Hastings ratio, with either sampler.
    restart_after : int or None, default=10
        Iterations in a rejected split after which subclusters begin anew; None for never. The built-in sampler looks
        every twentieth iteration.
    n_jobs : int, default=None
        Threads, as in scikit-learn; several chains share them. The result does not depend on it.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where SplitNet runs.
    random_state : int, RandomState or None, default=None
        Seed.
    verbose : int, default=0
        1 shows a progress bar on a terminal and in a notebook; elsewhere it prints a line every tenth iteration.
    checkpoint : str or Path, default=None
        A file to go on from if it exists. Further chains and the labels of draws have files beside it.
    checkpoint_every : int, default=50
        Iterations or draws from one writing of the checkpoint to the next.
    workers : int, default=0
        Worker processes of the Julia backend.
    machines : str or Path, default=None
        A file of machines for the Julia backend, one user@host*n per line; see the page about Julia for what may stand
        behind it. `dpmmwrap.julia_workers` keeps workers for several fits.
    burnout, fresh_start_after, merge_ratio : deprecated
        Old names of min_cluster_age, restart_after and acceptance_ratio: they still work, with a warning.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (N,)
        The cluster of each row, from 0, the largest; -1 for outliers, and for rows without any value. With draws, the
        partition that represents them best; without, the one of the highest log posterior that any chain has met. Of
        data on Dask a Dask array, and so is sublabels_.
    n_clusters_ : int
        Number of clusters, without the outlier component.
    weights_ : ndarray of float64, shape (K,)
        Each cluster's share of the points.
    means_ : ndarray of float64, shape (K, D)
        Of Gaussian families: the clusters' means.
    covariances_ : ndarray of float64, shape (K, D, D) or (K, D)
        Of Gaussian families: the clusters' expected covariances; variances where they are diagonal or spherical.
    mixture_ : Mixture
        The fitted mixture, which `save` writes.
    covariance_type_ : str
        "full", "diag", "spherical", "multinomial" or "mixed": what "auto" has chosen, or the family.
    covariance_reason_ : str
        Why it was chosen.
    alpha_ : float
        The concentration that goes with the labels; with draws, its mean.
    prior_kappa_, prior_width_, prior_strength_ : float or None
        Of the default prior of numeric columns, as learned or given; with draws, their medians. None of other priors.
    log_posterior_ : float
        Log posterior of the labels, up to a constant.
    log_evidence_ : float
        Log probability of the data under the mixture, whichever way they are labelled, bounded from below; of 20,000
        rows at most. It compares kinds of covariances, and fits from different starts.
    notes_ : list of str
        Sentences about what was done to the data, what may be wrong with the result, and what to try.
    draws_ : Draws or None
        What was sampled; None without `n_draws`.
    confidence_ : ndarray of float64, shape (N,), or None
        With draws, for each point the share of them in which it is in its cluster.
    diagnostics_ : list of Diagnostic or None
        With draws, R-hat and effective sample sizes.
    trace_ : Trace
        What happened in each iteration of the search, of the best chain.
    traces_ : list of Trace
        The same of all chains.
    n_iter_ : int
        Iterations of the search.
    stopped_by_ : str
        What has ended the search: "flat", the "limit" of a `max_iter` of "auto", "max_iter", or "interrupt".
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    init_ : str
        What "auto" has chosen for `init`.
    backend_ : str
        What did the sampling: "native", "julia" or "dask".
    backend_reason_ : str
        Why it was taken.
    startup_seconds_ : float
        What starting and compiling Julia and its workers took; 0 with the built-in sampler.
    sublabels_ : ndarray of uint8, shape (N,)
        The half of its cluster, 0 or 1, that each point was in at the end of the search.
    n_missing_ : int
        How many values were missing.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : ndarray of str, shape (D,)
        The names of the columns, where the data have any.

    See Also
    --------
    load : Read a model that `save` has written.

    Examples
    --------
    Three groups, and nothing said about their number:

    >>> import numpy as np
    >>> from dpmmwrap import DPMM
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(100, 2)) + 8 * k for k in range(3)])
    >>> model = DPMM(init="kmeans", random_state=0).fit(X)
    >>> model.n_clusters_
    3
    >>> sorted(model.means_.round().astype(int).tolist())
    [[0, 0], [8, 8], [16, 16]]
    >>> model.predict([[7.0, 9.0]]) == model.labels_[150]
    array([ True])

    How sure it is:

    >>> model = DPMM(init="kmeans", n_draws=20, n_chains=2, covariance_type="full", random_state=0).fit(X)
    >>> bool(model.confidence_.mean() > 0.9)
    True
    """

    labels_: IntArray
    mixture_: Mixture
    prior_kappa_: float | None
    prior_width_: float | None
    prior_strength_: float | None

    def __init__(
        self,
        alpha: float | str = "auto",
        alpha_prior: tuple[float, float] = ALPHA_PRIOR,
        init: Start | Initializer = "auto",
        max_iter: int | str = "auto",
        prior: Any = None,
        prior_kappa: float | str = "auto",
        prior_width: float | str = "auto",
        prior_strength: float | str = "auto",
        backend: str = "auto",
        min_cluster_age: int = 3,
        init_clusters: int | str | IntArray = "auto",
        max_clusters: int | None = None,
        outlier_weight: float = 0.0,
        outlier_prior: Any = None,
        acceptance_ratio: str = "auto",
        restart_after: int | None = RESTART_AFTER,
        n_jobs: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 50,
        workers: int = 0,
        machines: str | Path | None = None,
        family: str = "gaussian",
        covariance_type: str = "auto",
        categorical: Any = None,
        n_draws: int = 0,
        thin: int = 5,
        n_chains: int | str = "auto",
        keep_labels: bool = True,
        loss: str = "vi",
        burnout: Any = DEPRECATED,
        fresh_start_after: Any = DEPRECATED,
        merge_ratio: Any = DEPRECATED,
    ) -> None:
        self.alpha = alpha
        self.alpha_prior = alpha_prior
        self.init = init
        self.max_iter = max_iter
        self.prior = prior
        self.prior_kappa = prior_kappa
        self.prior_width = prior_width
        self.prior_strength = prior_strength
        self.backend = backend
        self.min_cluster_age = min_cluster_age
        self.init_clusters = init_clusters
        self.max_clusters = max_clusters
        self.outlier_weight = outlier_weight
        self.outlier_prior = outlier_prior
        self.acceptance_ratio = acceptance_ratio
        self.restart_after = restart_after
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.workers = workers
        self.machines = machines
        self.family = family
        self.covariance_type = covariance_type
        self.categorical = categorical
        self.n_draws = n_draws
        self.thin = thin
        self.n_chains = n_chains
        self.keep_labels = keep_labels
        self.loss = loss
        self.burnout = burnout
        self.fresh_start_after = fresh_start_after
        self.merge_ratio = merge_ratio

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.family == "multinomial"
        tags.input_tags.positive_only = self.family == "multinomial"
        tags.input_tags.categorical = tags.input_tags.string = self.family == "mixed"
        tags.input_tags.allow_nan = self.family == "mixed" or (
            self.family == "gaussian" and self.covariance_type != "full"
        )
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        truth: Any = None,
        progress: Progress | None = None,
        on_interrupt: str = "raise",
    ) -> DPMM:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (N, D)
            The points. Sparse matrices are for counts; tables may be those of pandas, polars and pyarrow. Arrays and
            frames of Dask stay on its workers.
        y : ignored
            Not looked at; here because scikit-learn passes it.
        truth : array of labels, shape (N,), default=None
            True labels. They only add the NMI to the trace.
        progress : callable, default=None
            Called after each iteration with its number (from 1) and what happened in it.
        on_interrupt : {"raise", "return"}, default="raise"
            Ctrl-C ends the fit after the current iteration, and the estimator keeps the result so far. Then
            KeyboardInterrupt is raised, so that loops and searches stop, too; with "return" it is not.

        Returns
        -------
        DPMM
            The fitted estimator itself.
        """
        check_among("on_interrupt", on_interrupt, ("raise", "return"))
        given = self._check_parameters()
        came_as = str(getattr(X, "dtype", type(X).__name__))
        with self._reading(X) as read:
            self._fit(read, given, truth, progress, came_as)
        if self.interrupted_ and on_interrupt == "raise":
            raise KeyboardInterrupt("the fit was interrupted; the estimator has the result so far")
        return self

    def _fit(self, read: Read, given: dict[str, Any], truth: Any, progress: Progress | None, came_as: str) -> None:
        """Choose the model, sample, and keep what was found."""
        ratio = given["acceptance_ratio"]
        chosen = choose_backend(self.backend, self._wanted(ratio, read))
        backend = self._started(chosen, progress)
        if backend.name == "native":
            compiling.prepare(self._loops(read), self.n_draws > 0)
        elif backend.name == "dask":
            from dpmmwrap.backends.dask.loading import prepare

            prepare(read.points, self._loops(read), self.n_draws > 0)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = ModelOptions(
            self.prior, self.family, self.covariance_type, self.alpha, self.alpha_prior, *self._hyperparameters
        )
        choice = choose_model(options, read, only_full=backend.name == "julia")
        read, prior = choice.read, choice.prior
        outlier_prior = self._outlier_prior(read, prior)
        full_ratio = backend.name != "julia" and given["acceptance_ratio"] in FULL_RATIOS
        initializer, notes = self._initializer(prior, full_ratio)
        choice = choice._replace(notes=(*choice.notes, *notes))
        settings = Settings(
            **self._concentration(backend.name, ratio),
            prior=prior,
            # Julia's sampler learns no prior.
            hyperprior=None if backend.name == "julia" else choice.hyperprior,
            initializer=initializer,
            **self._search_length(backend.name, ratio),
            min_cluster_age=int(given["min_cluster_age"]),
            seed=seed,
            **self._starts(choice, seed, backend.name, ratio),
            max_clusters=self.max_clusters,
            outlier_weight=float(self.outlier_weight),
            outlier_prior=outlier_prior,
            acceptance_ratio=ratio,
            restart_after=given["restart_after"],
            n_chains=self._chain_count(backend.name, choice),
            n_draws=int(self.n_draws),
            thin=int(self.thin),
            keep_labels=bool(self.keep_labels),
            n_jobs=effective_n_jobs(self.n_jobs),
            truth=None if truth is None else read.labels(truth, "truth"),
            progress=progress,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            checkpoint_every=int(self.checkpoint_every),
            workers=int(self.workers),
            machines=None if self.machines is None else Path(self.machines),
        )
        with shown_progress(self.verbose if progress is None else 0, settings) as shown:
            result = backend.fit(read.points, replace(settings, progress=progress or shown))
        result.trace.converted_from = None if came_as == "float32" else came_as
        answer = answer_of(result, read.points, settings, self.loss, read.columns)
        ended_by = stopped_by(result.trace, settings.max_iter, settings.stop_when_flat)
        self.stopped_by_ = "interrupt" if result.interrupted else ended_by
        self._outliers = outlier_prior
        self._keep(answer, result, chosen, choice)

    @property
    def _hyperparameters(self) -> tuple[Any, Any, Any]:
        return self.prior_kappa, self.prior_width, self.prior_strength

    def _reading(self, X: Any) -> AbstractContextManager[Read]:
        """The data of a fit, checked and stored as their family wants them, as long as the fit lasts."""
        if self.backend != "dask" and not is_lazy(X):
            return nullcontext(self._read(X))
        if self.backend not in ("auto", "dask"):
            raise ValueError(f"data of Dask need the backend dask (or auto), not {self.backend}")
        workers = self.workers > 0 or self.machines is not None
        check_dask_can(self.family, self.n_draws, bool(self.keep_labels), workers)
        return on_workers(self, X)

    def _read(self, X: Any) -> Read:
        """Data that are here."""
        if self.family == "mixed":
            return read_mixed(self, X, self.categorical, self.prior)
        if self.family == "multinomial":
            counts = read_counts(self, X, reset=True)
            return Read(counts, np.zeros(1), notes=fraction_notes(counts))
        return read_numeric(self, X, self.covariance_type, self.prior)

    def _loops(self, read: Read) -> tuple[str, ...]:
        """The kinds of compiled loops that a fit needs, at most."""
        if self.family != "gaussian":
            return ("sparse" if is_sparse(read.points) else "counts",) if self.family == "multinomial" else ("mixed",)
        if read.n_missing:
            return ("gaps",)
        own = getattr(self.prior, "family", self.covariance_type)
        return ("full", "diag") if own == "auto" and read.points.shape[1] > 1 else ("full" if own == "auto" else own,)

    def _keep(self, answer: Answer, result: Result, backend: Chosen, choice: Choice) -> None:
        names = getattr(self, "feature_names_in_", None)
        called = None if names is None else tuple(str(name) for name in names)
        shifted = answer.mixture.shifted(-choice.read.offset)
        mixture = replace(shifted, feature_names=called, restored=choice.read.restored)
        self.mixture_ = mixture
        self.labels_ = answer.labels
        self.sublabels_ = result.sublabels
        self._present = choice.read.present
        self.n_clusters_ = mixture.n_clusters
        self.weights_ = mixture.weights
        if mixture.family in ("full", "diag", "spherical"):
            self.means_ = mixture.means
            self.covariances_ = mixture.covariances
        self.covariance_type_ = mixture.family
        self.covariance_reason_ = choice.reason
        self.n_missing_ = choice.read.n_missing
        self.trace_ = result.trace
        self.traces_ = result.traces or [result.trace]
        self.log_posterior_ = answer.log_posterior
        self.n_iter_ = len(result.trace)
        self.interrupted_ = result.interrupted
        self.backend_, self.backend_reason_ = backend.name, backend.reason
        self.startup_seconds_ = result.startup_seconds
        self.alpha_ = answer.alpha if self.alpha == "auto" else float(self.alpha)
        values = learned_values(result, choice.hyperprior, choice.prior)
        self.prior_kappa_, self.prior_width_, self.prior_strength_ = (None, None, None) if values is None else values
        self.draws_ = result.draws
        self.confidence_, self.diagnostics_ = answer.confidence, answer.diagnostics
        if self._present is not None:
            self.labels_ = self._present.spread(self.labels_, -1)
            self.sublabels_ = self._present.spread(self.sublabels_, 0)
            self.draws_ = self._present.spread_draws(self.draws_)
            # In every draw such a row is where it is in the result: nowhere.
            self.confidence_ = None if answer.confidence is None else self._present.spread(answer.confidence, 1.0)
        self._offset, self._some_points = choice.read.offset, sample_of(choice.read.points)
        self._prior, self._hyperprior = answer.prior, choice.hyperprior
        doubts = [*doubts_about(mixture, result, self.stopped_by_), *answer.doubts]
        self.notes_ = [*choice.read.notes, *choice.notes, *doubts]
        for doubt in doubts:
            warn_caller(doubt)

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> IntArray:
        """Fit and return the label of each row.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (N, D)
            The points.
        y : ignored
            Not looked at.
        **options
            What `fit` takes: truth, progress, on_interrupt.

        Returns
        -------
        ndarray of int32, shape (N,)
            `labels_`.
        """
        return self.fit(X, y, **options).labels_

    def predict(self, X: Any) -> IntArray:
        """The most probable cluster of each row, by `predict_proba`; -1 for outliers, and for rows without any value.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; of a table they are found by name.

        Returns
        -------
        ndarray of int32, shape (n,)
            A label for each row; of a Dask array or frame a Dask array, of which nothing is computed yet.
        """
        if is_lazy(X):
            lazy: IntArray = self._lazily("predict", X, np.int32)
            return lazy
        rows = self._rows(X)
        return self.mixture_.predict(rows)

    def predict_proba(self, X: Any) -> Float64Array:
        """The probability of each cluster for each row, by the clusters' posterior predictives.

        Averaged over draws if there are any.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of float64, shape (n, K) or (n, K + 1)
            Each row sums to 1. An outlier component is the last column. Of a Dask array or frame a Dask array.
        """
        if is_lazy(X):
            width = self.mixture_.n_clusters + int(self.outlier_weight > 0)
            lazy: Float64Array = self._lazily("predict_proba", X, np.float64, width)
            return lazy
        rows = self._rows(X)
        return self.mixture_.predict_proba(rows)

    def score_samples(self, X: Any) -> Float64Array:
        """Log predictive density of each row, of the mean over draws if there are any.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of float64, shape (n,)
            In nats. Low ones are rows unlike those of the fit. Of a Dask array or frame a Dask array.
        """
        if is_lazy(X):
            lazy: Float64Array = self._lazily("score_samples", X, np.float64)
            return lazy
        rows = self._rows(X)
        return self.mixture_.score_samples(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit.
        y : ignored
            Not looked at.

        Returns
        -------
        float
            The mean of `score_samples`, for grid searches and comparisons on rows that were held out. Of a Dask array
            or frame it is lazy, too.
        """
        mean = self.score_samples(X).mean()
        return mean if is_lazy(X) else float(mean)

    def _lazily(self, method: str, X: Any, kind: Any, columns: int | None = None) -> Any:
        """What a method gives for rows of Dask's, block by block when it is computed."""
        from dpmmwrap.backends.dask.lazy import by_blocks

        check_is_fitted(self)
        return by_blocks(self, method, X, kind, columns)

    def sample(self, n_samples: int = 1) -> tuple[Float64Array, IntArray]:
        """New points from the fitted mixture; with draws, from the mixtures of the draws that predictions are averaged
        over.

        Parameters
        ----------
        n_samples : int, default=1
            How many.

        Returns
        -------
        X : ndarray of float64, shape (n_samples, D)
            The points; of a mixed table a column by each name.
        labels : ndarray of int32, shape (n_samples,)
            The cluster of each.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(f"n_samples should be a whole number of at least 1, not {n_samples!r}")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return self.mixture_.sample(int(n_samples), np.random.default_rng(seed))

    def save(self, path: str | Path) -> None:
        """Write the fitted mixture, and the draws if there are any, to a file that cannot execute code.

        Parameters
        ----------
        path : str or Path
            A .npz file, for `dpmmwrap.load` and `dpmmwrap predict`. It appears whole or not at all.
        """
        check_is_fitted(self)
        replace(self.mixture_, draws=self.draws_).save(path)

    def _labels_of_some(self) -> IntArray:
        """The labels of the rows that are kept."""
        fitted = self.labels_ if self._present is None else self.labels_[self._present.rows]
        return np.asarray(fitted[kept_rows(len(fitted), self._some_points.shape[1])])

    @property
    def log_evidence_(self) -> float:
        """log p(X) of the kept rows, bounded from below: how probable the mixture makes the data, whichever way they
        are labelled. Computed when it is asked for."""
        from dpmmwrap.model.evidence import log_evidence_at_best

        check_is_fitted(self)
        labels = self._labels_of_some()
        inside = labels >= 0
        return log_evidence_at_best(
            self._prior, self._hyperprior, self._some_points[inside], labels[inside], float(self.alpha_)
        )

    def sensitivity(self) -> list[AtSetting]:
        """How many clusters there are if the default prior's width, its kappa or the concentration is a quarter, half,
        twice and four times what it is, and if it is as it is.

        What short chains find, of 4,000 points at most, that begin with the fitted clusters.

        Examples
        --------
        >>> [one.n_clusters for one in model.sensitivity() if one.setting == "width"]  # doctest: +SKIP
        [9, 6, 5, 5, 4]
        """
        from dpmmwrap.model.sensitivity import FittedPrior, sensitivity_of

        check_is_fitted(self)
        if self._hyperprior is None:
            raise ValueError("sensitivity is about the default prior of numeric columns, and this model has another")
        points, labels = self._some_points, self._labels_of_some()
        outliers = (float(self.outlier_weight), self._outliers)
        return sensitivity_of(FittedPrior(points, labels, self._prior, self._hyperprior, float(self.alpha_), *outliers))

    def _rows(self, X: Any) -> Any:
        """New rows as the fitted mixture takes them."""
        check_is_fitted(self)
        if self.mixture_.family == "mixed":
            return mixed_rows(self, X)
        if self.mixture_.family == "multinomial":
            return read_counts(self, X, reset=False)
        rows = validate_data(self, X, dtype=[np.float32, np.float64], reset=False, ensure_all_finite="allow-nan")
        if self.mixture_.family == "full":
            # A row without any value has no cluster; one with some cannot be told.
            inside = self.mixture_._useful(rows)
            if np.isnan(inside[with_values(inside)]).any():
                raise ValueError(NO_GAPS)
        return rows

    def _check_parameters(self) -> dict[str, Any]:
        """Refuse what makes no sense; the settings that have an old name."""
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_number("alpha", self.alpha, above=0.0)
        if np.shape(self.alpha_prior) != (2,):
            raise ValueError(f"alpha_prior should be two numbers, a shape and a rate, not {self.alpha_prior!r}")
        for name, number in zip(("shape", "rate"), self.alpha_prior, strict=True):
            check_number(f"alpha_prior's {name}", number, above=0.0)
        for name in ("prior_kappa", "prior_width", "prior_strength"):
            if not (isinstance(getattr(self, name), str) and getattr(self, name) == "auto"):
                check_number(name, getattr(self, name), above=0.0)
        given = {new: self._current(old, new) for old, new in RENAMED.items()}
        whole = {"checkpoint_every": 1, "workers": 0, "n_draws": 0, "thin": 1}
        for name in ("max_iter", "n_chains"):
            if not (isinstance(getattr(self, name), str) and getattr(self, name) == "auto"):
                whole[name] = 1
        for name, least in whole.items():
            check_whole(name, getattr(self, name), least)
        check_whole("min_cluster_age", given["min_cluster_age"], 1)
        for name, value in (("max_clusters", self.max_clusters), ("restart_after", given["restart_after"])):
            if value is not None:
                check_whole(name, value, 1)
        weight = self.outlier_weight
        if not isinstance(weight, numbers.Real) or not 0 <= float(weight) < 1:
            raise ValueError(f"outlier_weight should be a number from 0 up to, not including, 1, not {weight!r}")
        check_among("acceptance_ratio", given["acceptance_ratio"], ACCEPTANCE_RATIOS)
        check_among("family", self.family, FAMILIES)
        check_among("loss", self.loss, LOSSES)
        check_among("covariance_type", self.covariance_type, COVARIANCE_TYPES)
        if self.family != "mixed" and self.categorical is not None:
            raise ValueError("categorical columns need the family mixed")
        if self.family != "gaussian" and self.covariance_type not in ("auto", "diag"):
            raise ValueError(f"covariance_type is for the family gaussian, not {self.family}")
        return given

    def _current(self, old: str, new: str) -> Any:
        """A setting by its new name, or by its old one, which is said."""
        value = getattr(self, old)
        if isinstance(value, str) and value == DEPRECATED:
            return getattr(self, new)
        warn_caller(f"{old} is now called {new}; the old name will go", DeprecationWarning)
        return value

    def _wanted(self, acceptance_ratio: str, read: Read) -> Wanted:
        """What is asked of a backend."""
        from dpmmwrap.backends.julia import workers as julia_workers

        return Wanted(
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            remote=is_remote(read.points),
            acceptance_ratio=acceptance_ratio,
            workers=self.workers > 0 or self.machines is not None or julia_workers.are_kept(),
            family=self._family_of_backend(read.n_missing > 0),
            sparse=issparse(read.points),
            sampling=self.n_draws > 0 or self.n_chains not in ("auto", 1),
            found_out=self._found_out(read),
        )

    def _found_out(self, read: Read) -> str | None:
        """What the settings leave to be found out by the built-in sampler alone."""
        default_prior = self.family == "gaussian" and (self.prior is None or isinstance(self.prior, str))
        if default_prior and self.prior != "reference":
            if self.covariance_type == "auto":
                return "the covariance type is to be chosen"
            if "auto" in self._hyperparameters:
                return "the prior is to be learned"
        if self.n_chains == "auto" and chain_count("auto", 0, *read.points.shape) > 1:
            return "several chains are to be compared (n_chains)"
        return None

    def _plain_reference(self, backend: str, ratio: str) -> bool:
        return backend == "julia" and ratio not in FULL_RATIOS

    def _search_length(self, backend: str, ratio: str) -> dict[str, Any]:
        plain = self.max_iter == "auto" and self._plain_reference(backend, ratio)
        return search_length(JULIA_ITERATIONS if plain else self.max_iter)

    def _concentration(self, backend: str, ratio: str) -> dict[str, Any]:
        plain = self.alpha == "auto" and self._plain_reference(backend, ratio)
        return concentration(JULIA_ALPHA if plain else self.alpha, self.alpha_prior)

    def _started(self, chosen: Any, progress: Progress | None) -> Any:
        """The chosen backend, ready to run."""
        return started(chosen, told_of(progress, self.verbose))

    def _family_of_backend(self, missing: bool) -> str:
        """What a backend has to be able to do: the family, or the diagonal kind of Gaussian that data or user want."""
        own = getattr(self.prior, "family", None)
        if self.family != "gaussian" or own == "full":
            return self.family
        diagonal = own or ("diag" if self.covariance_type == "auto" and missing else self.covariance_type)
        return self.family if diagonal in ("auto", "full") else diagonal

    def _initializer(self, prior: Any, full_ratio: bool) -> tuple[Initializer, list[str]]:
        """How subclusters begin, and what is to be said of it."""
        gaussian = prior.family in ("full", "diag", "spherical")
        start, notes = self.init, list[str]()
        if isinstance(start, str) and start == "auto":
            # With the whole Hastings ratio 2-means does as well; without it, it does not split crowds.
            start = "splitnet" if gaussian and not full_ratio else "kmeans"
            try:
                if start == "splitnet":
                    check_torch()
            except NetworkUnavailable as problem:
                start, notes = "kmeans", [f"subclusters begin by 2-means: {problem}"]
                warn_caller(notes[0])
        self.init_ = start if isinstance(start, str) else type(start).__name__
        if isinstance(start, str) and start == "splitnet":
            if not gaussian:
                raise ValueError(f"init splitnet is for Gaussian clusters; for the family {prior.family} use kmeans")
            return make_initializer("splitnet", device=self.device), notes
        if isinstance(start, str) and self.device not in ("auto", "cpu"):
            notes.append(f"the device {self.device} is not used: it is where a network runs, and here there is none")
        return make_initializer(start), notes

    def _chain_count(self, backend: str, choice: Choice) -> int:
        rows, columns = choice.read.points.shape
        # Half a matrix for each point, in products that are quicker than what else there is to do for a number.
        size = columns**2 // 4 if is_costly(choice.prior.family, columns) else columns
        return 1 if backend == "julia" else chain_count(self.n_chains, self.n_draws, rows, size)

    def _starts(self, choice: Choice, seed: int, backend: str, ratio: str) -> dict[str, Any]:
        """Where chains begin: by default with one cluster, k-means cells, one cluster, many small cells, in turn; a
        single chain with one cluster or cells, whichever was better in short chains."""
        points = choice.read.points
        first = self._first_clusters(choice.read, choice.prior, seed, ratio)
        own = isinstance(self.init_clusters, str) and self.init_clusters == "auto"
        if not own or choice.n_cells is None or not isinstance(first, int):
            return {"init_clusters": first}
        # Outliers would have cells of their own, and keep them.
        if self.outlier_weight > 0 or choice.n_cells > (self.max_clusters or choice.n_cells):
            return {"init_clusters": first}
        several = self._chain_count(backend, choice) > 1
        if not several and not choice.cells_are_better():
            return {"init_clusters": first}
        cells = kmeans_bins(points, choice.n_cells, seed=0)
        if not several:
            return {"init_clusters": cells}
        return {"init_clusters": first, "other_starts": (cells, self._many_clusters(points, choice.prior, seed))}

    def _many_clusters(self, X: Any, prior: Any, seed: int) -> Any:
        """A label per point: as many small cells as there are points for."""
        shape_needs = X.shape[1] if prior.family == "full" else 1
        return many_clusters(X, seed, prior.embedder(X), shape_needs)

    def _first_clusters(self, read: Read, prior: Any, seed: int, ratio: str) -> Any:
        first, X = self.init_clusters, read.points
        if isinstance(first, str):
            if first not in ("auto", "many"):
                raise ValueError(f"init_clusters should be auto, many, a number or an array of labels, not {first!r}")
            splits_suffice = ratio in FULL_RATIOS and not is_text(X, prior)
            if first == "auto" and splits_suffice:
                return 1
            return self._many_clusters(X, prior, seed)
        if isinstance(first, numbers.Integral):
            check_whole("init_clusters", first, 1)
            return min(int(first), int(X.shape[0]))
        return read.labels(first, "init_clusters")

    def _outlier_prior(self, read: Read, prior: Any) -> Any:
        if self.outlier_weight == 0:
            return None
        if self.outlier_prior is None:
            return prior.outliers(read.points[sample_rows(read.points.shape[0], 0)], read.points.shape[0])
        if type(self.outlier_prior) is not type(prior):
            raise ValueError(f"outlier_prior should be a {type(prior).__name__} like the prior")
        return self.outlier_prior.shifted(read.offset)


def is_sparse(X: Any) -> bool:
    """Whether points are a sparse matrix, here or elsewhere."""
    return bool(issparse(X) or getattr(X, "is_sparse", False))


def is_text(X: Any, prior: Any) -> bool:
    """Whether counts have few rows for each feature, as words have documents: then halves of all rows say little about
    many topics, and a chain begins with bins of similar rows."""
    return bool(prior.family == "multinomial" and X.shape[0] < ROWS_PER_FEATURE * X.shape[1])
