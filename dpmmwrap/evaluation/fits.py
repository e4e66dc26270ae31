"""The settings of a method, and its timed result with a log posterior."""

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
from dpmmwrap.posterior.matching import without_gaps
from dpmmwrap.sampler.stopping import GREEDY_STEPS


def log_posterior(X: Points, labels: IntArray, alpha: float, prior: Prior) -> float:
    """log p(labels, X) up to a constant, as the sampler computes it, for the labels of any method."""
    statistics = prior.statistics(X, np.unique(labels, return_inverse=True)[1])
    return DirichletProcess(alpha).log_joint(statistics.counts, prior.log_marginal_likelihood(statistics))


def classes_in(truth: IntArray) -> int:
    """The number of classes among the labelled points."""
    return len(np.unique(truth[truth >= 0]))


def iterations_until_settled(values: Float64Array) -> int:
    """The first iteration (from 1) after which all values stay within 1% of the last one.

    The greedy steps at the end of a search do not count: they rise above everything sampled before.
    """
    values = values[:-GREEDY_STEPS] if len(values) > 2 * GREEDY_STEPS else values
    far = np.abs(values - values[-1]) > 0.01 * abs(values[-1])
    return int(np.flatnonzero(far)[-1]) + 2 if far.any() else 1


@dataclass(frozen=True)
class FitSettings:
    """Settings that all methods share. Every method runs on one thread, as in the paper."""

    alpha: float = 10.0
    iterations: int = 200
    prior: str | float = "data"
    """From the data, the reference package's ("reference"), or the latter with its Psi = I times this number."""
    ratio: str = "auto"
    """How the SubC samplers accept splits and merges: by the whole Hastings ratio ("jain-neal"), or as the reference
    package ("reference"), which never restarts subclusters. "auto" is the latter on Julia and the former otherwise."""
    init_clusters: int | str = 1
    """For the SubC samplers: 1 as in the paper; "many" begins with small clusters, which then merge."""
    upper_bound: int = 100
    """Largest number of clusters of DPGMM."""
    weights: str | None = None
    """A weights file for SplitNet; None for the shipped ones."""
    watch: bool = False
    """Keep NMI and ARI of every iteration. This takes time, so runs whose time is measured do not."""
    scale: bool = False
    """Whether methods that depend on the units of columns get columns of variance one."""
    own_rules: bool = False
    """Every method keeps its default prior, concentration and stopping rule. Only log posteriors of the same model are
    then comparable."""

    def niw(self, X: Points) -> NIW:
        """The prior of all methods; "data" is the one with which a fit with default settings begins."""
        if self.prior == "data":
            return NIW.from_data(X)
        prior = NIW.reference(X.shape[1])
        if self.prior == "reference":
            return prior
        return NIW(prior.mean, prior.mean_strength, float(self.prior) * prior.scale, prior.degrees_of_freedom)


@dataclass(frozen=True)
class MethodFit:
    """The result of a method on a data set."""

    labels: IntArray
    """From 0 without gaps; -1 for noise, if the method has such a label."""
    log_posterior: float
    """Under the settings' prior and concentration, whatever the method maximised, so that methods are comparable; under
    `own_rules`, that of the method's model if it has one."""
    seconds: float
    cpu_seconds: float
    """Processor time, which depends less on other processes than `seconds`."""
    iterations: int
    trace: dict[str, Float64Array] = field(default_factory=dict)
    """By name, a value per iteration, if the method keeps them."""
    model: str = ""
    """Under `own_rules`, the model's name; log posteriors of the same model are comparable."""
    groups: IntArray | None = None
    """Labels at the suggested cut of the tree of groups, if there is one."""


Fit = Callable[[Points, IntArray, FitSettings, int], MethodFit]
"""From points, true classes (-1 if unknown), settings and a seed."""


class Clock:
    """Wall-clock and processor time within this context."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Clock:
        self.seconds, self.cpu_seconds = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *problem: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu_seconds += time.process_time()


def finish(X: Points, labels: Any, settings: FitSettings, clock: Clock, iterations: int) -> MethodFit:
    """A method's labels, numbered from 0, and their log posterior under the settings' model. O(N D^2)."""
    numbers = without_gaps(np.asarray(labels))
    reached = math.nan if settings.own_rules else log_posterior(X, numbers, settings.alpha, settings.niw(X))
    return MethodFit(numbers, reached, clock.seconds, clock.cpu_seconds, iterations)
