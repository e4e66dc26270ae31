"""How well the sampling phase mixes: accepted moves and effective samples per second.

    python scripts/mixing.py [--mnist mnist.npz] [--iterations 2000]

One thread. From the end of a search of 100 iterations, after a warm-up of a tenth. Data: `dpmmwrap generate` with
20,000 points, and the rows X of a file if one is given.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats

from dpmmwrap.datasets import generate
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import next_key
from dpmmwrap.starts import make_initializer

POINTS = 20_000
KINDS = {"2,20,50": (2, 20, 50.0), "2,40,50": (2, 40, 50.0), "10,20,10": (10, 20, 10.0)}


class Mixing(NamedTuple):
    """What some iterations did."""

    milliseconds: float
    n_clusters: float
    ess_clusters: float
    ess_log_posterior: float
    moves: Any
    """Splits accepted and proposed, merges accepted and proposed."""


def searched(X: Any) -> Chain:
    """A chain at the end of its search."""
    X = np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)
    settings = Settings(
        DirichletProcess(), prior=NIW.from_data(X), initializer=make_initializer("kmeans"), max_iter=100,
        min_cluster_age=3, seed=0, restart_after=10, n_draws=1,
    )  # fmt: skip
    settings.bind(X, settings.full_ratio)
    chain = Chain(X, settings)
    chain.begin()
    chain.search(Interrupt())
    return chain


def mix(chain: Chain, iterations: int) -> Mixing:
    problem, state = chain.problem, chain.state
    sampling.begin(state, problem)
    moves, seen = np.zeros(4, np.int64), np.empty((2, iterations))
    begun = 0.0
    for iteration in range(-iterations // 10, iterations):
        if iteration == 0:
            begun = time.perf_counter()
        state, done = sampling.step(next_key(state.rng), state, problem)
        if iteration >= 0:
            moves += done
            seen[:, iteration] = state.n_clusters, sampling.look(state, problem).log_posterior
    seconds = time.perf_counter() - begun
    ess = [float(array_stats.ess(values[None])) / seconds for values in seen]
    return Mixing(1e3 * seconds / iterations, float(seen[0].mean()), *ess, moves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", help="a .npz file with rows X")
    parser.add_argument("--iterations", type=int, default=2000)
    given = parser.parse_args()
    data = {name: generate(dim, clusters, POINTS, spread, 0).X for name, (dim, clusters, spread) in KINDS.items()}
    if given.mnist:
        data["MNIST"] = np.load(given.mnist)["X"]
    print("| data | ms an iteration | E[K] | splits | merges | ESS of K a second | of the log posterior |")
    print("|---|---|---|---|---|---|---|")
    for name, X in data.items():
        found = mix(searched(X), given.iterations)
        splits, merges = (f"{found.moves[i]} of {found.moves[i + 1]:,}" for i in (0, 2))
        print(
            f"| {name} | {found.milliseconds:.2f} | {found.n_clusters:.2f} | {splits} | {merges} | "
            f"{found.ess_clusters:.1f} | {found.ess_log_posterior:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
