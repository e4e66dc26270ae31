"""The speed of the built-in sampler beside its floor, the reference, scikit-learn, and itself at other sizes.

    python scripts/benchmark.py                       everything, about ten minutes on two cores
    python scripts/benchmark.py sweep threads         some of the tables
    python scripts/benchmark.py --json --out DIR      the numbers as JSON, and a picture in DIR

Every ratio is taken within one run, alternating between the two sides, from the fastest repetition of each: a
shared machine only ever makes things slower. What cannot be run is marked as missing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from threadpoolctl import threadpool_limits

from dpmmwrap.backends import Julia, Native
from dpmmwrap.datasets import generate
from dpmmwrap.estimator import DPMM
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.starts import make_initializer

SIZES = ((2, 20, 50), (5, 20, 10), (10, 20, 10), (20, 20, 10))
Row = dict[str, Any]
DPGMM_ENDS: dict[str, dict[str, Any]] = {
    "its own rule, tol 1e-3": {"max_iter": 1000},
    "200 iterations, tol 0": {"max_iter": 200, "tol": 0.0},
}
EQUAL_NMI, EQUAL_NMI_ITERATIONS = 0.005, (10, 20, 30, 50, 100, 200)


def fastest(*tasks: Callable[[], Any], repetitions: int = 15) -> list[float]:
    """Seconds of the fastest repetition of each task, taken in turn."""
    best = [float("inf")] * len(tasks)
    for task in tasks:
        task()
    for _ in range(repetitions):
        for number, task in enumerate(tasks):
            begun = time.perf_counter()
            task()
            best[number] = min(best[number], time.perf_counter() - begun)
    return best


def settled_chain(X: np.ndarray, y: np.ndarray, n_jobs: int = 1, warm: int = 10, exact: bool = False) -> Chain:
    """A chain at the true clusters, after a few iterations; exact moves, which come now and then, are asked for."""
    settings = Settings(
        DirichletProcess(10.0), NIW.from_data(X), make_initializer("random"), 10**6, 5, 0, init_clusters=y,
        n_jobs=n_jobs, restart_after=10, exact_moves=exact,
    )  # fmt: skip
    settings.bind(X, settings.full_ratio)
    chain = Chain(X, settings)
    chain.begin()
    for _ in range(warm):
        chain.iterate()
    return chain


def whitening_product(X: np.ndarray, clusters: int) -> Callable[[], None]:
    """The floor: one float32 product of the data with all whitening factors, in cache-sized pieces."""
    dim = X.shape[1]
    factors = np.random.default_rng(0).normal(size=(dim, clusters * dim)).astype(np.float32)
    pieces = min((256, 1024), key=lambda piece: fastest(lambda: multiply(X, factors, piece), repetitions=5)[0])
    return lambda: multiply(X, factors, pieces)


def multiply(X: np.ndarray, factors: np.ndarray, piece: int) -> None:
    out = np.empty((piece, factors.shape[1]), np.float32)
    for begin in range(0, len(X), piece):
        part = X[begin : begin + piece]
        np.dot(part, factors, out=out[: len(part)])


def sweep() -> list[Row]:
    """One sweep against the floor, and all of an iteration outside the sweep, N = 20,000, one thread."""
    warm_up()
    return [sweep_row(*size) for size in SIZES]


def warm_up() -> None:
    """Take every step once: loading it from disk takes longer than taking it."""
    data = generate(2, 10, 2000, 50, 0)
    for init_clusters in (1, "many"):
        ours(init_clusters)(data.X)


def sweep_row(dim: int, clusters: int, spread: float) -> Row:
    data = generate(dim, clusters, 20_000, spread, 0)
    chain = settled_chain(data.X, data.y)
    own = chain.problem.data
    tables = own.draw_parameters(chain.state, np.uint64(0))
    floor, swept = fastest(
        whitening_product(data.X, clusters), lambda: own.sweep(chain.state, tables, np.uint64(1), False)
    )
    plain, inside = own.sweep, 0.0

    def timed(*arguments: Any) -> Any:
        nonlocal inside
        start = time.perf_counter()
        result = plain(*arguments)
        inside += time.perf_counter() - start
        return result

    own.sweep = timed  # type: ignore[method-assign]
    whole = 200 * mean_iteration(chain)
    return {
        "D": dim, "K": chain.state.n_clusters, "floor ms": 1e3 * floor, "sweep ms": 1e3 * swept,
        "sweep / floor": swept / floor, "iteration ms": 1e3 * whole / 200, "outside / sweep": (whole - inside) / inside,
        "with exact moves ms": 1e3 * mean_iteration(settled_chain(data.X, data.y, exact=True)),
    }  # fmt: skip


def mean_iteration(chain: Chain, iterations: int = 200) -> float:
    begun = time.perf_counter()
    for _ in range(iterations):
        chain.iterate()
    return (time.perf_counter() - begun) / iterations


def fits() -> list[Row]:
    """Whole fits of 200 iterations, N = 20,000, random starts, one thread, beside the others."""
    warm_up()
    julia_labels(generate(2, 2, 500, 10, 0).X)
    return [row for size in SIZES for row in fit_rows(*size)]


def fit_rows(dim: int, clusters: int, spread: float) -> list[Row]:
    data = generate(dim, clusters, 20_000, spread, 0)
    many = BayesianGaussianMixture(n_components=100, max_iter=1000, random_state=0)
    methods = {
        "built in, one first cluster": ours(1),
        "built in, one first cluster, the reference's ratio": ours(1, ratio="reference"),
        "built in, many first clusters": ours("many"),
        "built in, many first clusters, 50 iterations": ours("many", 50),
        "built in, one first cluster, 30 iterations": ours(1, 30),
        "built in, from the true labels": ours(data.y),
        "reference (Julia), one first cluster": julia_labels,
        "reference (Julia), from the true labels": lambda X: julia_labels(X, data.y),
        "scikit-learn's DPGMM, 100 components": many.fit_predict,
        "EM, true K": GaussianMixture(n_components=clusters, random_state=0).fit_predict,
        "k-means, true K": KMeans(n_clusters=clusters, n_init=1, random_state=0).fit_predict,
    }
    rows = []
    for name, fit in methods.items():
        labels, seconds = timed_fit(fit, data.X)
        found = {"NMI": None, "clusters": None, "seconds": None}
        if labels is not None:
            nmi = float(normalized_mutual_info_score(data.y, labels))
            found = {"NMI": nmi, "clusters": len(np.unique(labels)), "seconds": seconds}
        rows.append({"D": dim, "K": clusters, "method": name, **found})
    columns = ("one first cluster", "the same, reference's ratio", "many", "many, 50", "one, 30", "the truth")
    for row in rows:
        for name, own in zip(columns, rows, strict=False):
            row[f"against {name}"] = row["seconds"] and row["seconds"] / own["seconds"]
    return rows


def dpgmm() -> list[Row]:
    """scikit-learn's DPGMM of 100 components, ended in two ways, beside our default fit and beside the quickest of
    twelve fits of ours that has its NMI (within .005), N = 20,000, one thread."""
    warm_up()
    return [row for size in SIZES for row in dpgmm_rows(*size)]


def dpgmm_rows(dim: int, clusters: int, spread: float) -> list[Row]:
    data = generate(dim, clusters, 20_000, spread, 0)

    def measured(model: Any) -> Row:
        labels, seconds = timed_fit(model.fit_predict, data.X)
        return {"seconds": seconds, "NMI": float(normalized_mutual_info_score(data.y, labels))}

    default = measured(DPMM(random_state=0, backend=Native(n_jobs=1)))
    tried = {
        f"{first} first, {iterations} iterations": measured(fit_of(first, iterations))
        for first, iterations in itertools.product((1, "many"), EQUAL_NMI_ITERATIONS)
    }
    rows = []
    for name, stopping in DPGMM_ENDS.items():
        model = BayesianGaussianMixture(n_components=100, random_state=0, **stopping)
        theirs = measured(model)
        equal = {ours: row for ours, row in tried.items() if row["NMI"] > theirs["NMI"] - EQUAL_NMI}
        quickest = min(equal, key=lambda ours: equal[ours]["seconds"], default=None)
        row = {"D": dim, "K": clusters, "DPGMM ended by": name, "its iterations": model.n_iter_}
        row |= {"its s": theirs["seconds"], "its NMI": theirs["NMI"], "default fit s": default["seconds"]}
        row |= {"default NMI": default["NMI"], "default, times as fast": theirs["seconds"] / default["seconds"]}
        row |= {"ours at equal NMI": quickest, "equal NMI s": None, "equal NMI, times as fast": None}
        if quickest is not None:
            seconds = equal[quickest]["seconds"]
            row |= {"equal NMI s": seconds, "equal NMI, times as fast": theirs["seconds"] / seconds}
        rows.append(row)
    return rows


def timed_fit(fit: Callable[[np.ndarray], Any], X: np.ndarray) -> tuple[Any, float]:
    """Labels and seconds; what takes less than ten seconds is done twice, and the faster one counts."""
    best = float("inf")
    for _ in range(2):
        begun = time.perf_counter()
        labels = fit(X)
        best = min(best, time.perf_counter() - begun)
        if best > 10:
            break
    return labels, best


def ours(
    init_clusters: int | str | np.ndarray, iterations: int = 200, ratio: str = "auto"
) -> Callable[[np.ndarray], np.ndarray]:
    return fit_of(init_clusters, iterations, ratio).fit_predict


def fit_of(init_clusters: int | str | np.ndarray, iterations: int, ratio: str = "auto") -> DPMM:
    return DPMM(
        init="random", init_clusters=init_clusters, max_iter=iterations, random_state=0, covariance_type="full",
        backend=Native(n_jobs=1, ratio=ratio),
    )  # fmt: skip


def start() -> list[Row]:
    """Seconds from a cold start: import, --help, and a first fit before and after the kernels are on disk."""
    code = "from dpmmwrap import DPMM; import numpy as np; DPMM(init='random', max_iter=20, backend='native')"
    code += ".fit(np.random.default_rng(0).normal(size=(2000, 2)))"
    commands = {
        "import dpmmwrap": ["-c", "import dpmmwrap"],
        "dpmmwrap --help": ["-m", "dpmmwrap", "--help"],
        "first fit, kernels compiled": ["-c", code],
        "first fit, kernels on disk": ["-c", code],
    }
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in commands.items():
            begun = time.perf_counter()
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=True)
            table.append({"what": name, "seconds": time.perf_counter() - begun})
    return table


def julia_labels(X: np.ndarray, init_clusters: int | np.ndarray = 1) -> np.ndarray | None:
    """Labels by the reference, or None where there is no Julia."""
    from dpmmwrap.backends import julia

    if not julia.is_set_up():
        return None
    options = {"init_clusters": init_clusters, "backend": Julia(ratio="reference")}
    return DPMM(init="random", max_iter=200, random_state=0, **options).fit_predict(X)


def threads() -> list[Row]:
    """Two threads against one: an iteration at D = 10, K = 20."""
    table = []
    for rows in (20_000, 200_000, 1_000_000):
        data = generate(10, 20, rows, 10, 0)
        chains = [settled_chain(data.X, data.y, n_jobs, warm=2) for n_jobs in (1, 2)]
        one, two = fastest(chains[0].iterate, chains[1].iterate, repetitions=25)
        table.append({"N": rows, "one thread ms": 1e3 * one, "two threads ms": 1e3 * two, "faster": one / two})
    return table


def points() -> list[Row]:
    """Time per point and iteration against N, and memory beyond the data and the interpreter, D = 10, K = 20."""
    table = []
    for rows in (10_000, 100_000, 1_000_000, 10_000_000):
        ran = subprocess.run(
            [sys.executable, __file__, "--child", str(rows)], capture_output=True, text=True, check=True
        )
        table.append(json.loads(ran.stdout.splitlines()[-1]))
    return table


def child(rows: int) -> None:
    """One memory-mapped data set in a process of its own, so that its peak memory can be seen."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        code = f"import numpy; from dpmmwrap.datasets import generate; d = generate(10, 20, {rows}, 10, 0)"
        code += f"; numpy.save({str(path)!r}, d.X); numpy.save({str(path) + '.y.npy'!r}, d.y)"
        subprocess.run([sys.executable, "-c", code], check=True)
        small = generate(10, 3, 2000, 10, 0)
        settled_chain(small.X, small.y, warm=2)
        before = peak_megabytes()
        X, y = np.load(path, mmap_mode="r"), np.load(str(path) + ".y.npy", mmap_mode="r")
        chain = settled_chain(X, y, warm=2)
        (seconds,) = fastest(chain.iterate, repetitions=20 if rows < 10**6 else 3)
        beyond = peak_megabytes() - before - X.nbytes / 2**20
        row = {"N": rows, "ms": 1e3 * seconds, "ns per point": 1e9 * seconds / rows}
        print(json.dumps(row | {"MB beyond data": beyond, "MB allowed": 32 * rows / 2**20 + 200}))


def peak_megabytes() -> float:
    """Peak memory of this process alone; what getrusage says, a process may have from the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clusters() -> list[Row]:
    """Time of an iteration against K, D = 10, N = 200,000, one thread."""
    table: list[Row] = []
    for count in (10, 20, 40, 80, 160, 320):
        data = generate(10, count, 200_000, 10, 0)
        (seconds,) = fastest(settled_chain(data.X, data.y, warm=2).iterate, repetitions=5)
        table.append(
            {"K": count, "ms": 1e3 * seconds, "against K=10": seconds / (table[0]["ms"] / 1e3) if table else 1}
        )
    return table


def dask() -> list[Row]:
    """Two threads in one process against Dask's workers on the same two cores, D = 10, K = 20: medians of iterations in
    turn; bytes are of a sweep, for two workers."""
    import benchmark_dask

    return benchmark_dask.rows()


def calls() -> list[Row]:
    """A call of all workers with as many bytes as a sweep at D = 10, K = 20, and nothing to do."""
    import benchmark_dask

    return benchmark_dask.calls()


def serve() -> list[Row]:
    """Labels of new rows by a fitted mixture, all cores, beside one float32 product of the same sizes, and k-means."""
    import benchmark_serve

    return benchmark_serve.rows()


TABLES = {
    "start": start,
    "sweep": sweep,
    "fits": fits,
    "dpgmm": dpgmm,
    "threads": threads,
    "points": points,
    "clusters": clusters,
    "dask": dask,
    "calls": calls,
    "serve": serve,
}


def picture(results: dict[str, list[Row]], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, name, x, y in ((axes[0], "points", "N", "ns per point"), (axes[1], "clusters", "K", "ms")):
        rows = results.get(name, [])
        axis.loglog([row[x] for row in rows], [row[y] for row in rows], "o-", color="#0072B2")
        if name == "points":
            # Nearly the same for all: from zero, or a tenth would look like a mountain.
            axis.set_yscale("linear")
            axis.set_ylim(bottom=0)
        axis.set_xlabel({"N": "points", "K": "clusters (200,000 points)"}[x])
        axis.set_ylabel({"ms": "milliseconds per iteration"}.get(y, "nanoseconds per point and iteration"))
        axis.grid(alpha=0.3, which="both")
    figure.suptitle("Built-in sampler, 10 dimensions, one thread")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "benchmark.png", dpi=150)


def show(title: str, rows: list[Row]) -> None:
    print(f"\n{title}\n")
    names = list(rows[0])
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        cells = ["missing" if v is None else f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()]
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help=", ".join(TABLES))
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--out", type=Path, help="folder for a picture of time against N and K")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # The floor and scikit-learn get the threads that we get.
    with threadpool_limits(1):
        if arguments.child:
            child(arguments.child)
        else:
            run(arguments)


def run(arguments: argparse.Namespace) -> None:
    machine = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    results = {}
    for name in arguments.tables or TABLES:
        results[name] = TABLES[name]()
        if not arguments.json:
            show(TABLES[name].__doc__ or name, results[name])
    if arguments.json:
        print(json.dumps({"machine": machine, **results}, indent=1))
    else:
        print(f"\nMeasured on {machine}.")
    if arguments.out:
        picture(results, arguments.out)


if __name__ == "__main__":
    main()
