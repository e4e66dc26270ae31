"""The state and the loop: Gibbs, splits, merges, checkpoints."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.backends import Result, Settings
from dpmmwrap.backends.native import bookkeeping, checkpoint, kernels
from dpmmwrap.backends.native.gibbs import (
    Evidence,
    Model,
    Points,
    draw_parameters,
    log_posterior,
    measure,
)
from dpmmwrap.backends.native.moves import accepted_splits, disjoint, likely_merges, split_ratios
from dpmmwrap.backends.native.state import RECORD, State
from dpmmwrap.interrupt import Interrupt
from dpmmwrap.prior import Statistics, concatenate
from dpmmwrap.subclusters.random import RandomStart
from dpmmwrap.trace import Iteration, Trace, nmi_of_table

CROWD = 50
"""More first clusters than this are there to merge."""
STRAY = 10
"""A split that sets fewer points aside leaves the rest of the cluster as it was: a coin starts both, not a search."""
RESTART_EVERY = 20
"""Subclusters begin anew in every twentieth iteration only, so that one call of a network serves several clusters."""
LONGEST_PATIENCE = 16
"""The wait for a fresh start doubles with each that led nowhere, up to so many times."""
SETTLE = 5
"""The last iterations make no splits or merges and take the most likely label, as the reference's do."""


class NativeBackend:
    """The built-in sampler."""

    name = "native"

    def fit(self, X: Float32Array, settings: Settings) -> Result:
        settings.bind(X, settings.full_ratio)
        chain = Chain(X, settings)
        try:
            return chain.run()
        finally:
            chain.points.close()


class Chain:
    """A chain over one data set."""

    def __init__(self, X: Float32Array, settings: Settings) -> None:
        self.settings = settings
        self.model = Model(settings.alpha, settings.prior, settings.outlier_weight, settings.outlier_prior)
        labels = np.zeros(len(X), np.int32)
        self.points = Points(X, labels, np.zeros(len(X), np.uint8), settings.n_jobs)
        self.trace = Trace()
        self.key = SeedSequence(settings.seed).generate_state(1, np.uint64)[0]
        self.generator = Generator(SFC64(0))
        self.evidence: Evidence
        """What the state's statistics say; measured again whenever they change."""
        self.identity: dict[str, Any] | None = None
        self.state = State(Statistics.of(X[:0], n_clusters=0), np.zeros(0, RECORD))

    def run(self) -> Result:
        settings, points = self.settings, self.points
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
        labels = points.labels - np.int32(self.model.outliers)
        return Result(labels, points.sublabels, self.trace, interrupted)

    def randomness(self, iteration: int) -> tuple[Generator, np.uint64]:
        """The random numbers of an iteration: a generator for clusters, a key for points. Nothing to store."""
        words = kernels.random_words(self.key, iteration)
        # Setting the state is ten times as fast as a new generator, seeded.
        state = {"bit_generator": "SFC64", "state": {"state": words[:4]}, "has_uint32": 0, "uinteger": 0}
        self.generator.bit_generator.state = state
        return self.generator, words[4]

    def begin(self) -> None:
        """First labels, first subclusters."""
        rng, _ = self.randomness(0)
        labels, count = first_labels(self.settings.init_clusters, len(self.points.X), rng)
        first = self.model.outliers
        self.points.labels[:] = labels + first
        count += first
        counts = np.bincount(self.points.labels, minlength=count).astype(np.float64)
        self.state.records = self.state.new_records(count)
        members = self.points.members(np.arange(count), counts)
        # A crowd is there to merge: good starts for all of it would cost more than the first hundred sweeps.
        by_coin = np.full(count, count > CROWD)
        self.state.subclusters = self.start(members, self.near(members), by_coin, rng)
        self.evidence = measure(self.model, self.state.subclusters)

    def near(self, members: list[IntArray]) -> Float64Array:
        """A point of each cluster (any will do), about which sums are taken."""
        X = self.points.X
        rows = [X[rows[0]] if len(rows) else X[0] for rows in members]
        return np.asarray(rows, dtype=np.float64)

    def start(self, members: list[IntArray], origins: Float64Array, by_coin: Any, rng: Generator) -> Statistics:
        """Subclusters for these clusters, by the initializer or by a coin; the subclusters' statistics."""
        sides = [np.zeros(len(rows), np.uint8) for rows in members]
        for initializer, chosen in ((RandomStart(), by_coin), (self.settings.initializer, ~by_coin)):
            several = [number for number in np.flatnonzero(chosen) if len(members[number]) > 1]
            proposed = initializer([members[number] for number in several], rng) if several else []
            for number, found in zip(several, proposed, strict=True):
                sides[number] = np.asarray(found, np.uint8)
        return self.points.set_sublabels(members, sides, origins)

    def iterate(self) -> Iteration:
        """One iteration: restricted Gibbs, then splits, then merges."""
        begun = time.perf_counter()
        settings, state, model = self.settings, self.state, self.model
        state.iteration += 1
        settling = state.iteration > settings.max_iter - SETTLE
        rng, key = self.randomness(state.iteration)
        parameters = draw_parameters(model, self.evidence, rng)
        state.subclusters, state.records["log_chance"] = self.points.sweep(parameters, key, settling)
        state.records["swept_as"] = np.arange(state.n_clusters)
        self.evidence = measure(model, state.subclusters)
        self.drop_empty()
        splits = merges = (0, 0)
        if not settling:
            if state.iteration % RESTART_EVERY == 0:
                self.restart(rng)
            splits = self.split(rng)
            merges = self.merge(rng)
        return Iteration(
            n_clusters=state.n_clusters - model.outliers,
            log_posterior=log_posterior(model, self.evidence),
            seconds=time.perf_counter() - begun,
            splits=splits[0],
            splits_proposed=splits[1],
            merges=merges[0],
            merges_proposed=merges[1],
            nmi=self.nmi(),
        )

    def nmi(self) -> float:
        if self.settings.truth is None:
            return float("nan")
        truth = self.settings.truth
        table = np.zeros((int(truth.max()) + 1, self.state.n_clusters), np.int64)
        bookkeeping.contingency(truth, self.points.labels, table)
        return nmi_of_table(table)

    def drop_empty(self) -> None:
        """Clusters without points leave; the others close ranks."""
        counts = self.evidence.clusters.counts
        if counts[self.model.outliers :].min(initial=1) == 0:
            keep = counts > 0
            keep[: self.model.outliers] = True
            self.relabel(np.cumsum(keep) - 1, keep)
            self.evidence = measure(self.model, self.state.subclusters)

    def relabel(self, to_label: IntArray, keep: Any) -> None:
        """Renumber whole clusters."""
        table = np.repeat(to_label.astype(np.int32)[:, None], 2, axis=1)
        self.points.relabel(table, same_sides(len(to_label)))
        self.state.keep(keep)

    def restart(self, rng: Generator) -> None:
        """Begin anew the subclusters that have an empty side, or that have settled in a rejected split.

        They have settled when the ratio of their split has not risen for a while: those that are still on their way,
        as after random starts, are left alone. Most clusters that need a start again and again are one Gaussian.
        """
        state, records, evidence = self.state, self.state.records, self.evidence
        state.watch(self.split_ratios())
        one_sided = (evidence.sides == 0).any(axis=1)
        patience = np.where(one_sided, RESTART_EVERY, self.settings.fresh_start_after or np.inf)
        patience = patience * np.minimum(2.0 ** records["failures"], LONGEST_PATIENCE)
        chosen = (state.iteration - records["risen"] >= patience) & (evidence.clusters.counts > 1)
        chosen &= one_sided | (state.iteration - records["begun"] > self.settings.burnout)
        chosen[: self.model.outliers] = False
        if chosen.any():
            which = np.flatnonzero(chosen)
            members = self.points.members(which, evidence.clusters.counts)
            fresh = self.start(members, evidence.clusters.means[which], np.zeros(len(which), bool), rng)
            state.replace(which, fresh)
            state.begin_subclusters(which)
            self.evidence = measure(self.model, state.subclusters)

    def split_ratios(self) -> Float64Array:
        """log H of splitting each cluster into its subclusters."""
        ratios = split_ratios(self.model, self.evidence)
        return ratios - self.state.records["log_chance"] if self.settings.full_ratio else ratios

    def split(self, rng: Generator) -> tuple[int, int]:
        """Propose to split every cluster whose subclusters are old enough; how many were accepted and proposed."""
        state, settings, evidence, first = self.state, self.settings, self.evidence, self.model.outliers
        count = state.n_clusters
        ratios, least = self.split_ratios(), -rng.standard_exponential(count)
        latest = state.iteration - settings.burnout
        left, proposed = accepted_splits(ratios[first:], state.records["begun"][first:], latest, least[first:])
        left += first
        if settings.max_clusters is not None:
            room = max(settings.max_clusters - (count - first), 0)
            left = np.sort(left[np.argsort(-ratios[left], kind="stable")[:room]])
        if not len(left):
            return 0, proposed
        right = count + np.arange(len(left))
        table = np.repeat(np.arange(count, dtype=np.int32)[:, None], 2, axis=1)
        table[left, 1] = right
        self.points.relabel(table, same_sides(count))
        born = np.concatenate([left, right])
        halves = concatenate([state.subclusters[2 * left], state.subclusters[2 * left + 1]])
        state.records[left] = state.new_records(len(left))
        state.records = np.append(state.records, state.new_records(len(left)))
        counts = np.append(evidence.clusters.counts, halves.counts[len(left) :])
        counts[left] = halves.counts[: len(left)]
        members = self.points.members(born, counts)
        by_coin = np.tile(halves.counts.reshape(2, -1).min(axis=0) < STRAY, 2)
        fresh = self.start(members, halves.means, by_coin, rng)
        state.subclusters = concatenate([state.subclusters, fresh[2 * len(left) :]])
        state.replace(left, fresh[: 2 * len(left)])
        self.evidence = measure(self.model, state.subclusters)
        return len(left), proposed

    def merge(self, rng: Generator) -> tuple[int, int]:
        """Propose to merge every two clusters that are old enough; how many were accepted and proposed.

        The two become the subclusters of the merged cluster, so that the way back stays open.
        """
        state, settings, evidence, first = self.state, self.settings, self.evidence, self.model.outliers
        count = state.n_clusters
        candidates = first + np.flatnonzero(state.records["formed"][first:] <= state.iteration - settings.burnout)
        proposed = len(candidates) * (len(candidates) - 1) // 2
        if not proposed:
            return 0, 0
        least = -rng.standard_exponential(proposed)
        one, other, lead = likely_merges(self.model, evidence, candidates, settings.merge_ratio, least)
        if not len(one):
            return 0, proposed
        if self.settings.full_ratio:
            # As yet the chance that the split back would come up just so has been taken for 1.
            swept_as = state.records["swept_as"]
            lead = lead + self.points.log_partings(swept_as[one], swept_as[other], -lead)
            if lead.max() <= 0:
                return 0, proposed
        chosen = disjoint(one[lead > 0], other[lead > 0], lead[lead > 0])
        into, gone = (np.array(side) for side in zip(*chosen, strict=True))
        table = np.repeat(np.arange(count, dtype=np.int32)[:, None], 2, axis=1)
        table[gone] = into[:, None]
        sides = same_sides(count)
        sides[into], sides[gone] = 0, 1
        self.points.relabel(table, sides)
        both = [evidence.clusters[into], evidence.clusters[gone]]
        order = np.arange(2 * len(into)).reshape(2, -1).T.ravel()
        state.replace(into, concatenate(both)[order])
        state.records[into] = state.new_records(len(into))
        keep = np.ones(count, bool)
        keep[gone] = False
        self.relabel(np.cumsum(keep) - 1, keep)
        self.evidence = measure(self.model, state.subclusters)
        return len(into), proposed


def same_sides(count: int) -> UInt8Array:
    """A table for `bookkeeping.relabel` that leaves the sublabels as they are."""
    return np.tile(np.array([0, 1], np.uint8), (count, 1))


def first_labels(init_clusters: int | IntArray, rows: int, rng: Generator) -> tuple[IntArray, int]:
    """Labels to begin with, from 0 without gaps, and how many there are."""
    if isinstance(init_clusters, (int, np.integer)):
        init_clusters = rng.integers(0, int(init_clusters), rows, dtype=np.int32)
    present = np.bincount(init_clusters) > 0
    return (np.cumsum(present, dtype=np.int32) - 1)[init_clusters], int(present.sum())
