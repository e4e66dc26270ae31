"""The loop and nothing else: sweep, moves, record."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpmmwrap.arrays import IntArray
from dpmmwrap.backends import Result, Settings
from dpmmwrap.families.base import Points
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.interrupt import Interrupt
from dpmmwrap.sampler import checkpoint, sweep
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels.labels import contingency
from dpmmwrap.sampler.moves import concentration, restarts, single_points, split_merge, subclusters
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.state import RECORD, Model, State, generator, next_key
from dpmmwrap.trace import Iteration, Trace, nmi_of_table

MANY_CLUSTERS = 50
"""More first clusters than this are there to merge."""
FINAL_GREEDY_STEPS = 5
"""The last iterations make no splits or merges and take the most likely label, as the reference's do."""


EXACT_PROPOSALS, EXACT_POINTS = 6, 16
"""In some iterations of the search, so many splits and merges are proposed from two points, and so many single points
find their cluster anew."""
EXACT_WAIT, LONGEST_EXACT_WAIT = 10, 80
"""Iterations from one time to the next; the wait doubles each time that no split or merge was accepted."""


class Chain:
    """A chain over one data set."""

    def __init__(self, X: Points, settings: Settings) -> None:
        model = Model(settings.prior, settings.outlier_weight, settings.outlier_prior)
        self.context = Context(make_data(X, settings), model, settings)
        rows = self.context.data.n_rows
        labels, sublabels = np.zeros(rows, np.int32), np.zeros(rows, np.uint8)
        nothing = settings.prior.statistics(X[:0], labels[:0], 0)
        self.state = State(settings.alpha, labels, sublabels, nothing, np.zeros(0, RECORD))
        self.state.exact_due = self.state.exact_wait = EXACT_WAIT
        self.trace = Trace()
        self.rng = Generator(SFC64(SeedSequence(settings.seed)))
        self.identity: dict[str, Any] | None = None
        self.X = X
        # An outlier component has a weight of its own, which exact moves do not know; nor do they know a limit.
        free = settings.full_ratio and not model.outliers and settings.max_clusters is None
        self.exact = settings.exact_moves and self.context.data.exact and free
        self.pairs: split_merge.Pairs | None = None

    def run(self) -> Result:
        settings = self.context.settings
        if not (settings.checkpoint and checkpoint.resume(self)):
            self.begin()
        interrupted = False
        with Interrupt() as interrupt:
            while self.state.iteration < settings.max_iter and not interrupted:
                happened = self.iterate()
                self.trace.append(happened)
                if settings.progress is not None:
                    settings.progress(self.state.iteration, happened)
                interrupted = interrupt.requested and self.state.iteration < settings.max_iter
                due = self.state.iteration % settings.checkpoint_every == 0
                if settings.checkpoint and (due or interrupted or self.state.iteration == settings.max_iter):
                    checkpoint.save(self)
        labels = self.state.labels - np.int32(self.context.model.outliers)
        return Result(labels, self.state.sublabels, self.trace, interrupted)

    def begin(self) -> None:
        """First labels, first subclusters."""
        state, data = self.state, self.context.data
        labels, count = first_labels(self.context.settings.init_clusters, data.n_rows, self.rng)
        first = self.context.model.outliers
        state.labels[:] = labels + first
        count += first
        counts = np.bincount(state.labels, minlength=count).astype(np.float64)
        state.records = state.new_records(count)
        members = data.members(state, np.arange(count), counts)
        # Many are there to merge: good starts for all of them would cost more than the first hundred sweeps.
        at_random = np.full(count, count > MANY_CLUSTERS)
        state.subclusters = start_subclusters(state, self.context, members, at_random, generator(next_key(self.rng)))
        state.posteriors = data.compute_posteriors(self.context.model, state.subclusters)

    def iterate(self) -> Iteration:
        """One iteration: restricted Gibbs, then splits and merges."""
        begun = time.perf_counter()
        context, state, rng = self.context, self.state, self.rng
        state.iteration += 1
        greedy = state.iteration > context.settings.max_iter - FINAL_GREEDY_STEPS
        state, swept = sweep.step(next_key(rng), state, context, greedy)
        exact = split_merge.SplitMergeInfo()
        if greedy:
            state, moves = subclusters.close_ranks(next_key(rng), state, context)
        else:
            state, moves = subclusters.step(next_key(rng), state, context, swept)
            if state.iteration % restarts.EVERY == 0:
                state, _ = restarts.step(next_key(rng), state, context)
            if self.exact and state.iteration >= state.exact_due:
                state, exact = self.exact_moves(state)
            if context.settings.alpha_prior is not None:
                state, _ = concentration.step(next_key(rng), state, context)
        self.state = state
        return Iteration(
            n_clusters=state.n_clusters - context.model.outliers,
            log_posterior=state.log_posterior,
            seconds=time.perf_counter() - begun,
            splits=len(moves.splits) + exact.splits,
            splits_proposed=moves.splits_proposed + exact.splits_proposed,
            merges=len(moves.absorbed) + exact.merges,
            merges_proposed=moves.merges_proposed + exact.merges_proposed,
            nmi=self.nmi(),
            alpha=state.alpha,
        )

    def exact_moves(self, state: State) -> tuple[State, split_merge.SplitMergeInfo]:
        """Splits and merges that grow from two points, and single points: they leave traps that halves do not."""
        if self.pairs is None:
            self.pairs = split_merge.Pairs.of(self.context.data, self.context.model.prior.embedder(self.X))
        state, info = split_merge.step(next_key(self.rng), state, self.context, self.pairs, EXACT_PROPOSALS)
        state, _ = single_points.step(next_key(self.rng), state, self.context, EXACT_POINTS)
        rewarded = info.splits + info.merges > 0
        state.exact_wait = EXACT_WAIT if rewarded else min(2 * state.exact_wait, LONGEST_EXACT_WAIT)
        state.exact_due = state.iteration + state.exact_wait
        return state, info

    def nmi(self) -> float:
        truth = self.context.settings.truth
        if truth is None:
            return float("nan")
        table = np.zeros((int(truth.max()) + 1, self.state.n_clusters), np.int64)
        contingency(truth, self.state.labels, table)
        return nmi_of_table(table)


def make_data(X: Points, settings: Settings) -> Data:
    """The points with the loops of their family; what a family does not use is not even imported."""
    if isinstance(settings.prior, NIW):
        from dpmmwrap.sampler.whitened import WhitenedData

        return WhitenedData(X, settings.n_jobs)
    from dpmmwrap.sampler.linear import LinearData

    return LinearData(X, settings.prior, settings.n_jobs)


def first_labels(init_clusters: int | IntArray, rows: int, rng: Generator) -> tuple[IntArray, int]:
    """Labels to begin with, from 0 without gaps, and how many there are."""
    if isinstance(init_clusters, (int, np.integer)):
        init_clusters = rng.integers(0, int(init_clusters), rows, dtype=np.int32)
    present = np.bincount(init_clusters) > 0
    return (np.cumsum(present, dtype=np.int32) - 1)[init_clusters], int(present.sum())
