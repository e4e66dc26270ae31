"""Data that keep coming: batches against one fit, clusters that appear, move and vanish, and times.

    python scripts/streams.py batches           # 100 batches of 200 rows against one fit of all
    python scripts/streams.py moving            # against Birch, MiniBatchKMeans and, where it is installed, DBSTREAM
    python scripts/streams.py speed             # rows per second in batches, a batch of 1,000, memory

DBSTREAM is river's (pip install river); nothing else needs it.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.cluster import Birch, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM
from dpmmwrap.datasets import generate

SETS = ((2, 20, 50.0), (10, 20, 10.0))
LEAST = 5
"""Rows of a cluster in a batch that say what it is called."""


def switches(model: DPMM, before: Any) -> int:
    """How many clusters lost most of their rows of a batch to another cluster that was there before, too: by the model
    before the batch (`before`, ids of its rows) and after it."""
    after, found = model.cluster_ids_[model.labels_], 0
    for name in np.unique(before):
        own = after[before == name]
        values, counts = np.unique(own, return_counts=True)
        now = int(values[counts.argmax()])
        found += len(own) >= LEAST and now != name and name in model.cluster_ids_ and now in before
    return found


def followed(ids: Any, model: DPMM) -> Any:
    """The ids of all rows with those of a batch; rows before it that were free may have moved."""
    ids = np.append(ids, model.row_ids_)
    ids[model.window_rows_] = model.window_row_ids_
    return ids


def batches(window: int, seeds: int, points: int = 20_000, count: int = 100) -> None:
    print(
        "| set | one fit: clusters, ARI | batches: clusters, ARI, of one fit | switches | seconds: one fit, batches |"
    )
    print("|---|---|---|---|---|")
    for dim, clusters, spread in SETS:
        for seed in range(seeds):
            data = generate(dim, clusters, points, spread, seed)
            begun = time.perf_counter()
            whole = DPMM(covariance_type="full", random_state=0).fit(data.X)
            between = time.perf_counter()
            model, ids, switched = DPMM(covariance_type="full", random_state=0), np.empty(0, np.int64), 0
            for rows in np.array_split(np.arange(points), count):
                before = model.cluster_ids_[model.predict(data.X[rows])] if len(ids) else None
                ids = followed(ids, model.partial_fit(data.X[rows], window=window))
                switched += 0 if before is None else switches(model, before)
            ended = time.perf_counter()
            own = adjusted_rand_score(data.y, model.current_ids(ids))
            one = adjusted_rand_score(data.y, whole.labels_)
            print(
                f"| {dim},{clusters},{spread:g} seed {seed} | {whole.n_clusters_}, {one:.3f} | {model.n_clusters_}, "
                f"{own:.3f}, {own / one:.3f} | {switched} | {between - begun:.1f}, {ended - between:.1f} |",
                flush=True,
            )


def moving_stream(seed: int, count: int = 60, rows: int = 300) -> Iterator[tuple[Any, Any]]:
    """Three Gaussians in two dimensions, one of which moves; a fourth appears after a third, and one vanishes."""
    rng = np.random.default_rng(seed)
    for batch in range(count):
        centers = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0 + 0.1 * batch], [12.0, 12.0]])
        alive = [0, 1, 2] if batch < count // 3 else [0, 1, 2, 3] if batch < 2 * count // 3 else [0, 2, 3]
        true = rng.choice(alive, rows)
        yield (centers[true] + rng.normal(size=(rows, 2))).astype(np.float32), true


def moving(seeds: int) -> None:
    print("| method | mean ARI of a batch | least, from 3 batches after a change | clusters at the end (3) | seconds |")
    print("|---|---|---|---|---|")
    for name, make in methods().items():
        scores, late, ends, begun = [], [], [], time.perf_counter()
        for seed in range(seeds):
            step, count = make(seed), 0
            for number, (batch, true) in enumerate(moving_stream(seed)):
                labels, count = step(batch)
                score = adjusted_rand_score(true, labels)
                scores.append(score)
                if number in (22, 23, 24, 42, 43, 44):
                    late.append(score)
            ends.append(count)
        seconds = time.perf_counter() - begun
        print(
            f"| {name} | {np.mean(scores):.3f} | {min(late):.3f} | {', '.join(map(str, ends))} | {seconds:.1f} |",
            flush=True,
        )


Step = Callable[[Any], tuple[Any, int]]


def methods() -> dict[str, Callable[[int], Step]]:
    found: dict[str, Callable[[int], Step]] = {
        "dpmmwrap, forget=0.003": lambda seed: of_ours(seed, 0.003),
        "dpmmwrap": lambda seed: of_ours(seed, 0.0),
        "Birch, 4 given": lambda seed: of_sklearn(Birch(n_clusters=4)),
        "MiniBatchKMeans, 4 given": lambda seed: of_sklearn(MiniBatchKMeans(4, random_state=seed, n_init=3)),
    }
    try:
        from river.cluster import DBSTREAM  # noqa: F401
    except ImportError:
        print("river is not installed: no DBSTREAM")
    else:
        found["DBSTREAM"] = lambda seed: of_river()
    return found


def of_ours(seed: int, forget: float) -> Step:
    model = DPMM(random_state=seed)

    def step(batch: Any) -> tuple[Any, int]:
        model.partial_fit(batch, forget=forget)
        return model.labels_, model.n_clusters_

    return step


def of_sklearn(model: Any) -> Step:
    def step(batch: Any) -> tuple[Any, int]:
        labels = model.partial_fit(batch).predict(batch)
        return labels, len(np.unique(labels))

    return step


def of_river() -> Step:
    from river.cluster import DBSTREAM

    model = DBSTREAM(clustering_threshold=1.5, fading_factor=0.01, cleanup_interval=100, intersection_factor=0.3)

    def step(batch: Any) -> tuple[Any, int]:
        rows = [dict(enumerate(map(float, row))) for row in batch]
        for row in rows:
            model.learn_one(row)
        labels = [model.predict_one(row) for row in rows]
        return labels, len(set(labels))

    return step


class Source:
    """Batches of rows of one mixture, each drawn when it is needed."""

    def __init__(self, dim: int, clusters: int, spread: float) -> None:
        mixture = generate(dim, clusters, 1, spread, 0)
        self.weights, self.means = mixture.weights, mixture.means
        self.factors = np.linalg.cholesky(mixture.covariances)

    def draw(self, number: int, size: int) -> tuple[Any, Any]:
        rng = np.random.default_rng([1, number])
        true = rng.choice(len(self.weights), size, p=self.weights).astype(np.int8)
        X = rng.standard_normal((size, self.means.shape[1]), dtype=np.float32)
        for k, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            X[true == k] = mean + X[true == k] @ factor.T
        return X, true


def seconds() -> Any:
    """The clock, and the time of the processor, which says more on a busy machine."""
    return np.array([time.perf_counter(), time.process_time()])


def peak() -> float:
    """The most memory used so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def speed(rows: int, size: int = 10_000) -> None:
    source, count = Source(10, 20, 10.0), rows // size
    model = DPMM(covariance_type="full", random_state=0)
    ids, true, took = np.empty(rows, np.int32), np.empty(rows, np.int8), []
    for number in range(count):
        some = slice(number * size, (number + 1) * size)
        batch, true[some] = source.draw(number, size)
        begun = seconds()
        model.partial_fit(batch)
        took.append(seconds() - begun)
        ids[model.window_rows_], ids[some] = model.window_row_ids_, model.row_ids_
    memory, first, others = peak(), took[0], np.sum(took[1:], axis=0)
    ari = adjusted_rand_score(true, model.current_ids(ids))
    print(f"{rows:,} rows in batches of {size:,}: {model.n_clusters_} clusters, ARI {ari:.3f}, {memory:.2f} GB")
    print(
        f"  seconds (clock, processor): first {first[0]:.1f}, {first[1]:.1f}; others {others[0]:.1f}, {others[1]:.1f}"
    )
    for window in (5000, 0):
        took = []
        for number in range(50):
            batch, _ = source.draw(count + number + window, 1000)
            begun = seconds()
            model.partial_fit(batch, window=window)
            took.append(seconds() - begun)
        middle, least = 1e3 * np.median(took, axis=0), 1e3 * np.min(took, axis=0)
        print(
            f"a batch of 1,000, window {window}, milliseconds (clock, processor): "
            f"median {middle[0]:.1f}, {middle[1]:.1f}; least {least[0]:.1f}, {least[1]:.1f}", flush=True,
        )  # fmt: skip
    X = np.empty((rows, 10), np.float32)
    for number in range(count):
        X[number * size : (number + 1) * size] = source.draw(number, size)[0]
    begun = seconds()
    whole = DPMM(covariance_type="full", random_state=0).fit(X)
    took = seconds() - begun
    ari = adjusted_rand_score(true, whole.labels_)
    print(
        f"one fit of all: {took[0]:.1f}, {took[1]:.1f} s, {whole.n_iter_} iterations, {whole.n_clusters_} clusters, "
        f"ARI {ari:.3f}, {peak():.2f} GB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("batches", "moving", "speed"))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of speed")
    parser.add_argument("--window", type=int, default=5000, help="of batches")
    parser.add_argument("--seeds", type=int, default=1, help="of batches and moving")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "speed":
        speed(arguments.rows)
    elif arguments.what == "batches":
        batches(arguments.window, arguments.seeds)
    else:
        moving(arguments.seeds)
