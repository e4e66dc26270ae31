"""What a method is told and what it tells: settings in, a timed `MethodFit` out; how good it is under the model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.stopping import GREEDY_STEPS


def log_posterior(X: Points, labels: IntArray, alpha: float, prior: Prior) -> float:
    """log p(labels, X) up to a constant, for labels from any method: the sampler's own log posterior."""
    statistics = prior.statistics(X, np.unique(labels, return_inverse=True)[1])
    return DirichletProcess(alpha).log_joint(statistics.counts, prior.log_marginal_likelihood(statistics))


def classes_in(truth: IntArray) -> int:
    """How many classes the labelled points have."""
    return len(np.unique(truth[truth >= 0]))


def iterations_until_settled(values: Float64Array, share: float = 0.01) -> int:
    """The first iteration (from 1) after which all values stay within 1% of the last one.

    The greedy steps at the end of a search rise above all that it has sampled, and do not count.
    """
    values = values[:-GREEDY_STEPS] if len(values) > 2 * GREEDY_STEPS else values
    far = np.abs(values - values[-1]) > share * abs(values[-1])
    return int(np.flatnonzero(far)[-1]) + 2 if far.any() else 1


@dataclass(frozen=True)
class FitSettings:
    """What all methods are told alike. Every method runs on one thread, as in the paper."""

    alpha: float = 10.0
    iterations: int = 200
    prior: str = "data"
    ratio: str = "auto"
    """How the SubC samplers accept splits and merges. By "reference", they are as in the reference package, where
    subclusters never begin anew; "auto" is that on Julia, and the whole Hastings ratio in the built-in sampler."""
    init_clusters: int | str = 1
    """For the SubC samplers: 1 is the paper's setting, "many" begins with small ones, that then merge."""
    upper_bound: int = 100
    """On the number of clusters, for DPGMM."""
    weights: str | None = None
    """A weights file for SplitNet; None for the shipped ones."""
    watch: bool = False
    """Keep NMI and ARI of every iteration. Costs time, so not where time is measured."""
    scale: bool = False
    """Whether methods that depend on units get columns of variance one."""
    own_rules: bool = False
    """Every method keeps its own prior, concentration and stopping rule; log posteriors compare within a model only."""

    def niw(self, X: Points) -> NIW:
        """The prior of all methods: the reference's, or the one with which a fit with default settings begins."""
        if self.prior == "reference":
            return NIW.reference(X.shape[1])
        return NIW.from_data(X)


@dataclass(frozen=True)
class MethodFit:
    """What a method made of a data set."""

    labels: IntArray
    """From 0 without gaps; -1 for noise, where a method knows noise."""
    log_posterior: float
    """Under the settings' prior and concentration, whatever the method itself maximised: so numbers compare.

    Under `own_rules` that of the method's own model, if it has one."""
    seconds: float
    cpu_seconds: float
    """On a busy machine nearer to what the method needs than the clock on the wall."""
    iterations: int
    trace: dict[str, Float64Array] = field(default_factory=dict)
    """By name, a value per iteration; empty where the method keeps none."""
    model: str = ""
    """Under `own_rules`: log posteriors of the same model compare."""
    groups: IntArray | None = None
    """Labels at the suggested cut of a tree of groups, where there is one."""


Method = Callable[[Points, IntArray, FitSettings, int], MethodFit]
"""Points, truth (-1 where it is not known), settings and a seed in."""


class Clock:
    """The time that passes within this context, on the wall and on the processor."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Clock:
        self.seconds, self.cpu_seconds = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *problem: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu_seconds += time.process_time()


def finish(
    X: Points,
    labels: Any,
    settings: FitSettings,
    clock: Clock,
    iterations: int,
    trace: dict[str, Float64Array] | None = None,
) -> MethodFit:
    """A method's labels, numbered from 0, and their log posterior under the settings' model. O(N D^2)."""
    numbers = numbered(np.asarray(labels))
    reached = math.nan if settings.own_rules else log_posterior(X, numbers, settings.alpha, settings.niw(X))
    return MethodFit(numbers, reached, clock.seconds, clock.cpu_seconds, iterations, trace or {})


def numbered(labels: IntArray) -> IntArray:
    """Labels from 0 without gaps; negative ones, which are noise, stay -1."""
    noise = labels < 0
    numbers: IntArray = np.full(len(labels), -1, np.int32)
    numbers[~noise] = np.unique(labels[~noise], return_inverse=True)[1]
    return numbers
