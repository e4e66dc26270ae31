"""Fits of a few points that compile a family's loops and fill the cache before a user has to wait for them.

Each task compiles a part of what a fit needs. Tasks take about equally long and hardly overlap. Whatever a task misses
is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmmwrap.families import FAMILIES, family_named
from dpmmwrap.families.collapsed import bundles_of
from dpmmwrap.families.example_points import DIM, GROUPS, ROWS, numbers
from dpmmwrap.numerics.labels import contingency
from dpmmwrap.numerics.row_loops import nearest_centres, project
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.hastings import log_merge_ratio, log_split_ratio
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.moves import restricted_sweep, split_merge
from dpmmwrap.sampler.moves.single_points import SinglePoints, likely_cluster_seeds
from dpmmwrap.sampler.partition import collapse, prior_for_moves
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.proposals import Near
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import State
from dpmmwrap.starts import make_initializer

ITERATIONS = 45
"""Enough for two checks of stalled subclusters and the final greedy steps."""
KEY = np.uint64(7)
EXAMPLES = {kind: make for name in FAMILIES for kind, make in family_named(name).examples().EXAMPLES.items()}
"""Data and a prior for each kind of loops."""


def chain_of(kind: str, first: Any = 6, **options: Any) -> Chain:
    points, prior = EXAMPLES[kind]()
    settings = Settings(
        DirichletProcess(), prior, make_initializer("random"), max_iter=ITERATIONS, min_cluster_age=1, seed=0,
        init_clusters=first, restart_after=1, **options,
    )  # fmt: skip
    settings.bind(points, settings.full_ratio)
    return Chain(points, settings)


def search(kind: str) -> None:
    """Compile what a search needs, apart from exact moves."""
    chain = chain_of(kind, exact_moves=False)
    chain.run()
    state, data = chain.state, chain.problem.data
    if len(bundles_of(data.empty_clusters(state.model, 1))) > 1:
        # A part's rows of a table are contiguous for a single cluster, but not for several.
        chain_of(kind, first=1, exact_moves=False).run()
    # The loops of k-means cells and of 2-means.
    points = numbers()
    project(points, np.ones(DIM))
    nearest_centres(points, np.ones((DIM, 3), np.float32), np.zeros(3, np.float32), np.zeros(ROWS, np.int32))
    # Merges are seldom likely enough to reach this call.
    if state.n_clusters > 1:
        state.tables = data.draw_parameters(state, KEY)
        data.sweep(state, state.tables, KEY, False)
        data.add_reverse_proposal_log_prob(state, np.array([0]), np.array([1]), np.array([1e9]))


def collapsed_state(kind: str, groups: int = GROUPS) -> tuple[State, Problem]:
    """A state for exact moves, with near pairs that need no neighbour search."""
    rows = np.arange(ROWS)
    chain = chain_of(kind, first=rows % groups)
    chain.begin()
    state, problem = chain.state, chain.problem
    state.near = Near(rows, (rows + 1) / ROWS, np.stack([(rows + 1) % ROWS, (rows + 2) % ROWS], axis=1))
    collapse(state, problem, births=8)
    return state, problem


def points(kind: str) -> None:
    """Compile moves of points between clusters, and the update of subclusters after them."""
    state, problem = collapsed_state(kind)
    data, rows = problem.data, np.arange(ROWS)
    scratch, sides = split_merge.scratches_of(state, problem).get(), (rows % 2).astype(np.int64)
    exact.shuffle(rows, 0, 1, KEY)
    exact.allocate(scratch, data.points.loop_points, rows, sides, KEY, True, exact.ONE_BY_ONE, False)
    SinglePoints(8).step(KEY, state, problem)
    contingency(state.labels, state.labels, np.zeros((ROWS, ROWS), np.int64))
    members = data.members(state, np.array([0]))[0]
    data.set_sublabels(state, [members], [np.zeros(len(members), np.uint8)])


def merges(kind: str) -> None:
    """Compile merges, and the ratios by which divisions and merges are accepted."""
    state, problem = collapsed_state(kind)
    prior = prior_for_moves(state, 4)
    split_merge.plan(KEY, 4, state, problem, prior)
    split_merge.merge(state, problem, 0, 1)
    split_merge.split_gain(state.collapsed, split_merge.scratches_of(state, problem).get(), 0)
    for ratio in (log_split_ratio, log_merge_ratio):
        ratio(prior, 2, 3.0, 4.0, 0.0, 0.0)


def draws(kind: str) -> None:
    """Compile draws from the posterior."""
    state, problem = collapsed_state(kind)
    state.cluster_seeds = likely_cluster_seeds(KEY, state, problem)
    for number in range(3):
        state, _ = sampling.step(np.uint64(number), state, problem)
        sampling.look(state, problem)
    # A point that must not leave its cluster is put back: this is rare.
    problem.data.add_to_statistics(problem.data.statistics_of(state), 0, 0, 1)
    if len(bundles_of(state.collapsed)) > 1:
        restricted_sweep.step(KEY, *collapsed_state(kind, groups=1))


TASKS: dict[str, Callable[[str], None]] = {
    "search": search, "points": points, "merges": merges, "draws": draws,
}  # fmt: skip
