"""What families find on data that suit them: the table of docs/families.md.

    python scripts/families.py                   everything, about ten minutes on one core
    python scripts/families.py round mixed       some of the tables

`--penguins FILE.csv` adds that table. Default settings but for the family; the median of five seeds. k-means gets
scaled data and the true number of clusters.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

from dpmmwrap import DPMM, Native
from dpmmwrap.datasets import generate

Fit = Callable[[int], Any]


def row(name: str, method: str, y: Any, fit: Fit, seeds: int) -> None:
    """Run a method with several seeds and print the median of what it finds."""
    found = []
    for seed in range(seeds):
        begun = time.perf_counter()
        labels = np.asarray(fit(seed))
        seconds = time.perf_counter() - begun
        clusters = len(np.unique(labels[labels >= 0]))
        found.append((clusters, normalized_mutual_info_score(y, labels), adjusted_rand_score(y, labels), seconds))
    clusters, nmi, ari, seconds = np.median(np.array(found), axis=0)
    spread = f"{min(entry[0] for entry in found)}-{max(entry[0] for entry in found)}"
    print(f"| {name} | {method} | {clusters:.0f} ({spread}) | {nmi:.3f} | {ari:.3f} | {seconds:.1f} |", flush=True)


def ours(X: Any, **options: Any) -> Fit:
    return lambda seed: DPMM(random_state=seed, backend=Native(n_jobs=1), **options).fit_predict(X)


def kmeans(X: Any, classes: int) -> Fit:
    scaled = StandardScaler().fit_transform(X)
    return lambda seed: KMeans(classes, n_init=1, random_state=seed).fit_predict(scaled)


def round_clusters(arguments: argparse.Namespace) -> None:
    """Twenty round clusters, clear of each other, and twenty with full covariances."""
    for dim in (128, 256, 512):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 20, 10_000)
        X = (3 * rng.normal(size=(20, dim))[y] + rng.normal(size=(10_000, dim))).astype(np.float32)
        row(f"round, D = {dim}", "DPMM", y, ours(X), arguments.seeds)
        row(f"round, D = {dim}", "k-means, given K", y, kmeans(X, 20), arguments.seeds)
        row(f"round, D = {dim}", "HDBSCAN", y, lambda seed, X=X: HDBSCAN(min_cluster_size=10).fit_predict(X), 1)
    data = generate(128, 20, 10_000, 10, 0)
    row("full covariances, D = 128", "DPMM", data.y, ours(data.X), min(arguments.seeds, 3))


def mixed(arguments: argparse.Namespace) -> None:
    """Tables of numeric and categorical columns, against the numeric ones alone."""
    for name, table, y in mixed_tables(arguments):
        numeric = np.column_stack([column for column in table.values() if column.dtype.kind == "f"])
        row(name, "DPMM, mixed", y, ours(table, family="mixed"), arguments.seeds)
        row(name, "DPMM, numeric columns alone (diag)", y, ours(numeric, covariance_type="diag"), arguments.seeds)
        row(name, "DPMM, numeric columns alone (auto)", y, ours(numeric), arguments.seeds)
        filled = np.nan_to_num(numeric, nan=np.nanmean(numeric))
        row(name, "k-means on numeric columns, given K", y, kmeans(filled, len(np.unique(y))), arguments.seeds)


def mixed_tables(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, np.ndarray], np.ndarray]]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 2000)
    # Groups that differ a little in the numbers, and clearly in two of three categories.
    table = {f"x{j}": 1.2 * rng.normal(size=4)[y] + rng.normal(size=2000) for j in range(4)}
    for column, levels in (("a", 4), ("b", 3), ("c", 5)):
        shares = rng.dirichlet(np.full(levels, 0.3), size=4) if column != "c" else np.full((4, 5), 0.2)
        table[column] = np.array([f"{column}{rng.choice(levels, p=shares[k])}" for k in y])
    yield "synthetic, categories tell", table, y
    y = rng.integers(0, 5, 2000)
    table = {f"x{j}": 3 * rng.normal(size=5)[y] + rng.normal(size=2000) for j in range(5)}
    table["noise"] = np.array([f"n{level}" for level in rng.integers(0, 6, 2000)])
    for column in list(table)[:5]:
        table[column][rng.random(2000) < 0.1] = np.nan
    yield "synthetic, 10% missing, a category of noise", table, y
    if arguments.penguins:
        with arguments.penguins.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        numbers = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
        gaps = ("", "NA")
        table = {name: np.array([np.nan if r[name] in gaps else float(r[name]) for r in rows]) for name in numbers}
        table |= {name: np.array([r[name] if r[name] != "NA" else "" for r in rows]) for name in ("island", "sex")}
        yield "penguins", table, np.unique([r["species"] for r in rows], return_inverse=True)[1]


def counts(arguments: argparse.Namespace) -> None:
    """A million rows of 100 counts from six clusters, 100 iterations, one core."""
    rng = np.random.default_rng(0)
    shares, y = rng.dirichlet(np.full(100, 0.3), 6), rng.integers(0, 6, 1_000_000)
    X = np.empty((len(y), 100), np.float32)
    for k in range(6):
        X[y == k] = rng.multinomial(50, shares[k], size=int((y == k).sum()))
    ours(X[:3000], family="multinomial", max_iter=10)(0)
    row("10^6 x 100, 6 clusters", "DPMM, multinomial", y, ours(X, family="multinomial"), 1)


TABLES = {"round": round_clusters, "mixed": mixed, "counts": counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help=", ".join(TABLES))
    parser.add_argument("--penguins", type=Path, help="the penguins' table, a .csv file")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | method | clusters (range) | NMI | ARI | seconds |\n|---|---|---|---|---|---|")
    for name in arguments.tables or TABLES:
        TABLES[name](arguments)


if __name__ == "__main__":
    main()
