"""Whether draws are from the posterior, with long runs: the tables of docs/posterior.md.

    python scripts/posterior.py                            everything but MNIST, about two hours on one core
    python scripts/posterior.py enumeration joint          some of the tables
    python scripts/posterior.py --mnist FILE.npz starts    FILE has X (first 20 principal components) and y

The test suite has the same with a tenth of the draws. Numbers beyond their bounds are marked with "!", and the exit
code is then 1. The script needs the packages of the tests: pip install -e '.[test]'.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.datasets import generate
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.cells import many_clusters
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.dirichlet_process import ALPHA_PRIOR
from dpmmwrap.posterior.diagnostics import diagnostic
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.starts import make_initializer
from exactness import enumeration as exact
from exactness import joint
from exactness.broken import BREAKAGES
from exactness.gibbs import plain_gibbs
from exactness.running import ALONE, Apart, apart, few_of_each, problem_of, run, uneven_cluster_seeds
from exactness.sets import FAMILIES, eight_points, families, measured, prior_of_cells
from exactness.summaries import agreement

MOST_CLUSTERS, MOST_PAIRS = 0.02, 0.02
"""Total variation distance of p(K | X), and a pair's probability, from enumeration."""
MOST_Z, MOST_TOTAL_VARIATION = 3.0, 0.05
"""Of E[K] and p(K | X) from the plain sampler's."""
LEAST_P = 1e-3
MOST_R_HAT = 1.05
SEED = 1
THIN = {"points": 5}
MOVES: dict[str, tuple[str, ...] | None] = {**ALONE, "all": None}
beyond: list[str] = []
"""Where numbers are beyond their bounds."""


def marked(text: str, fine: bool, where: str) -> str:
    if fine:
        return text
    beyond.append(where)
    return f"{text} !"


def title(text: str, columns: list[str]) -> None:
    print(f"\n{text}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def row(*cells: Any) -> None:
    print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


def distance(problem: Any, expected: exact.Expected, name: str, draws: int) -> Apart:
    """The distance of draws by some moves from enumeration."""
    moves, points = MOVES[name], problem.data.n_rows
    if moves is not None and problem.settings.partition_prior.learned:
        moves = (*moves, "alpha")
    with few_of_each():
        seen = run(problem, draws, moves, SEED, uneven_cluster_seeds(points), thin=THIN.get(name, 1))
    return apart(seen, expected)


def cell(found: Apart, where: str) -> str:
    fine = found.clusters <= MOST_CLUSTERS and found.pairs <= MOST_PAIRS and found.alpha <= MOST_CLUSTERS
    return marked(f"{found.clusters:.3f} {found.pairs:.3f}", fine, where)


def enumeration(arguments: argparse.Namespace) -> None:
    """Three sets of eight points."""
    title(
        f"Eight points, all 4,140 partitions; {arguments.draws:,} draws: TV of p(K), largest difference of a pair",
        ["points", "alpha", "exact E[K]", *MOVES],
    )
    for kind in ("spread out", "two groups", "one group"):
        for alpha, strength in ((1.0, 0.1), (10.0, 1.0), ((2.0, 1.0), 0.1)):
            X, prior = eight_points(kind, strength)
            expected = exact.posterior(X, prior, alpha)
            problem = problem_of(X, prior, alpha)
            cells = [
                cell(distance(problem, expected, name, arguments.draws), f"{kind}, {alpha}, {name}") for name in MOVES
            ]
            name = f"{alpha:g}" if isinstance(alpha, float) else "learned"
            row(kind, name, f"{expected.clusters @ np.arange(9):.2f}", *cells)


def every_family(arguments: argparse.Namespace) -> None:
    """Seven points of each family."""
    title(
        f"Seven points of every family, alpha = 1; {arguments.draws:,} draws: TV of p(K), largest difference of a pair",
        ["family", *MOVES, "all, alpha learned, outliers", "all, at most 2 clusters"],
    )
    for name in FAMILIES:
        X, prior = families()[name]
        expected, problem = exact.posterior(X, prior, 1.0), problem_of(X, prior, 1.0)
        cells = [cell(distance(problem, expected, moves, arguments.draws), f"{name}, {moves}") for moves in MOVES]
        broad = prior.outliers(X)
        problem = problem_of(X, prior, (2.0, 1.0), outlier_weight=0.2, outlier_prior=broad)
        expected = exact.posterior(X, prior, (2.0, 1.0), outliers=(0.2, broad))
        cells.append(cell(distance(problem, expected, "all", arguments.draws), f"{name}, outliers"))
        problem = problem_of(X, prior, 1.0, max_clusters=2)
        expected = exact.posterior(X, prior, 1.0, max_clusters=2)
        cells.append(cell(distance(problem, expected, "all", arguments.draws), f"{name}, max_clusters"))
        row(name, *cells)


def joint_tests(arguments: argparse.Namespace) -> None:
    """Geweke's test, and simulation-based calibration."""
    iterations, names = arguments.draws // 5, joint.FEATURES + joint.LEARNED_FEATURES
    title(
        f"Geweke's test: z-scores of {iterations:,} iterations of 8 points, 5 where the prior is learned",
        ["family", *names],
    )
    for family in joint.FAMILIES:
        with few_of_each():
            z = joint.geweke(family, 5 if family in joint.HYPERPRIORS else 8, iterations, iterations, SEED)
        cells = [marked(f"{value:.1f}", abs(value) < 4, f"geweke {family}") for value in z]
        row(family, *cells, *[""] * (len(names) - len(cells)))
    names = joint.QUANTITIES + joint.LEARNED
    title(
        f"Simulation-based calibration: {arguments.sets} data sets of 50 points, 99 draws of each, thinned by 10; "
        "p-values of uniform ranks (chi-square, 20 bins)",
        ["family", *(name.replace("_", " ") for name in names)],
    )
    for family in joint.FAMILIES:
        ranks = joint.calibrate(family, arguments.sets, 50, draws=99, thin=10, seed=SEED)
        chances = [joint.uniformity(own, 99, 20) for own in ranks.values()]
        cells = [marked(f"{p:.2f}", p > LEAST_P, f"calibration {family}") for p in chances]
        row(family, *cells, *[""] * (len(names) - len(cells)))


def plain(arguments: argparse.Namespace) -> None:
    """A plain collapsed Gibbs sampler."""
    title(
        f"A plain collapsed Gibbs sampler ({2 * arguments.draws:,} sweeps), and ours ({4 * arguments.draws:,} steps)",
        ["data", "width", "alpha", "E[K], plain", "E[K], ours", "z", "TV of p(K)", "pairs", "E[alpha]", "ESS of K"],
    )
    for name, width in (("iris", 2.0), ("iris", 0.7), ("penguins-like", 2.0), ("faithful-like", 2.0)):
        X = measured(name)
        prior = prior_of_cells(X, width)
        for alpha in (1.0, ALPHA_PRIOR):
            theirs = plain_gibbs(X, prior, alpha, arguments.draws // 10, thin=20, seed=SEED)
            ours = run(problem_of(X, prior, alpha), arguments.draws // 5, thin=20, seed=SEED)
            found = agreement(theirs, ours)
            where = f"plain {name} {width} {alpha}"
            row(
                name, width, "1" if alpha == 1.0 else "learned", f"{found.one:.3f}", f"{found.other:.3f}",
                marked(f"{found.z:.1f}", found.z < MOST_Z, where),
                marked(f"{found.clusters:.3f}", found.clusters < MOST_TOTAL_VARIATION, where),
                f"{found.pairs:.3f}", f"{found.alphas[0]:.2f} {found.alphas[1]:.2f}",
                f"{found.sizes[0]:,.0f} {found.sizes[1]:,.0f}",
            )  # fmt: skip


def broken(arguments: argparse.Namespace) -> None:
    """The result of each check for moves that are broken on purpose."""
    draws = arguments.draws // 5
    title(
        f"Broken on purpose: TV of p(K) from enumeration ({draws:,} draws, alpha learned), each move alone and all; "
        "the largest |z| of Geweke's test; the smallest p-value of calibration; z and TV against the plain sampler "
        "(iris, prior width 0.7, alpha = 10)",
        ["what is wrong", *MOVES, "Geweke", "calibration", "plain sampler"],
    )
    few = families()["full"]
    learned = (2.0, 1.0)
    expected, problem = exact.posterior(*few, learned), problem_of(*few, learned)
    iris = measured("iris")
    prior = prior_of_cells(iris, 0.7)
    theirs = plain_gibbs(iris, prior, 10.0, 4000, thin=5, seed=SEED)
    wrong: dict[str, Callable[[], Any]] = {"nothing": nullcontext, **BREAKAGES}
    for name, breaking in wrong.items():
        with breaking():
            cells = [f"{distance(problem, expected, moves, draws).clusters:.3f}" for moves in MOVES]
            with few_of_each():
                z = joint.geweke("full", 8, 4000, 4000, SEED)
            ranks = joint.calibrate("full", 100, 50, draws=49, thin=10, seed=SEED)
            p = min(joint.uniformity(own, 49, 10) for own in ranks.values())
            ours = agreement(theirs, run(problem_of(iris, prior, 10.0), 4000, thin=3, seed=SEED))
            row(name, *cells, f"{np.abs(z).max():.1f}", f"{p:.1g}", f"{ours.z:.1f} {ours.clusters:.2f}")


def starts(arguments: argparse.Namespace) -> None:
    """Chains from one cluster, from many and from the truth."""
    title(
        "Chains from one cluster, from many and from the truth, two seeds of each: 100 iterations of search, "
        f"{arguments.start_draws:,} draws thinned by 5, alpha learned",
        ["data", "N", "D", "E[K] from one", "many", "truth", "log posterior from one", "many", "truth", "R-hat of it",
         "after a fifth of the draws", "ESS", "R-hat of K", "s a chain"],
    )  # fmt: skip
    for name, (X, y) in data_sets(arguments).items():
        prior = NIW.from_data(X)
        numbers, logs, seconds = [], [], []
        for first in ("one", "many", "truth"):
            for seed in (SEED, SEED + 1):
                begun = time.perf_counter()
                draws = chain_from(X, y, prior, first, seed, arguments.start_draws)
                seconds.append(time.perf_counter() - begun)
                numbers.append(draws.n_clusters[0])
                logs.append(draws.log_posterior[0])
        agree = diagnostic("log_posterior", np.array(logs, float))
        early = diagnostic("log_posterior", np.array(logs, float)[:, : arguments.start_draws // 5])
        clusters = diagnostic("n_clusters", np.array(numbers, float))
        means = [f"{np.mean(numbers[2 * place : 2 * place + 2]):.2f}" for place in range(3)]
        heights = [f"{np.mean(logs[2 * place : 2 * place + 2]):,.1f}" for place in range(3)]
        fine = agree.r_hat < MOST_R_HAT or name == "MNIST"
        row(
            name, f"{len(X):,}", X.shape[1], *means, *heights, marked(f"{agree.r_hat:.3f}", fine, f"starts {name}"),
            f"{early.r_hat:.3f}", f"{agree.ess_bulk:,.0f}", f"{clusters.r_hat:.3f}", f"{np.mean(seconds):.0f}",
        )  # fmt: skip


def chain_from(X: Any, y: Any, prior: NIW, first: str, seed: int, draws: int) -> Any:
    """The draws of one chain."""
    settings = Settings(
        DirichletProcess(), prior, make_initializer("kmeans"), max_iter=100, min_cluster_age=3, seed=seed,
        restart_after=10, n_draws=draws, thin=5, keep_labels=False,
    )  # fmt: skip
    if first == "many":
        settings = replace(settings, init_clusters=many_clusters(X, seed, prior.embedder(X), X.shape[1]))
    if first == "truth":
        settings = replace(settings, init_clusters=np.unique(y, return_inverse=True)[1].astype(np.int32))
    return NativeBackend().fit(X, settings).draws


def data_sets(arguments: argparse.Namespace) -> dict[str, tuple[Any, Any]]:
    from sklearn.datasets import load_digits, load_iris, load_wine
    from sklearn.decomposition import PCA

    found = {}
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        data = load()
        found[name] = data.data.astype(np.float32), data.target
    digits = load_digits()
    found["digits, PCA-16"] = PCA(16, random_state=0).fit_transform(digits.data).astype(np.float32), digits.target
    data = generate(2, 20, 20_000, 50.0, seed=SEED)
    found["generate 2, 20, 50"] = data.X, data.y
    if arguments.mnist is not None:
        with np.load(arguments.mnist, allow_pickle=False) as file:
            found["MNIST"] = file["X"].astype(np.float32), file["y"]
    return found


TABLES = {
    "enumeration": enumeration, "families": every_family, "joint": joint_tests, "plain": plain, "broken": broken,
    "starts": starts,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)}; all without it")
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--sets", type=int, default=200, help="data sets of simulation-based calibration")
    parser.add_argument("--start-draws", type=int, default=5000, help="draws of each chain of the table starts")
    parser.add_argument("--mnist", type=Path)
    arguments = parser.parse_args()
    for name in arguments.tables or TABLES:
        begun = time.perf_counter()
        TABLES[name](arguments)
        print(f"\n({name}: {time.perf_counter() - begun:.0f} s)", flush=True)
    for where in beyond:
        print(f"beyond its bound: {where}")
    return int(bool(beyond))


if __name__ == "__main__":
    sys.exit(main())
