"""The state and the loop: Gibbs, splits, merges, checkpoints."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.backends import Result, Settings
from dpmmwrap.families.gaussian import Statistics
from dpmmwrap.interrupt import Interrupt
from dpmmwrap.sampler import checkpoint
from dpmmwrap.sampler.data import (
    Evidence,
    Model,
    Points,
    draw_parameters,
    key_of,
    log_posterior,
    measure,
)
from dpmmwrap.sampler.kernels import labels as bookkeeping
from dpmmwrap.sampler.moves.subclusters import NOBODY, Moves, disjoint, examine, split_ratios
from dpmmwrap.sampler.state import RECORD, State
from dpmmwrap.starts.random import RandomStart
from dpmmwrap.trace import Iteration, Trace, nmi_of_table
from dpmmwrap.variates import standard_exponentials

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
        self.rng = Generator(SFC64(SeedSequence(settings.seed)))
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

    def begin(self) -> None:
        """First labels, first subclusters."""
        labels, count = first_labels(self.settings.init_clusters, len(self.points.X), self.rng)
        first = self.model.outliers
        self.points.labels[:] = labels + first
        count += first
        counts = np.bincount(self.points.labels, minlength=count).astype(np.float64)
        self.state.records = self.state.new_records(count)
        members = self.points.members(np.arange(count), counts)
        # A crowd is there to merge: good starts for all of it would cost more than the first hundred sweeps.
        by_coin = np.full(count, count > CROWD)
        self.state.subclusters = self.start(members, self.near(members), by_coin)
        self.evidence = measure(self.model, self.state.subclusters)

    def near(self, members: list[IntArray]) -> Float64Array:
        """A point of each cluster (any will do), about which sums are taken."""
        X = self.points.X
        rows = [X[rows[0]] if len(rows) else X[0] for rows in members]
        return np.asarray(rows, dtype=np.float64)

    def start(self, members: list[IntArray], origins: Float64Array, by_coin: Any) -> Statistics:
        """Subclusters for these clusters, by the initializer or by a coin; the subclusters' statistics."""
        sides = [np.zeros(len(rows), np.uint8) for rows in members]
        for initializer, chosen in ((RandomStart(), by_coin), (self.settings.initializer, ~by_coin)):
            several = [number for number in np.flatnonzero(chosen) if len(members[number]) > 1]
            proposed = initializer([members[number] for number in several], self.rng) if several else []
            for number, found in zip(several, proposed, strict=True):
                sides[number] = np.asarray(found, np.uint8)
        return self.points.set_sublabels(members, sides, origins)

    def iterate(self) -> Iteration:
        """One iteration: restricted Gibbs, then splits and merges."""
        begun = time.perf_counter()
        settings, state, model = self.settings, self.state, self.model
        state.iteration += 1
        settling = state.iteration > settings.max_iter - SETTLE
        parameters = draw_parameters(model, self.evidence, self.rng)
        state.subclusters, state.records["log_chance"] = self.points.sweep(parameters, key_of(self.rng), settling)
        moves = self.settle() if settling else self.judge()
        self.carry_out(moves)
        if state.iteration % RESTART_EVERY == 0 and not settling:
            self.restart()
        return Iteration(
            n_clusters=state.n_clusters - model.outliers,
            log_posterior=log_posterior(model, self.evidence),
            seconds=time.perf_counter() - begun,
            splits=len(moves.splits),
            splits_proposed=moves.splits_proposed,
            merges=len(moves.gone),
            merges_proposed=moves.merges_proposed,
            nmi=self.nmi(),
        )

    def nmi(self) -> float:
        if self.settings.truth is None:
            return float("nan")
        truth = self.settings.truth
        table = np.zeros((int(truth.max()) + 1, self.state.n_clusters), np.int64)
        bookkeeping.contingency(truth, self.points.labels, table)
        return nmi_of_table(table)

    def settle(self) -> Moves:
        """Look at the subclusters and leave them as they are."""
        self.evidence = measure(self.model, self.state.subclusters)
        counts = self.evidence.clusters.counts[self.model.outliers :]
        return Moves(NOBODY, NOBODY, NOBODY, len(counts) - np.count_nonzero(counts))

    def judge(self) -> Moves:
        """Look at the subclusters, propose to split and merge all clusters that are old enough, and decide."""
        settings, state, count = self.settings, self.state, self.state.n_clusters
        luck = standard_exponentials(key_of(self.rng), count * (count + 1) // 2)
        latest = state.iteration - settings.burnout
        self.evidence, likely = examine(
            self.model, state.subclusters, state.records, latest, settings.merge_ratio, luck
        )
        splits = likely.splits
        if settings.max_clusters is not None:
            room = max(settings.max_clusters - (count - self.model.outliers), 0)
            splits = np.sort(splits[np.argsort(-likely.split_ratios[splits], kind="stable")[:room]])
        one, other, lead = likely.merges
        if len(one):
            if settings.full_ratio:
                # As yet the chance that the split back would come up just so has been taken for 1.
                lead = self.points.charge_partings(one, other, lead)
            one, other = disjoint(one, other, lead)
        return Moves(splits, one, other, likely.empty, likely.splits_proposed, likely.merges_proposed)

    def carry_out(self, moves: Moves) -> None:
        """Split and merge clusters; those without points leave, and the others close ranks.

        Two that merge become the subclusters of the merged cluster, so that the way back stays open.
        """
        state, points, evidence = self.state, self.points, self.evidence
        left, into, gone = moves.splits, moves.into, moves.gone
        if not (len(left) or len(gone) or moves.empty):
            return
        counts = evidence.clusters.counts
        staying = counts > 0
        staying[: self.model.outliers] = True
        staying[gone] = False
        kept, born = np.count_nonzero(staying), len(left)
        place = np.zeros(len(counts), np.int32)
        place[staying] = np.arange(kept)
        labels, sides = np.array([place, place]).T, np.zeros((len(counts), 2), np.uint8)
        sides[:, 1] = 1
        if len(gone):
            labels[gone] = place[into][:, None]
            sides[into], sides[gone] = 0, 1
            state.merge(into, evidence.clusters[into], evidence.clusters[gone])
        if born:
            labels[left, 1] = np.arange(kept, kept + born)
            halves = state.subclusters[np.concatenate([2 * left, 2 * left + 1])]
            members = points.halves(points.members(left, counts))
        points.relabel(labels, sides)
        state.keep(staying)
        if born:
            stray = np.minimum(halves.counts[:born], halves.counts[born:]) < STRAY
            fresh = self.start(members, halves.means, np.concatenate([stray, stray]))
            state.split(place[left], fresh)
        self.evidence = measure(self.model, state.subclusters)

    def restart(self) -> None:
        """Begin anew the subclusters that have an empty side, or that have settled in a rejected split.

        They have settled when the ratio of their split has not risen for a while: those that are still on their way,
        as after random starts, are left alone. Most clusters that need a start again and again are one Gaussian.
        """
        state, settings, evidence = self.state, self.settings, self.evidence
        ratios = split_ratios(self.model, evidence)
        if settings.full_ratio:
            ratios -= state.records["log_chance"]
        patience = (float(settings.fresh_start_after or np.inf), float(RESTART_EVERY))
        chosen = bookkeeping.settled(
            state.records, ratios, evidence.sides, state.iteration, patience, LONGEST_PATIENCE, settings.burnout
        )
        chosen[: self.model.outliers] = False
        which = chosen.nonzero()[0]
        if len(which):
            members = self.points.members(which, evidence.clusters.counts)
            fresh = self.start(members, evidence.clusters.means[which], np.zeros(len(which), bool))
            state.replace(which, fresh)
            state.begin_subclusters(which)
            self.evidence = measure(self.model, state.subclusters)


def first_labels(init_clusters: int | IntArray, rows: int, rng: Generator) -> tuple[IntArray, int]:
    """Labels to begin with, from 0 without gaps, and how many there are."""
    if isinstance(init_clusters, (int, np.integer)):
        init_clusters = rng.integers(0, int(init_clusters), rows, dtype=np.int32)
    present = np.bincount(init_clusters) > 0
    return (np.cumsum(present, dtype=np.int32) - 1)[init_clusters], int(present.sum())
