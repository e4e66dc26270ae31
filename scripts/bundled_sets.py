"""The README's table: default settings on the labelled sets that come with scikit-learn, beside other methods.

python scripts/bundled_sets.py
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import StandardScaler

from dpmmwrap import DPMM, Native

SETS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
SEEDS = (0, 1, 2)
MOST_COMPONENTS = 20


def median(found: list[Any], truth: Any) -> str:
    """Clusters and ARI of the seed whose ARI is the median."""
    scores = [adjusted_rand_score(truth, labels) for labels in found]
    middle = int(np.argsort(scores)[len(scores) // 2])
    return f"{len(set(found[middle][found[middle] >= 0]))}, {scores[middle]:.2f}"


def row(name: str) -> list[str]:
    X, y = SETS[name](return_X_y=True)
    classes = len(set(y))
    # The others want features of one scale.
    scaled = StandardScaler().fit_transform(X)
    ours = [DPMM(random_state=seed, backend=Native(n_jobs=-1)).fit(X).labels_ for seed in SEEDS]
    bayesian = [
        BayesianGaussianMixture(n_components=MOST_COMPONENTS, max_iter=1000, random_state=seed).fit_predict(scaled)
        for seed in SEEDS
    ]
    kmeans = [KMeans(classes, n_init=10, random_state=seed).fit_predict(scaled) for seed in SEEDS]
    density = [HDBSCAN(copy=True).fit_predict(scaled)]
    found = [median(labels, y) for labels in (ours, bayesian, density, kmeans)]
    return [name, f"{X.shape[0]:,} × {X.shape[1]}", str(classes), *found]


def main() -> None:
    warnings.simplefilter("ignore")
    print("| data | rows × features | classes | `DPMM()` | `BayesianGaussianMixture` | `HDBSCAN` | `KMeans`, K given |")
    print("|---|---|---|---|---|---|---|")
    for name in SETS:
        print("|", " | ".join(row(name)), "|", flush=True)


if __name__ == "__main__":
    main()
