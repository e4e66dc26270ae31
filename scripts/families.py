"""What each family finds on data that suit it, beside its rivals: the tables of docs/families.md.

    python scripts/families.py --public DIR                 everything, about half an hour on one core
    python scripts/families.py --public DIR round text      some of the tables

DIR holds .npz files with X and y (or CSR arrays), such as g2mg_2_10.npz and text_gsdmm_TS.npz; without it, only data
that are made here or shipped with scikit-learn are used. `--penguins FILE.csv` adds that table. Default settings but
for the family; the median of five seeds. Rivals are given scaled data, k-means the true number of clusters.
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
import scipy.sparse
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import StandardScaler

from dpmmwrap import DPMM, Native
from dpmmwrap.datasets import generate

TEXTS = ("gsdmm_TS", "gsdmm_Tweet", "sttm_StackOverflow", "octis_BBC_News")
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


def gaussian_rows(name: str, X: Any, y: Any, seeds: int, rivals: bool = True, **options: Any) -> None:
    scaled = StandardScaler().fit_transform(X)
    classes = len(np.unique(y))
    row(name, "DPMM", y, ours(X, **options), seeds)
    if not rivals:
        return
    kind = DPMM(random_state=0, backend="native", max_iter=1, **options).fit(X).covariance_type_
    row(name, "k-means, given K", y, lambda s: KMeans(classes, n_init=1, random_state=s).fit_predict(scaled), seeds)
    options = {"covariance_type": kind, "reg_covar": 1e-4}
    row(name, f"EM ({kind}), given K", y, mixture_fit(GaussianMixture, scaled, classes, options), seeds)
    if X.shape[1] <= 128:
        dpgmm = mixture_fit(BayesianGaussianMixture, scaled, 2 * classes, options)
        row(name, f"DPGMM ({kind}), 2 K components", y, dpgmm, min(seeds, 2))
    row(name, "HDBSCAN", y, lambda s: HDBSCAN(min_cluster_size=10).fit_predict(scaled), 1)


def mixture_fit(kind: Any, X: Any, components: int, options: dict[str, Any]) -> Fit:
    return lambda seed: kind(n_components=components, random_state=seed, **options).fit_predict(X)


def round_clusters(arguments: argparse.Namespace) -> None:
    """Twenty round clusters, clear of each other, and twenty with full covariances."""
    for dim in (128, 256, 512):
        data = generate_round(dim)
        gaussian_rows(f"round, D = {dim}", *data, arguments.seeds)
    data = generate(128, 20, 10_000, 10, 0)
    gaussian_rows("full covariances, D = 128", data.X, data.y, min(arguments.seeds, 3))


def generate_round(dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 20, 10_000)
    return (3 * rng.normal(size=(20, dim))[y] + rng.normal(size=(10_000, dim))).astype(np.float32), y


def public(arguments: argparse.Namespace) -> None:
    """Two Gaussians in 2 to 128 dimensions; features of images; digits."""
    for dim in (2, 8, 32, 128):
        for overlap in (10, 30):
            X, y = read(arguments, f"g2mg_{dim}_{overlap}")
            gaussian_rows(f"g2mg, D = {dim}, overlap {overlap}", X, y, arguments.seeds)
    gaussian_rows("ImageNet-50", *read(arguments, "deepdpm_moco128_imagenet_50_test"), arguments.seeds)
    gaussian_rows("digits, D = 64", *load_digits(return_X_y=True), arguments.seeds)


def read(arguments: argparse.Namespace, name: str) -> tuple[Any, Any]:
    with np.load(arguments.public / f"{name}.npz") as arrays:
        if "X" in arrays:
            return arrays["X"], arrays["y"]
        parts = (arrays["data"].astype(np.float32), arrays["indices"], arrays["indptr"])
        return scipy.sparse.csr_matrix(parts, shape=tuple(arrays["shape"])), arrays["y"]


def text(arguments: argparse.Namespace) -> None:
    """Word counts of short and long documents."""
    for name in TEXTS:
        X, y = read(arguments, f"text_{name}")
        weighted, classes = TfidfTransformer().fit_transform(X), len(np.unique(y))
        row(name, "DPMM, multinomial", y, ours(X, family="multinomial"), arguments.seeds)
        row(name, "k-means on tf-idf, given K", y, kmeans_fit(weighted, classes), arguments.seeds)


def kmeans_fit(X: Any, classes: int) -> Fit:
    return lambda seed: KMeans(classes, n_init=1, random_state=seed).fit_predict(X)


def mixed(arguments: argparse.Namespace) -> None:
    """Tables of numeric and categorical columns, against the numeric ones alone."""
    for name, table, y in mixed_tables(arguments):
        numeric = np.column_stack([column for column in table.values() if column.dtype.kind == "f"])
        row(name, "DPMM, mixed", y, ours(table, family="mixed"), arguments.seeds)
        row(name, "DPMM, numeric columns alone (diag)", y, ours(numeric, covariance_type="diag"), arguments.seeds)
        row(name, "DPMM, numeric columns alone (auto)", y, ours(numeric), arguments.seeds)
        filled = StandardScaler().fit_transform(np.nan_to_num(numeric, nan=np.nanmean(numeric)))
        row(name, "k-means on numeric columns, given K", y, kmeans_fit(filled, len(np.unique(y))), arguments.seeds)


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


TABLES = {"round": round_clusters, "public": public, "text": text, "mixed": mixed, "counts": counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help=", ".join(TABLES))
    parser.add_argument("--public", type=Path, help="folder of .npz files")
    parser.add_argument("--penguins", type=Path, help="the penguins' table, a .csv file")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | method | clusters (range) | NMI | ARI | seconds |\n|---|---|---|---|---|---|")
    for name in arguments.tables or TABLES:
        if name in ("public", "text") and arguments.public is None:
            continue
        TABLES[name](arguments)


if __name__ == "__main__":
    main()
