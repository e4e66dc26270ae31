"""Moves that are broken on purpose: a check that does not notice them shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from dpmmwrap.families.learned.base import Moments
from dpmmwrap.families.learned.hyperprior import Hyperprior
from dpmmwrap.partitions import FiniteMixture, PitmanYor, dirichlet_process
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.moves import restricted_sweep, single_points
from dpmmwrap.sampler.moves.single_points import SinglePoints
from dpmmwrap.sampler.moves.split_merge import SplitMerge
from dpmmwrap.sampler.partition import renumber
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.proposals import ClusterSeeds, SequentialAllocation
from dpmmwrap.sampler.state import State, generator

LOCATION, KAPPA, WIDTH, STRENGTH = (
    Hyperprior._location_terms, Hyperprior._kappa_terms, Hyperprior._width_terms, Hyperprior._strength_logs,
)  # fmt: skip
SWEEP, POINTS, SPLIT_MERGE = restricted_sweep.step, SinglePoints.step, SplitMerge.step
NEW_COMPONENT = FiniteMixture.log_new
DIVIDE, DRAW_PAIRS, GIBBS = SequentialAllocation.divide, exact.draw_pairs, single_points.gibbs_points


def without_log_q(*arguments: Any) -> float:
    """A proposal whose probability is not counted."""
    return 0.0 * DIVIDE(*arguments)


def emptying_sweep(key: Any, state: State, problem: Problem) -> Any:
    """Points may leave a cluster that they are the last of, which is then gone."""
    with patch.object(Data, "refuse_to_empty", lambda *arguments: []):
        state, info = SWEEP(key, state, problem)
    renumber(state, problem, state.n_clusters)
    return state, info


def split_merge_that_looks(own: SplitMerge, key: Any, state: State, problem: Problem) -> Any:
    """Of two pairs, one that shares a cluster is preferred."""

    def draw_pairs(key: Any, count: int, *others: Any) -> Any:
        both = DRAW_PAIRS(key, 2 * count, *others)
        share = state.labels[both[:count, 0]] == state.labels[both[:count, 1]]
        return np.where(share[:, None], both[:count], both[count:])

    with patch.object(exact, "draw_pairs", draw_pairs):
        return SPLIT_MERGE(own, key, state, problem)


def points_by_the_present_state(own: SinglePoints, key: Any, state: State, problem: Problem) -> Any:
    """Likely seeds are looked for each time."""
    state.cluster_seeds = single_points.likely_cluster_seeds(key, state, problem)
    return POINTS(own, key, state, problem)


def points_of_small_clusters(own: SinglePoints, key: Any, state: State, problem: Problem) -> Any:
    """Points of small clusters are taken more often."""
    shares = 1 / state.counts[state.labels] ** 2
    state.cluster_seeds = ClusterSeeds(np.arange(len(shares)), np.cumsum(shares) / shares.sum())
    return POINTS(own, key, state, problem)


def points_that_found_too_often(*arguments: Any) -> Any:
    """With twice the concentration."""
    *others, prior, labels = arguments
    return GIBBS(*others, prior._replace(log_new=prior.log_new + np.log(2)), labels)


def alpha_of_one_gamma(key: Any, alpha: float, clusters: int, points: int, prior: Any) -> float:
    """Always the first of Escobar and West's two Gamma variables."""
    rng = generator(key)
    return float(rng.gamma(prior[0] + clusters) / (prior[1] - np.log(rng.beta(alpha + 1, points))))


def one_cluster_too_few(own: PitmanYor, points: int, clusters: int) -> np.ndarray:
    return np.log(own.now[0] + own.now[1] * np.maximum(np.arange(clusters) - 1, 0))


def any_discount(own: PitmanYor, key: Any, counts: np.ndarray) -> PitmanYor:
    """Whatever the clusters say."""
    return own.at((own.now[0], float(generator(key).random())))


def v_of_other_points(own: FiniteMixture, points: int, clusters: int) -> np.ndarray:
    """As if there were ten times as many."""
    return NEW_COMPONENT(own, 10 * points, clusters)


def location_elsewhere(own: Hyperprior, moments: Moments, kappa: float, origin: np.ndarray) -> Any:
    """The location's own distribution is three deviations away."""
    deviations = np.sqrt(np.broadcast_to(own.variances, own.mean.shape))
    return LOCATION(replace(own, mean=own.mean + 3 * deviations), moments, kappa, origin)


def kappa_of_half_the_spread(own: Hyperprior, moments: Moments, location: np.ndarray) -> Any:
    shape, rate = KAPPA(own, moments, location)
    return shape, 0.5 + 0.5 * (rate - 0.5)


def widths_of_more_clusters(own: Hyperprior, moments: Moments) -> Any:
    """Two clusters more than there are, of any width."""
    return WIDTH(own, moments._replace(clusters=moments.clusters + 2))[0], WIDTH(own, moments)[1]


def strength_is_liked(own: Hyperprior, moments: Moments, widths: np.ndarray) -> Any:
    """Each strength is four times as probable as the one before."""
    logs = STRENGTH(own, moments, widths)
    return logs + np.log(4) * np.arange(len(logs))


BREAKAGES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "log q left out": lambda: patch.object(SequentialAllocation, "divide", without_log_q),
    "clusters may empty": lambda: patch.object(restricted_sweep, "step", emptying_sweep),
    "pairs by labels": lambda: patch.object(SplitMerge, "step", split_merge_that_looks),
    "points by their cluster's size": lambda: patch.object(SinglePoints, "step", points_of_small_clusters),
    "seeds by the present state": lambda: patch.object(SinglePoints, "step", points_by_the_present_state),
    "twice the concentration": lambda: patch.object(single_points, "gibbs_points", points_that_found_too_often),
    "one Gamma for alpha": lambda: patch.object(dirichlet_process, "draw_concentration", alpha_of_one_gamma),
}
"""By what is wrong."""
WRONG_PRIORS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "half the discount of sizes": lambda: patch.object(PitmanYor, "shift", property(lambda own: -0.5 * own.now[1])),
    "the discount counts for one cluster too few": lambda: patch.object(PitmanYor, "log_new", one_cluster_too_few),
    "any discount": lambda: patch.object(PitmanYor, "draw", any_discount),
    "gamma of sizes left out": lambda: patch.object(FiniteMixture, "shift", property(lambda own: 0.0)),
    "V of other points": lambda: patch.object(FiniteMixture, "log_new", v_of_other_points),
}
"""Wrong priors over partitions, by what is wrong."""
LEARNING: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "location": lambda: patch.object(Hyperprior, "_location_terms", location_elsewhere),
    "kappa": lambda: patch.object(Hyperprior, "_kappa_terms", kappa_of_half_the_spread),
    "width": lambda: patch.object(Hyperprior, "_width_terms", widths_of_more_clusters),
    "strength": lambda: patch.object(Hyperprior, "_strength_logs", strength_is_liked),
}
"""Wrong draws of the hyperparameters, by which one."""
