"""The loop and nothing else: sweep, moves, record."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpmmwrap.families.base import Model, Points, Prior
from dpmmwrap.numerics.agreement import nmi_of_table
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.cells import Embedder, is_remote
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.sampler import checkpoint, sampling, sweep
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.moves import exact as exact_moves
from dpmmwrap.sampler.moves import hyperparameters, partition_prior, restarts, single_points, split_merge, subclusters
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.partition import Partition, partition_of
from dpmmwrap.sampler.record import Record
from dpmmwrap.sampler.settings import Settings, has_few_numbers
from dpmmwrap.sampler.state import RECORD, Best, State, generator, next_key
from dpmmwrap.sampler.stopping import GREEDY_STEPS, is_flat
from dpmmwrap.sampler.trace import Iteration, Trace

MANY_CLUSTERS = 50
"""More first clusters than this are there to merge."""
EARLY = 20
"""Iterations of a search of unknown length whose clusterings are not worth a copy."""
EXACT_PROPOSALS, EXACT_POINTS = 20, 32
"""In some iterations of the search, so many splits and merges are proposed from two points, and so many single points
find their cluster anew."""
LEARN_AFTER, LEARN_EVERY = 20, 5
"""The search learns the prior from this iteration on, when most clusters are there, and every so many."""
EXACT_WAIT, LONGEST_EXACT_WAIT = 2, 16
"""Iterations from one time to the next; the wait doubles each time that no split or merge was accepted."""


class Chain:
    """A chain over one data set: a search, and then draws from the posterior if they are asked for."""

    def __init__(self, X: Points, settings: Settings, number: int = 0, labels: IntArray | None = None) -> None:
        """`number` is the chain's among several; the labels of its draws are written to `labels` (draws, N)."""
        model = Model(settings.prior, settings.outlier_weight, settings.outlier_prior)
        # Points that are elsewhere bring their own loops.
        data = X.data_of_chain(number, settings) if is_remote(X) else make_data(X, settings)
        self.context = Context(data, model, settings)
        rows = 0 if is_remote(X) else data.n_rows
        first, sides = np.zeros(rows, np.int32), np.zeros(rows, np.uint8)
        self.state = State(settings.partition_prior, first, sides, data.nothing(model), np.zeros(0, RECORD))
        self.state.exact_due = self.state.exact_wait = EXACT_WAIT
        self.number = number
        self.last = settings.max_iter
        """The last iteration of the search; brought forward when it is flat."""
        self.trace = Trace()
        self.rng = Generator(SFC64(SeedSequence(settings.seed, spawn_key=(number,) if number else ())))
        self.identity: dict[str, Any] | None = None
        self.X = X
        self.exact = settings.exact_moves and settings.full_ratio and self.context.data.exact
        self._tools: split_merge.Tools | None = None
        self.best: Best | None = None
        self.best_of_size: dict[int, Best] = {}
        """The best clustering that was met with each number of clusters, where they are compared at the end."""
        self.partition: Partition | None = None
        self.founders = single_points.NO_FOUNDERS
        self.sampled = 0
        """Iterations of sampling."""
        self.record = Record(labels)

    @property
    def embed(self) -> Embedder:
        """Coordinates in which points are near each other."""
        return self.context.model.prior.embedder(self.X)

    @property
    def tools(self) -> split_merge.Tools:
        """What split and merge moves need, made when they are first asked for."""
        if self._tools is None:
            self._tools = split_merge.Tools.of(self.context, self.embed)
        return self._tools

    @property
    def log_posterior(self) -> float:
        """Of the search's state."""
        return self.context.log_posterior(self.state.partition_prior, self.state.counts, self.state.known.log_marginal)

    def run(self, interrupt: Interrupt | None = None) -> ChainResult:
        """Search, then sample; the first interrupt ends it after the current iteration."""
        settings, interrupt = self.context.settings, interrupt or Interrupt()
        if settings.n_draws and not self.context.data.exact:
            raise ValueError(f"draws from the posterior are not known for the family {self.context.model.prior.family}")
        if not (settings.checkpoint and checkpoint.resume(self)):
            self.begin()
        self.search(interrupt)
        if settings.n_draws and self.state.iteration == self.last:
            self.sample(interrupt)
        whole = self.state.iteration == self.last and len(self.record) == settings.n_draws
        return self.result(interrupted=not whole)

    def search(self, interrupt: Interrupt) -> None:
        settings = self.context.settings
        while self.state.iteration < self.last and not interrupt.requested:
            happened = self.iterate()
            self.trace.append(happened)
            self.keep_best(happened.log_posterior)
            self.context.data.end_iteration(self.state.iteration)
            self.report(self.state.iteration, happened)
            if settings.stop_when_flat and self.last == settings.max_iter and is_flat(self.trace):
                self.last = min(self.last, self.state.iteration + self.greedy_steps)
            self.save_if_due(self.state.iteration, interrupt.requested or self.state.iteration == self.last)

    @property
    def greedy_steps(self) -> int:
        """Iterations at the end of the search that take the most likely labels; none before draws."""
        return 0 if self.context.settings.n_draws else GREEDY_STEPS

    @property
    def is_greedy(self) -> bool:
        """Whether this iteration is one of them."""
        return self.state.iteration > self.last - self.greedy_steps

    def keep_best(self, log_posterior: float) -> None:
        """Remember the present clustering if none was better. Those at the beginning are not worth a copy."""
        settings = self.context.settings
        late = self.state.iteration >= (EARLY if settings.stop_when_flat else settings.max_iter / 2)
        if late and (self.best is None or log_posterior > self.best.log_posterior):
            self.best = self.context.data.best_of(self.state, log_posterior, self.context.model.prior)
        if late and settings.refine and not is_remote(self.X) and has_few_numbers(self.X):
            known = self.best_of_size.get(self.state.n_clusters)
            if known is None or log_posterior > known.log_posterior:
                found = self.context.data.best_of(self.state, log_posterior, self.context.model.prior)
                self.best_of_size[self.state.n_clusters] = found

    def report(self, number: int, happened: Iteration) -> None:
        progress = self.context.settings.progress
        if progress is not None:
            progress(number, happened)

    def save_if_due(self, number: int, last: bool) -> None:
        settings = self.context.settings
        if settings.checkpoint and (last or number % settings.checkpoint_every == 0):
            checkpoint.save(self)

    def sample(self, interrupt: Interrupt) -> None:
        """Draws from the posterior, from where the search has ended."""
        settings, state = self.context.settings, self.state
        if self.partition is None:
            self.partition = partition_of(self.context, state.partition_prior, state.labels, state.known.clusters)
            self.founders = single_points.likely_founders(next_key(self.rng), self.partition, self.context)
        tools = self.tools.with_founders(self.founders, self.context, self.embed)
        first, total = settings.warm_up, settings.total_iterations - settings.max_iter
        while self.sampled < total and not interrupt.requested:
            begun = time.perf_counter()
            key = next_key(self.rng)
            self.partition, moves = sampling.step(key, self.partition, self.context, tools, self.founders)
            self.sampled += 1
            if self.sampled % LEARN_EVERY == 0 and self.learn_prior_of(self.partition):
                tools = tools.with_context(self.context)
            self.context.data.end_iteration(settings.max_iter + self.sampled)
            self.record.moved += moves
            if self.sampled == first:
                self.record.moved[:] = 0
            due = self.sampled > first and (self.sampled - first) % settings.thin == 0
            if due:
                sample = sampling.look(self.partition, self.context)
                self.record.append(sample, self.partition.labels, self.context.model.outliers)
                seconds, moves = time.perf_counter() - begun, self.record.moves[-1]
                alpha = sample.partition_prior.alpha
                happened = Iteration(sample.n_clusters, sample.log_posterior, seconds, *moves, alpha=alpha)
                self.report(settings.max_iter + self.sampled, happened)
            last = interrupt.requested or self.sampled == total
            if due or last:
                self.save_if_due(len(self.record), last)

    def result(self, interrupted: bool) -> ChainResult:
        outliers = np.int32(self.context.model.outliers)
        best = self.best
        if best is None:
            # Interrupted early, perhaps before the first iteration.
            best = self.context.data.best_of(self.state, self.log_posterior, self.context.model.prior)
        best = best._replace(labels=best.labels - outliers)
        return ChainResult(best, self.trace, self.record, interrupted, [*self.best_of_size.values()] or [best])

    def begin(self) -> None:
        """First labels, first subclusters."""
        state, data = self.state, self.context.data
        settings = self.context.settings
        first, others = settings.init_clusters, settings.other_starts
        if self.number % 2 and others:
            first = others[self.number // 2 % len(others)]
        drawn = isinstance(first, (int, np.integer)) and first > 1
        found = data.begin_labels(state, first, next_key(self.rng) if drawn else np.uint64(0))
        # From 0 without gaps, after the outliers.
        present = found > 0
        outliers = self.context.model.outliers
        data.map_labels(state, np.cumsum(present, dtype=np.int32) - 1 + outliers)
        count = int(present.sum()) + outliers
        state.records = state.new_records(count)
        # Many are there to merge: good starts for all of them would cost more than the first hundred sweeps.
        at_random = np.full(count, count > MANY_CLUSTERS)
        rng = generator(next_key(self.rng))
        state.subclusters = start_subclusters(state, self.context, np.arange(count), at_random, rng)
        state.posteriors = data.compute_posteriors(self.context.model, state.subclusters)

    def iterate(self) -> Iteration:
        """One iteration: restricted Gibbs, then splits and merges."""
        begun = time.perf_counter()
        context, state, rng = self.context, self.state, self.rng
        state.iteration += 1
        settings = context.settings
        state, swept = sweep.step(next_key(rng), state, context, self.is_greedy)
        exact = split_merge.SplitMergeInfo()
        if self.is_greedy:
            state, moves = subclusters.close_ranks(next_key(rng), state, context)
            self.learn_prior(state)
        else:
            state, moves = subclusters.step(next_key(rng), state, context, swept)
            if state.iteration % restarts.EVERY == 0:
                state, _ = restarts.step(next_key(rng), state, context)
            if self.exact and state.iteration >= state.exact_due:
                state, exact = self.exact_moves(state)
            if settings.partition_prior.learned:
                state = partition_prior.step(next_key(rng), state, context)
            if state.iteration >= LEARN_AFTER and state.iteration % LEARN_EVERY == 0:
                self.learn_prior(state)
        self.state = state
        return Iteration(
            n_clusters=state.n_clusters - context.model.outliers,
            log_posterior=self.log_posterior,
            seconds=time.perf_counter() - begun,
            splits=len(moves.splits) + exact.splits,
            splits_proposed=moves.splits_proposed + exact.splits_proposed,
            merges=len(moves.absorbed) + exact.merges,
            merges_proposed=moves.merges_proposed + exact.merges_proposed,
            nmi=self.nmi(),
            alpha=state.alpha,
        )

    def exact_moves(self, state: State) -> tuple[State, split_merge.SplitMergeInfo]:
        """Splits and merges that grow from two points, and single points: the less often, the less they change."""
        key = next_key(self.rng)
        state, info = exact_moves.step(key, state, self.context, self.tools, EXACT_PROPOSALS, EXACT_POINTS)
        rewarded = info.splits + info.merges > 0
        state.exact_wait = EXACT_WAIT if rewarded else min(2 * state.exact_wait, LONGEST_EXACT_WAIT)
        state.exact_due = state.iteration + state.exact_wait
        return state, info

    def learn_prior(self, state: State) -> None:
        """The prior given the clusters; one alone would say that all are as wide as the data."""
        context = self.context
        if context.settings.hyperprior is None or state.n_clusters - context.model.outliers < 2:
            return
        clusters = state.known.clusters
        if self.is_greedy:
            self.use_prior(hyperparameters.climb(context, clusters))
        else:
            self.use_prior(hyperparameters.step(next_key(self.rng), context, clusters))
        state.posteriors = context.data.compute_posteriors(self.context.model, state.subclusters)

    def learn_prior_of(self, partition: Partition) -> bool:
        """The same while draws are made; whether it has changed."""
        context = self.context
        if context.settings.hyperprior is None:
            return False
        clusters = context.data.statistics_of(context.model, partition)
        self.use_prior(hyperparameters.step(next_key(self.rng), context, clusters))
        places = len(partition.clusters.counts) - 1
        partition.clusters = context.data.collapsed(self.context.model, clusters, places)
        return True

    def use_prior(self, prior: Prior) -> None:
        """Go on with another prior."""
        self.context = self.context._replace(model=replace(self.context.model, prior=prior))
        if self._tools is not None:
            self._tools = self._tools.with_context(self.context)

    def nmi(self) -> float:
        truth = self.context.settings.truth
        if truth is None:
            return float("nan")
        return nmi_of_table(self.context.data.table_with(self.state, truth))


class ChainResult(NamedTuple):
    """What one chain has found."""

    best: Best
    trace: Trace
    record: Record
    interrupted: bool
    candidates: list[Best]
    """The best of each number of clusters, or the best alone."""


def make_data(X: Points, settings: Settings) -> Data:
    """The points with the loops of their family."""
    return Data(settings.prior.points(X, settings.n_jobs))
