"""DPMM, the scikit-learn estimator, and its `fit`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from dpmmwrap.backends import as_backend
from dpmmwrap.backends.choosing import choose_backend, listener_of
from dpmmwrap.backends.dask import check_dask_can, is_lazy, on_workers
from dpmmwrap.describe.notebook import NotebookMixin
from dpmmwrap.describe.notes import doubts_about
from dpmmwrap.describe.progress import shown_progress
from dpmmwrap.families import families_of
from dpmmwrap.model.choice import choose_model
from dpmmwrap.model.estimator_parameters import LOSSES
from dpmmwrap.model.inputs import FitData, read_points, weights_of
from dpmmwrap.model.parameters import check_value
from dpmmwrap.model.run_settings import initializer_of, loops_of, needs_of, partition_prior_of, run_settings
from dpmmwrap.model.warning import warn_caller
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.fitted import keep
from dpmmwrap.posterior.mixin import PosteriorMixin
from dpmmwrap.posterior.resampling import NOT_RESAMPLED, resample
from dpmmwrap.sampler import compiling
from dpmmwrap.sampler.settings import Progress
from dpmmwrap.streams.constraint import constraint_of
from dpmmwrap.streams.known import KnownBackend, classes_note, name_known
from dpmmwrap.streams.mixin import StreamMixin
from dpmmwrap.streams.together import TogetherBackend


class DPMM(NotebookMixin, StreamMixin, PosteriorMixin):
    """Dirichlet process mixture, sampled by split and merge moves. It infers the number of clusters.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Concentration of the Dirichlet process; more gives more clusters. "auto" learns it (Escobar and West 1995);
        with Julia and the reference's ratio it is 10.
    partition_prior : "dirichlet", "pitman-yor", "finite", or a prior such as `PitmanYor(1.0, 0.3)`, default="dirichlet"
        The prior over partitions: a Dirichlet process with the concentration `alpha`; a Pitman-Yor process, for many
        small clusters; a finite mixture of an unknown number of components. `DirichletProcess(prior=(1, 0.1))` sets
        the Gamma prior under which the concentration is learned.
    family : {"gaussian", "student", "multinomial", "poisson", "mixed"}, default="gaussian"
        The distribution of a cluster's points. "student" is "gaussian" with tails="student"; "multinomial" is for
        counts of which the proportions matter, dense or sparse (CSR); "poisson" for event counts, of which the sizes
        matter, too; "mixed" for tables of numeric and categorical columns.
    covariance_type : {"auto", "full", "diag", "spherical"}, default="auto"
        The shape of Gaussian clusters: ellipsoids of any direction, ellipsoids along the axes, or balls. "auto" takes
        the type that makes the data most probable in short chains.
    tails : {"gaussian", "student", "auto"}, default="gaussian"
        Whether Gaussian clusters may have heavy tails: with "student" a cluster is a Student's t of learned degrees of
        freedom, which may be infinite (family="student" is the same). "auto" takes whichever makes the data most
        probable in short chains. Tails need every value, rows without weights, and the built-in sampler.
    subspace : "auto", int or None, default="auto"
        Dimensions of a subspace in which clusters differ, with full or diagonal covariances; in all other directions
        they are one Gaussian. For embeddings with hundreds of columns. "auto" tries subspaces beyond 30 columns if
        `covariance_type` is "auto", no value is missing and no row has a weight, and takes one if it makes the data
        most probable; None is for no subspace.
    categorical : list of str or int, default=None
        The categorical columns of the family "mixed", by name or number. None takes those that hold words or two to ten
        different whole numbers; ids and texts, which differ in most rows, are left out.
    exposure : str or int, default=None
        A column of the family "poisson", by name or number: for how long, or among how many, the events of a row were
        counted. Rates are per unit of exposure.
    prior : "data", `DataPrior`, "reference", or a prior such as `NIW`, default=None
        None and "data" learn the prior from the data; `DataPrior(width=...)` fixes parts of it. "reference" is the
        reference package's, with mean 0 and scale I. A prior object (`NIW`, `NIG`, `SphericalNIG`, `StudentNIW`,
        `Dirichlet` or `GammaPoisson`) determines the covariance type, too.
    init : "auto", "splitnet", "kmeans", "random" or callable, default="auto"
        How a new cluster is divided into two subclusters: by a network, by 2-means, at random, or by a callable from
        the points of a cluster to sublabels 0 and 1. "auto" is 2-means, but the network for Gaussian clusters in Julia
        or with the reference's ratio. `make_initializer` has the settings of each.
    init_clusters : int, "many", "auto" or array of labels, default="auto"
        The initial clusters: a number, "many" small ones that then merge, or a label per point. "auto" is one with the
        whole Hastings ratio, and many with the reference's, under which splits miss clusters that overlap.
    max_clusters : int, default=None
        The largest number of clusters.
    max_iter : int or "auto", default="auto"
        Iterations of the search. "auto" ends it when the log posterior stays flat, after 500 at the latest; with Julia
        and the reference's ratio it is 100.
    n_draws : int, default=0
        Draws of each chain after the search, by moves that leave the posterior invariant. With draws, `labels_` is the
        partition that represents them best, and `draws_` has the draws.
    thin : int, default=5
        Iterations from one draw to the next.
    n_chains : int or "auto", default="auto"
        Independent chains, side by side if the backend has several threads. Without draws the best one is the result;
        with draws they show whether the sampler has converged. "auto" is 4 with draws, and for up to 10,000 points and
        a million numbers; else 1.
    loss : {"vi", "binder"} or None, default="vi"
        The loss that the representative partition minimises, on average over draws: variation of information, or
        Binder's. It needs the labels of all draws, 4 bytes for each point and draw (in a temporary file beyond 1 GB).
        With None they are not kept: `labels_` is the best clustering of the search, and there is no `confidence_`.
    outlier_weight : float, default=0.0
        Share of a broad component that collects outliers, labelled -1; 0 for none.
    outlier_prior : a prior of the same family, default=None
        The prior of the outlier component; None is twice as wide as the data.
    backend : "auto", "native", "julia", "dask", or `Native`, `Julia`, `Dask`, default="auto"
        The built-in sampler, DPMMSubClusters.jl, or the built-in sampler on the workers of a Dask cluster. The objects
        have settings, as in `Native(n_jobs=-1)` or `Julia(workers=4)`. "auto" takes Dask for data of Dask's, and Julia
        if it is set up and supports all settings: it neither chooses a covariance type nor learns a prior, and runs
        one chain, without draws and checkpoints.
    random_state : int, RandomState or None, default=None
        Seed.
    verbose : int, default=0
        1 shows a progress bar on a terminal and in a notebook; elsewhere it prints a line every tenth iteration.

    Attributes
    ----------
    labels_ : ndarray of int32, shape (N,)
        The cluster of each row, from 0, the largest; -1 for outliers, and for rows without any value. With draws, the
        partition that represents them best. Without draws, the partition with the highest evidence of all chains; but
        if the data do not follow the model (`fit_check`), and fits to samples of the rows agree better on fewer
        clusters, these are joined (`reproducibility_`). For data on Dask, a Dask array; so is `sublabels_`.
    groups_ : ndarray of int32, shape (N,)
        The group of each row, at the suggested cut of `groups()`; computed on first use. A group joins clusters of
        `labels_` that overlap and that nothing separates, and can have any shape.
    n_clusters_ : int
        Number of clusters, without the outlier component.
    weights_ : ndarray of float64, shape (K,)
        Each cluster's share of the points.
    means_ : ndarray of float64, shape (K, D)
        For Gaussian families: the clusters' means.
    covariances_ : ndarray of float64, shape (K, D, D) or (K, D)
        For Gaussian families: the clusters' expected covariances, or variances if they are diagonal or spherical. With
        tails, the scale matrices: with nu > 2 degrees of freedom, covariances are nu / (nu - 2) times as large.
    tails_ : ndarray of float64, shape (K,)
        With tails: the most probable degrees of freedom of each cluster; infinite for a Gaussian.
    rates_ : ndarray of float64, shape (K, D)
        For the family "poisson": the clusters' expected rates, per unit of exposure.
    cluster_ids_ : ndarray of int64, shape (K,)
        The lasting ids of clusters, from one batch of `partial_fit` to the next; known clusters of `fit` have their
        labels in y. `cluster_ids_[labels_]` are the ids of rows.
    row_ids_ : ndarray of int64, shape (n,)
        After `partial_fit`: ids of the batch's rows, to be stored; `current_ids` tells their clusters later.
    history_ : list of Event
        Births, merges, splits and deaths of clusters, with their batches.
    novelty_ : ndarray of float64, shape (n,)
        After a later batch of `partial_fit`: the probability that each of its rows was in none of the earlier clusters.
    window_labels_, window_row_ids_, window_rows_ : ndarray of int
        After a later batch: labels and ids of the rows that were free before it, and their places among all rows.
    mixture_ : Mixture
        The fitted mixture, which `save` writes.
    covariance_type_ : str
        "full", "diag" or "spherical", with tails "student", "student-diag" or "student-spherical": the choice of
        "auto". For other families their name.
    subspace_ : int or None
        Dimensions of the subspace in which clusters differ; None if they may differ in all directions.
    covariance_reason_ : str
        Why this covariance type was chosen.
    alpha_ : float
        The concentration (gamma of a finite mixture) of the result; with draws, its mean.
    partition_prior_ : DirichletProcess, PitmanYor or FiniteMixture
        The prior over partitions, with the parameters of the result in `values`.
    prior_kappa_, prior_width_, prior_strength_ : float or None
        Hyperparameters of the default prior of numeric columns, learned or given; with draws, their medians. None for
        other priors.
    log_posterior_ : float
        Log posterior of the labels, up to a constant.
    log_evidence_ : float
        A lower bound of the log probability of the data under the mixture, summed over labels; for at most 20,000
        rows. It compares covariance types, and fits from different starts.
    notes_ : list of str
        Sentences about changes to the data, possible problems with the result, and remedies.
    draws_ : Draws or None
        The draws from the posterior; None without `n_draws`.
    confidence_ : ndarray of float64, shape (N,), or None
        With draws, the share of them in which each point is in its cluster.
    diagnostics_ : list of Diagnostic or None
        With draws, R-hat and effective sample sizes.
    trace_ : Trace
        A record of each iteration of the search, for the best chain.
    traces_ : list of Trace
        The traces of all chains.
    chain_agreement_ : tuple of float
        The adjusted Rand index of each other chain's best clustering with `labels_`: 1 if they are the same.
    reproducibility_ : tuple of Reproducibility
        For the clusters as they are, and joined by samples of three quarters of the rows, of half, and so on: n_rows,
        the agreement (the mean adjusted Rand index with the clusters of each sample), its standard error and
        n_clusters. Empty with draws or one chain, and if the data may well follow the model (`fit_check`).
    n_iter_ : int
        Iterations of the search.
    stopped_by_ : str
        Why the search ended: "flat", the "limit" of a `max_iter` of "auto", "max_iter", or "interrupt".
    interrupted_ : bool
        Whether Ctrl-C ended the fit.
    init_ : str
        The choice of "auto" for `init`.
    backend_ : str
        The backend of the fit: "native", "julia" or "dask".
    backend_reason_ : str
        Why this backend was used.
    startup_seconds_ : float
        The time for starting and compiling Julia and its workers, for importing torch and for reading SplitNet's
        weights.
    sublabels_ : ndarray of uint8, shape (N,)
        The half of its cluster, 0 or 1, that each point was in at the end of the search.
    n_missing_ : int
        The number of missing values.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : ndarray of str, shape (D,)
        The names of the columns, if the data have any.

    See Also
    --------
    load : Read a model that `save` has written.

    Examples
    --------
    Three groups, whose number the fit does not know:

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

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        together: Any = None,
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
        y : array of whole numbers, shape (N,), default=None
            Known clusters: labels from 0, and -1 or NaN for unknown. Rows with the same label stay together, and apart
            from those with another one; the others join them or form new clusters. Ignored if all labels are known,
            because scikit-learn passes true labels.
        sample_weight : array of float, shape (N,), default=None
            A row of weight w counts as w equal rows that stay together; weights need not be whole. Rows of weight 0 are
            left out, and labelled by `predict`.
        together : array, shape (N,), default=None
            Rows with the same value share a cluster, such as all samples of a patient; rows without a value are free.
        truth : array of labels, shape (N,), default=None
            True labels, which only add the NMI to the trace.
        progress : callable, default=None
            Called after each iteration with its number (from 1) and its record.
        on_interrupt : {"raise", "return"}, default="raise"
            Ctrl-C ends the fit after the current iteration, and the estimator keeps the result so far. "raise" then
            raises KeyboardInterrupt, so that loops and searches stop, too.

        Returns
        -------
        DPMM
            The fitted estimator itself.
        """
        check_value("on_interrupt", on_interrupt, [StrOptions({"raise", "return"})])
        self._check_parameters()
        with self._reading(X) as read:
            weights = weights_of(self, sample_weight, read)
            weighted = read.weighted(weights)
            came_as = str(getattr(X, "dtype", type(X).__name__))
            self._fit(weighted, truth, progress, came_as, constraint_of(self, y, together, weighted))
        if weights is not None and not weights.all():
            # Rows of weight 0 get the labels of new points; they are in no draw.
            rows = weights == 0
            self.labels_[rows] = self.predict(X)[rows]
            if self.confidence_ is not None:
                self.confidence_[rows] = self.predict_proba(X)[rows].max(axis=1)
        if self.interrupted_ and on_interrupt == "raise":
            raise KeyboardInterrupt("the fit was interrupted; the estimator has the result so far")
        return self

    def _reading(self, X: Any) -> AbstractContextManager[FitData]:
        """The data of a fit, checked and stored as their family needs them, for the duration of the fit."""
        backend = as_backend(self.backend)
        if backend.name != "dask" and not is_lazy(X):
            return nullcontext(read_points(self, X))
        if backend.name not in ("auto", "dask"):
            raise ValueError(f"data of Dask need the backend dask (or auto), not {backend.name}")
        check_dask_can(families_of(self.family, self.tails)[-1].name, self.n_draws, self.loss is not None)
        return on_workers(self, X, getattr(backend, "client", None))

    def _fit(
        self, read: FitData, truth: Any, progress: Progress | None, came_as: str,
        constraint: KnownBackend | TogetherBackend | None,
    ) -> None:  # fmt: skip
        """Choose the backend and the model, sample, and keep the results."""
        chosen = choose_backend(as_backend(self.backend), needs_of(self, read)._replace(known=constraint is not None))
        backend = chosen.backend
        runner: Any = backend.start(listener_of(progress, self.verbose))
        if constraint is not None:
            runner = constraint
        if backend.name == "native":
            compiling.prepare(loops_of(self, read), self.n_draws > 0)
        elif backend.name == "dask":
            read.points.prepare(loops_of(self, read), self.n_draws > 0)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        choice = choose_model(self, read, partition_prior_of(self, backend), only_full=backend.name == "julia")
        initializer, notes = initializer_of(self, choice.prior, backend)
        choice = choice._replace(notes=(*choice.notes, *notes))
        settings = run_settings(self, choice, backend, initializer, seed, truth, progress)
        with shown_progress(self.verbose if progress is None else 0, settings) as shown:
            result = runner.fit(choice.read.points, replace(settings, progress=progress or shown))
        result.startup_seconds += getattr(initializer, "loading_seconds", 0.0)
        result.trace.converted_from = None if came_as == "float32" else came_as
        resampling = NOT_RESAMPLED
        # Fits to samples of the rows would not respect a constraint.
        if constraint is None and not result.interrupted:
            resampling = resample(choice.read.points, settings, result, self.loss or LOSSES[0])
            result.interrupted = resampling.interrupted
        of_draws = keep(self, result, settings, chosen, choice, resampling)
        self._read_points = choice.read if self._streams else None
        doubts = [*doubts_about(self.mixture_, result, self.stopped_by_), *of_draws]
        if isinstance(constraint, KnownBackend):
            name_known(self, constraint.known, choice.read.present)
            doubts += classes_note(constraint.known)
        self.notes_ = [*choice.read.notes, *choice.notes, *doubts]
        for doubt in doubts:
            warn_caller(doubt)

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> IntArray:
        """Fit and return the label of each row.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (N, D)
            The points.
        y : array of int, shape (N,), default=None
            As in `fit`.
        **options
            The other arguments of `fit`.

        Returns
        -------
        ndarray of int32, shape (N,)
            `labels_`.
        """
        return self.fit(X, y, **options).labels_
