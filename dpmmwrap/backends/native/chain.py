"""The state and the loop: Gibbs, splits, merges, checkpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.backends import Result, Settings
from dpmmwrap.backends.native import checkpoint, kernels
from dpmmwrap.backends.native.gibbs import (
    Evidence,
    Model,
    Points,
    draw_parameters,
    log_posterior,
    measure,
)
from dpmmwrap.backends.native.moves import disjoint, merge_ratios, split_ratios
from dpmmwrap.backends.native.pairs import HOPELESS
from dpmmwrap.interrupt import Interrupt
from dpmmwrap.prior import Statistics, concatenate
from dpmmwrap.subclusters import Initializer
from dpmmwrap.subclusters.random import RandomStart
from dpmmwrap.trace import Iteration, Trace, nmi_of_table

LOG_2 = float(np.log(2.0))
HOPELESS_SHARE = 0.5
"""A split that costs more than this share of what halving the cluster at random would cost leads nowhere."""
NARROW = 0.2
"""A split that gains less than this share of the same cost may no longer pay after the next draws."""
CROWD = 50
"""More first clusters than this are there to merge."""
SHORTEST_WAIT, LONGEST_WAIT = 4, 64
"""Subclusters that lose a side begin anew after so many iterations; twice as many each time that it happens again."""
LONGEST_PATIENCE = 16
"""The same for those that settle in splits without hope: at most so many times the usual patience."""
RESTART_EVERY = 10
"""Subclusters begin anew in every tenth iteration only, so that one call of a network serves several clusters."""
SETTLE = 5
"""The last iterations make no splits or merges and take the most likely label, as the reference's do."""


CLOCKS = np.dtype(
    [
        ("age", np.int64),
        ("subage", np.int64),
        ("best_ratio", np.float64),
        ("waiting", np.int64),
        ("failures", np.int64),
    ]
)


def new_clocks(count: int) -> Any:
    """The clocks of clusters that have just been formed."""
    clocks = np.zeros(count, CLOCKS)
    clocks["best_ratio"] = -np.inf
    return clocks


@dataclass
class State:
    """Where the chain stands, apart from the labels in `Points`."""

    subclusters: Statistics
    """Of the left and right subcluster of each cluster in turn."""
    clocks: Any
    """One record per cluster. age: iterations since it was formed, by which it may merge. subage: since its subclusters
    began, by which it may split. waiting: since the log Hastings ratio of its split last rose above best_ratio.
    failures: starts in a row that led nowhere."""
    iteration: int = 0

    @property
    def age(self) -> IntArray:
        return np.asarray(self.clocks["age"])

    @property
    def subage(self) -> IntArray:
        return np.asarray(self.clocks["subage"])

    def begin_subclusters(self, clusters: IntArray) -> None:
        """Turn the clocks of these clusters' subclusters back."""
        fresh = new_clocks(len(clusters))
        for name in ("age", "failures"):
            fresh[name] = self.clocks[name][clusters]
        self.clocks[clusters] = fresh

    def watch(self, ratios: Float64Array) -> None:
        """Note which splits have become clearly better: by a nat, and by a thousandth."""
        best, waiting = self.clocks["best_ratio"], self.clocks["waiting"]
        with np.errstate(invalid="ignore"):
            rose = ratios > best + np.maximum(1.0, 1e-3 * np.abs(best))
        rose |= np.isfinite(ratios) & ~np.isfinite(best)
        best[rose] = ratios[rose]
        waiting += RESTART_EVERY
        waiting[rose] = 0


class NativeBackend:
    """The built-in sampler."""

    name = "native"

    def fit(self, X: Float32Array, settings: Settings) -> Result:
        settings.initializer.bind(X)
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
        self.by_coin = isinstance(settings.initializer, RandomStart)
        self.key = SeedSequence(settings.seed).generate_state(1, np.uint64)[0]
        self.generator = Generator(SFC64(0))
        self.evidence: Evidence
        """What the state's statistics say; measured again whenever they change."""
        self.identity: dict[str, Any] | None = None
        self.state = State(Statistics.of(X[:0], n_clusters=0), new_clocks(0))

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
        self.state.clocks = new_clocks(count)
        members = self.points.members(np.arange(count), counts)
        # A crowd is there to merge: good starts for all of it would cost more than the first hundred sweeps.
        initializer = self.settings.initializer if count <= CROWD else RandomStart()
        self.state.subclusters = self.start(members, self.near(members), rng, initializer)
        self.evidence = measure(self.model, self.state.subclusters)

    def near(self, members: list[IntArray]) -> Float64Array:
        """A point of each cluster (any will do), about which sums are taken."""
        X = self.points.X
        rows = [X[rows[0]] if len(rows) else X[0] for rows in members]
        return np.asarray(rows, dtype=np.float64)

    def start(
        self, members: list[IntArray], origins: Float64Array, rng: Generator, initializer: Initializer
    ) -> Statistics:
        """Subclusters for these clusters by the initializer; the subclusters' statistics."""
        several = [number for number, rows in enumerate(members) if len(rows) > 1]
        sides = [np.zeros(len(rows) if len(rows) < 2 else 0, np.uint8) for rows in members]
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
        state.subclusters = self.points.sweep(parameters, key, settling)
        state.clocks["age"] += 1
        state.clocks["subage"] += 1
        self.evidence = measure(model, state.subclusters)
        self.drop_empty()
        splits = merges = (0, 0)
        if not settling:
            if state.iteration % RESTART_EVERY == 0:
                self.restart(rng)
            splits = self.split(rng)
            merges = self.merge(rng)
        return Iteration(
            n_clusters=len(state.age) - model.outliers,
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
        table = np.zeros((int(truth.max()) + 1, len(self.state.age)), np.int64)
        kernels.contingency(truth, self.points.labels, table)
        return nmi_of_table(table)

    def drop_empty(self) -> None:
        """Clusters without points leave; the others close ranks."""
        keep = self.evidence.clusters.counts > 0
        keep[: self.model.outliers] = True
        if not keep.all():
            self.relabel(np.cumsum(keep) - 1, keep)
            self.evidence = measure(self.model, self.state.subclusters)

    def relabel(self, to_label: IntArray, keep: Any) -> None:
        """Renumber whole clusters."""
        state = self.state
        count = len(to_label)
        table = np.repeat(to_label.astype(np.int32)[:, None], 2, axis=1)
        self.points.relabel(table, same_sides(count))
        state.clocks = state.clocks[keep]
        state.subclusters = state.subclusters[np.repeat(keep, 2)]

    def restart(self, rng: Generator) -> None:
        """Begin anew the subclusters that have an empty side, or that have settled in a rejected split.

        They have settled when the ratio of their split has not risen for a while: those that are still on their way,
        as after random starts, are left alone.
        """
        state, settings, clocks, evidence = self.state, self.settings, self.state.clocks, self.evidence
        counts = evidence.clusters.counts
        one_sided = (evidence.sides == 0).any(axis=1) & (counts > 1)
        # After each start that led nowhere the next is twice as far: most such clusters are one Gaussian.
        doubled = 2.0 ** clocks["failures"]
        chosen = one_sided & (state.subage >= np.minimum(SHORTEST_WAIT * doubled, LONGEST_WAIT))
        failed = one_sided
        if settings.fresh_start_after is not None:
            state.watch(split_ratios(self.model, evidence))
            failed = failed | (clocks["best_ratio"] < -HOPELESS_SHARE * counts * LOG_2)
            patience = settings.fresh_start_after * np.where(failed, np.minimum(doubled, LONGEST_PATIENCE), 1)
            chosen |= ~one_sided & (clocks["waiting"] >= patience) & (state.subage > settings.burnout)
        chosen[: self.model.outliers] = False
        if chosen.any():
            which = np.flatnonzero(chosen)
            clocks["failures"][which] = np.where(failed[which], clocks["failures"][which] + 1, 0)
            members = self.points.members(which, counts)
            fresh = self.start(members, evidence.clusters.means[which], rng, self.settings.initializer)
            put(state.subclusters, which, fresh)
            state.begin_subclusters(which)
            self.evidence = measure(self.model, state.subclusters)

    def split(self, rng: Generator) -> tuple[int, int]:
        """Propose to split every cluster whose subclusters are old enough; how many were accepted and proposed.

        Subclusters that have just begun, be it in a cluster born here, are judged at once if their split pays by a
        narrow margin: a good start is a cut, and where clusters overlap the cut may pay when the labels drawn after
        it no longer do. A split that pays by far can wait, and is the better for a few sweeps. A coin is no cut.
        """
        state = self.state
        old_enough = state.subage >= self.settings.burnout
        old_enough[: self.model.outliers] = False
        just_begun = (state.subage == 0) & (not self.by_coin)
        accepted, proposed = self.split_some(old_enough, just_begun, rng)
        born = accepted
        while born and not self.by_coin:
            born, more = self.split_some(np.zeros(len(state.age), bool), state.age == 0, rng)
            accepted, proposed = accepted + born, proposed + more
        return accepted, proposed

    def split_some(self, old_enough: Any, just_begun: Any, rng: Generator) -> tuple[int, int]:
        """Propose to split these clusters; how many were accepted and proposed."""
        state, settings, evidence, first = self.state, self.settings, self.evidence, self.model.outliers
        count = len(state.age)
        ratios = split_ratios(self.model, evidence)
        hopeful = ratios > HOPELESS
        ready = old_enough | (just_begun & hopeful & (ratios < NARROW * LOG_2 * evidence.clusters.counts))
        proposed = int(ready.sum())
        ready &= hopeful
        if not ready.any():
            return 0, proposed
        accepted = ready & (np.log(rng.random(count)) < ratios)
        room = np.inf if settings.max_clusters is None else settings.max_clusters - (count - first)
        if accepted.sum() > room:
            best = np.argsort(np.where(accepted, -ratios, np.inf), kind="stable")[: max(int(room), 0)]
            accepted = np.isin(np.arange(count), best)
        left = np.flatnonzero(accepted)
        if not len(left):
            return 0, proposed
        right = count + np.arange(len(left))
        table = np.repeat(np.arange(count, dtype=np.int32)[:, None], 2, axis=1)
        table[left, 1] = right
        self.points.relabel(table, same_sides(count))
        born = np.concatenate([left, right])
        halves = concatenate([state.subclusters[2 * left], state.subclusters[2 * left + 1]])
        state.clocks[left] = new_clocks(len(left))
        state.clocks = np.append(state.clocks, new_clocks(len(left)))
        counts = np.append(evidence.clusters.counts, halves.counts[len(left) :])
        counts[left] = halves.counts[: len(left)]
        members = self.points.members(born, counts)
        fresh = self.start(members, halves.means, rng, self.settings.initializer)
        state.subclusters = concatenate([state.subclusters, fresh[2 * len(left) :]])
        put(state.subclusters, left, fresh[: 2 * len(left)])
        self.evidence = measure(self.model, state.subclusters)
        return len(left), proposed

    def merge(self, rng: Generator) -> tuple[int, int]:
        """Propose to merge every two clusters that are old enough; how many were accepted and proposed.

        The two become the subclusters of the merged cluster, so that the way back stays open.
        """
        state, settings, evidence, first = self.state, self.settings, self.evidence, self.model.outliers
        count = len(state.age)
        ready = state.age >= settings.burnout
        ready[:first] = False
        candidates = np.flatnonzero(ready)
        proposed = len(candidates) * (len(candidates) - 1) // 2
        if not proposed:
            return 0, 0
        one, other, ratios = merge_ratios(self.model, evidence, candidates, settings.merge_ratio)
        if not len(ratios):
            return 0, proposed
        accepted = np.log(rng.random(len(ratios))) < ratios
        chosen = disjoint(one[accepted], other[accepted], ratios[accepted])
        if not chosen:
            return 0, proposed
        into, gone = (np.array(side) for side in zip(*chosen, strict=True))
        table = np.repeat(np.arange(count, dtype=np.int32)[:, None], 2, axis=1)
        table[gone] = into[:, None]
        sides = same_sides(count)
        sides[into], sides[gone] = 0, 1
        self.points.relabel(table, sides)
        both = [evidence.clusters[into], evidence.clusters[gone]]
        order = np.arange(2 * len(into)).reshape(2, -1).T.ravel()
        put(state.subclusters, into, concatenate(both)[order])
        state.clocks[into] = new_clocks(len(into))
        keep = np.ones(count, bool)
        keep[gone] = False
        self.relabel(np.cumsum(keep) - 1, keep)
        self.evidence = measure(self.model, state.subclusters)
        return len(into), proposed


def same_sides(count: int) -> UInt8Array:
    """A table for `kernels.relabel` that leaves the sublabels as they are."""
    return np.tile(np.array([0, 1], np.uint8), (count, 1))


def put(subclusters: Statistics, clusters: IntArray, fresh: Statistics) -> None:
    """Overwrite the statistics of both subclusters of these clusters."""
    places = (2 * clusters[:, None] + np.array([0, 1])).ravel()
    subclusters.counts[places] = fresh.counts
    subclusters.means[places] = fresh.means
    subclusters.scatters[places] = fresh.scatters


def first_labels(init_clusters: int | IntArray, rows: int, rng: Generator) -> tuple[IntArray, int]:
    """Labels to begin with, from 0 without gaps, and how many there are."""
    if isinstance(init_clusters, (int, np.integer)):
        init_clusters = rng.integers(0, int(init_clusters), rows, dtype=np.int32)
    present = np.bincount(init_clusters) > 0
    return (np.cumsum(present, dtype=np.int32) - 1)[init_clusters], int(present.sum())
