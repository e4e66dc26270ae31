"""Fits of a few points that compile a family's loops and fill the cache before a user has to wait for them.

Each task compiles a part of what a fit needs. Tasks take about equally long and hardly overlap. Whatever a task misses
is compiled when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpmmwrap.families import FAMILIES, compiled_tasks, family_named
from dpmmwrap.families.collapsed import bundles_of
from dpmmwrap.families.example_points import DIM, GROUPS, ROWS, numbers
from dpmmwrap.numerics.labels import contingency
from dpmmwrap.numerics.row_loops import nearest_centres, project
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.moves import restricted_sweep, split_merge
from dpmmwrap.sampler.moves.single_points import SinglePoints, likely_cluster_seeds
from dpmmwrap.sampler.moves.split_merge import SplitMerge
from dpmmwrap.sampler.partition import collapse
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.proposals import Near
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import State
from dpmmwrap.starts import make_initializer

ITERATIONS = 45
"""Enough for two checks of stalled subclusters and the final greedy steps."""
KEY = np.uint64(7)


KINDS = compiled_tasks()
"""All kinds of compiled loops, each with its tasks."""
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
    if several_parts(state, data):
        # A part's rows of a table are contiguous for a single cluster, but not for several.
        chain_of(kind, first=1, exact_moves=False).run()
    label_rows()
    # Merges are seldom likely enough to reach this call.
    if state.n_clusters > 1:
        state.tables = data.draw_parameters(state, KEY)
        data.sweep(state, state.tables, KEY, False)
        data.add_reverse_proposal_log_prob(state, np.array([0]), np.array([1]), np.array([1e9]))


def several_parts(state: State, data: Data) -> bool:
    """Whether the points have several kinds of columns."""
    return len(bundles_of(data.empty_clusters(state.model, 1))) > 1


def label_rows() -> None:
    """Compile the loops of k-means cells and of 2-means."""
    points = numbers()
    project(points, np.ones(DIM))
    nearest_centres(points, np.ones((DIM, 3), np.float32), np.zeros(3, np.float32), np.zeros(ROWS, np.int32))


def collapsed_state(kind: str, groups: int = GROUPS) -> tuple[State, Problem]:
    """A state for exact moves, with near pairs that need no neighbour search."""
    rows = np.arange(ROWS)
    chain = chain_of(kind, first=rows % groups)
    chain.begin()
    state, problem = chain.state, chain.problem
    state.near = Near(rows, (rows + 1) / ROWS, np.stack([(rows + 1) % ROWS, (rows + 2) % ROWS], axis=1))
    collapse(state, problem, births=8)
    return state, problem


def sides_of_clusters(kind: str) -> None:
    """Compile the update of subclusters after exact moves."""
    chain = chain_of(kind)
    chain.begin()
    data, state = chain.problem.data, chain.state
    rows = data.members(state, np.array([0]))[0]
    data.set_sublabels(state, [rows], [np.zeros(len(rows), np.uint8)])


def exact_moves(kind: str) -> None:
    """Compile splits, merges and single-point moves with integrated parameters."""
    sides_of_clusters(kind)
    state, problem = collapsed_state(kind)
    rows = np.arange(ROWS)
    state, _ = SinglePoints(8).step(KEY, state, problem)
    state, _ = SplitMerge(4).step(KEY, state, problem)
    scratch, labels = split_merge.scratches_of(state, problem).get(), state.labels
    # Call each loop once, whatever the moves above did.
    sides = (rows % 2).astype(np.int64)
    exact.shuffle(rows, 0, 1, KEY)
    exact.present_sides(rows, labels, 1, sides)
    exact.allocate(scratch, problem.data.points.loop_points, rows, sides, KEY, True, exact.ONE_BY_ONE, False)
    split_merge.split_gain(state.collapsed, scratch, 0)
    contingency(labels, labels, np.zeros((ROWS, ROWS), np.int64))


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


def tasks() -> Iterator[tuple[str, Callable[[], None]]]:
    """All tasks by name, the longest first."""
    runs = {"search": search, "exact": exact_moves}
    for name in FAMILIES:
        family = family_named(name)
        for kind, parts in family.compiled.items():
            for part in parts:
                task = f"{kind} {part}"
                yield task, family.examples().EXTRA.get(task) or partial(runs[part], kind)
    for kind in EXAMPLES:
        yield f"{kind} draws", partial(draws, kind)
