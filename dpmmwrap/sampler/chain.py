"""The main loop of a chain: sweep, moves, record."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpmmwrap.families.base import Model, Points
from dpmmwrap.numerics.agreement import nmi_of_table
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.sampler import checkpoint, sampling, sweep
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kept import KeptData
from dpmmwrap.sampler.moves import exact as exact_moves
from dpmmwrap.sampler.moves import hyperparameters, partition_prior, restarts, subclusters
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.moves.split_merge import SplitMergeInfo
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.record import Record
from dpmmwrap.sampler.settings import Settings, has_few_numbers
from dpmmwrap.sampler.state import RECORD, Best, State, generator, next_key
from dpmmwrap.sampler.stopping import is_flat
from dpmmwrap.sampler.trace import Iteration, Trace

MANY_CLUSTERS = 50
"""With more initial clusters than this, most of them are there to be merged."""
EARLY = 20
"""First iterations of a search of unknown length, whose clusterings are not worth a copy."""
LEARN_AFTER, LEARN_EVERY = 20, 5
"""The iteration from which the search learns the prior, when most clusters exist, and the interval from then on."""


class Chain:
    """A chain over one data set: a search, followed by draws from the posterior if any are requested."""

    def __init__(self, X: Points, settings: Settings, number: int = 0, labels: IntArray | None = None) -> None:
        """`number` is the index of the chain; the labels of its draws are written to `labels` (draws, N)."""
        # Remote points come with their own loops.
        data = X.data_of_chain(number, settings) if is_remote(X) else make_data(X, settings)
        self.problem = Problem(data, settings, X, number)
        self.state = first_state(self.problem, labels)

    @property
    def log_posterior(self) -> float:
        """The log posterior of the current state of the search."""
        return self.problem.log_posterior(self.state, self.state.known.log_marginal)

    def run(self, interrupt: Interrupt | None = None) -> ChainResult:
        """Search, then sample. The first interrupt ends the run after the current iteration."""
        settings, interrupt, state = self.problem.settings, interrupt or Interrupt(), self.state
        if settings.n_draws and not self.problem.data.exact:
            raise ValueError(f"the family {settings.prior.family} does not support draws from the posterior")
        if not (settings.checkpoint and checkpoint.resume(state, self.problem)):
            self.begin()
        self.search(interrupt)
        if settings.n_draws and state.iteration == state.last:
            self.sample(interrupt)
        whole = state.iteration == state.last and len(state.record) == settings.n_draws
        return self.result(interrupted=not whole)

    def begin(self) -> None:
        """Set the initial labels and subclusters."""
        state, problem = self.state, self.problem
        data, settings, outliers = problem.data, problem.settings, problem.outliers
        first, others = settings.init_clusters, settings.other_starts
        if problem.number % 2 and others:
            first = others[problem.number // 2 % len(others)]
        drawn = isinstance(first, (int, np.integer)) and first > 1
        counts = data.begin_labels(state, first, next_key(state.rng) if drawn else np.uint64(0))
        # Number the clusters without gaps, after the outliers.
        present = counts > 0
        data.map_labels(state, np.cumsum(present, dtype=np.int32) - 1 + outliers)
        state.n_clusters = count = int(present.sum()) + outliers
        state.records = state.new_records(count)
        # Many clusters are there to be merged: good starts for all would cost more than the first hundred sweeps.
        at_random = np.full(count, count > MANY_CLUSTERS)
        rng = generator(next_key(state.rng))
        state.subclusters = start_subclusters(state, problem, np.arange(count), at_random, rng)
        data.update_posteriors(state)

    def search(self, interrupt: Interrupt) -> None:
        settings, state = self.problem.settings, self.state
        while state.iteration < state.last and not interrupt.requested:
            happened = self.iterate()
            state.trace.append(happened)
            self.keep_best(happened.log_posterior)
            self.problem.data.end_iteration(state.iteration)
            self.report(state.iteration, happened)
            if (
                settings.stop_when_flat
                and state.last == settings.max_iter
                and is_flat(state.trace, settings.flat_window)
            ):
                state.last = min(state.last, state.iteration + settings.greedy_steps)
            self.save_if_due(state.iteration, interrupt.requested or state.iteration == state.last)

    def iterate(self) -> Iteration:
        """One iteration of the search: restricted Gibbs, then splits and merges."""
        begun = time.perf_counter()
        state, problem, exact = self.state, self.problem, SplitMergeInfo()
        rng, settings = state.rng, problem.settings
        state.iteration += 1
        greedy = problem.is_greedy(state)
        state, _ = sweep.step(next_key(rng), state, problem)
        if not greedy and not settings.full_ratio:
            state, _ = restarts.step(next_key(rng), state, problem)
        state, moves = subclusters.step(next_key(rng), state, problem)
        if not greedy:
            if settings.full_ratio and state.iteration % restarts.EVERY == 0:
                state, _ = restarts.step(next_key(rng), state, problem)
            if problem.exact and state.iteration >= state.exact_due:
                state, exact = exact_moves.step(next_key(rng), state, problem)
            if settings.partition_prior.learned:
                state, _ = partition_prior.step(next_key(rng), state, problem)
        # A single cluster would teach the prior that all clusters are as wide as the data.
        if settings.hyperprior is not None and state.n_clusters - problem.outliers > 1:
            if greedy:
                state, _ = hyperparameters.step(None, state, problem)
            elif state.iteration >= LEARN_AFTER and state.iteration % LEARN_EVERY == 0:
                state, _ = hyperparameters.step(next_key(rng), state, problem)
        self.state = state
        return Iteration(
            n_clusters=state.n_clusters - problem.outliers,
            log_posterior=self.log_posterior,
            seconds=time.perf_counter() - begun,
            splits=len(moves.splits) + exact.splits,
            splits_proposed=moves.splits_proposed + exact.splits_proposed,
            merges=len(moves.absorbed) + exact.merges,
            merges_proposed=moves.merges_proposed + exact.merges_proposed,
            nmi=self.nmi(),
            alpha=state.alpha,
        )

    def keep_best(self, log_posterior: float) -> None:
        """Store the current clustering if it is the best so far. Early ones are not worth a copy."""
        settings, state, data = self.problem.settings, self.state, self.problem.data
        if state.iteration < (EARLY if settings.stop_when_flat else settings.max_iter / 2):
            return
        if state.best is None or log_posterior > state.best.log_posterior:
            state.best = data.best_of(state, log_posterior)
        if settings.refine and not is_remote(self.problem.X) and has_few_numbers(self.problem.X):
            known = state.best_of_size.get(state.n_clusters)
            if known is None or log_posterior > known.log_posterior:
                state.best_of_size[state.n_clusters] = data.best_of(state, log_posterior)

    def report(self, number: int, happened: Iteration) -> None:
        progress = self.problem.settings.progress
        if progress is not None:
            progress(number, happened)

    def save_if_due(self, number: int, last: bool) -> None:
        settings = self.problem.settings
        if settings.checkpoint and (last or number % settings.checkpoint_every == 0):
            checkpoint.save(self.state, self.problem)

    def sample(self, interrupt: Interrupt) -> None:
        """Draw from the posterior, starting where the search ended."""
        state, problem, settings = self.state, self.problem, self.problem.settings
        sampling.begin(state, problem)
        first, total = settings.warm_up, settings.total_iterations - settings.max_iter
        while state.sampled < total and not interrupt.requested:
            begun = time.perf_counter()
            state, moves = sampling.step(next_key(state.rng), state, problem)
            state.sampled += 1
            if settings.hyperprior is not None and state.sampled % LEARN_EVERY == 0:
                state, _ = hyperparameters.step(next_key(state.rng), state, problem)
            problem.data.end_iteration(settings.max_iter + state.sampled)
            state.record.moved += moves
            if state.sampled == first:
                state.record.moved[:] = 0
            due = state.sampled > first and (state.sampled - first) % settings.thin == 0
            if due:
                sample = sampling.look(state, problem)
                state.record.append(sample, state.labels, problem.outliers)
                seconds, moves = time.perf_counter() - begun, state.record.moves[-1]
                alpha = sample.partition_prior.alpha
                happened = Iteration(sample.n_clusters, sample.log_posterior, seconds, *moves, alpha=alpha)
                self.report(settings.max_iter + state.sampled, happened)
            last = interrupt.requested or state.sampled == total
            if due or last:
                self.save_if_due(len(state.record), last)

    def result(self, interrupted: bool) -> ChainResult:
        state, best = self.state, self.state.best
        if best is None:
            # Interrupted early, perhaps before the first iteration.
            best = self.problem.data.best_of(state, self.log_posterior)
        outliers = np.int32(self.problem.outliers)
        best = best._replace(labels=best.labels - outliers)
        if best.kept_labels is not None:
            best = best._replace(kept_labels=best.kept_labels - outliers)
        return ChainResult(best, state.trace, state.record, interrupted, [*state.best_of_size.values()] or [best])

    def nmi(self) -> float:
        truth = self.problem.settings.truth
        if truth is None:
            return float("nan")
        return nmi_of_table(self.problem.data.table_with(self.state, truth))


def first_state(problem: Problem, labels: IntArray | None = None) -> State:
    """The state of a chain before its initial labels."""
    settings, data, number = problem.settings, problem.data, problem.number
    model = Model(settings.prior, settings.outlier_weight, settings.outlier_prior)
    # Remote points keep their labels with them.
    rows = 0 if is_remote(problem.X) else data.n_rows
    seeds = SeedSequence(settings.seed, spawn_key=(number,) if number else ())
    return State(
        model, settings.partition_prior, np.zeros(rows, np.int32), np.zeros(rows, np.uint8), data.nothing(model),
        np.zeros(0, RECORD), Generator(SFC64(seeds)), last=settings.max_iter, exact_due=exact_moves.SHORTEST_WAIT,
        exact_wait=exact_moves.SHORTEST_WAIT, record=Record(labels),
    )  # fmt: skip


class ChainResult(NamedTuple):
    """The outcome of one chain."""

    best: Best
    trace: Trace
    record: Record
    interrupted: bool
    candidates: list[Best]
    """The best clustering for each number of clusters, or the best one alone."""


def make_data(X: Points, settings: Settings) -> Data:
    """Wrap the points with the loops of their family."""
    prior, kept = settings.prior, settings.kept
    if kept is None:
        return Data(prior.points(X, settings.n_jobs, weights=settings.weights))
    missing = True if kept.counts_observed else None
    return KeptData(prior.points(X, settings.n_jobs, missing=missing, weights=settings.weights), kept)
