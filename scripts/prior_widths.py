"""How the number of clusters depends on the prior's scale: the table behind the default of `NIW.from_data`.

    python scripts/prior_widths.py [MNIST.npz]        an .npz file with X and y joins the table

Each entry is the number of clusters, the NMI and the ARI, after 200 iterations with the default settings;
the last column is the reference package's default prior.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from dpmmwrap.datasets import generate
from dpmmwrap.estimator import DPMM
from dpmmwrap.families.defaults import PRIOR_WIDTH
from dpmmwrap.families.gaussian import NIW

CHOICES = (1.0, PRIOR_WIDTH, 3.0, 4.0, 6.0, 9.0)
SYNTHETIC = ((2, 20, 50), (2, 40, 50), (3, 40, 20), (5, 40, 10), (20, 20, 10))


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    sets = {}
    for path in sys.argv[1:]:
        with np.load(path) as arrays:
            sets[Path(path).stem] = (arrays["X"], arrays["y"])
    digits = load_digits()
    sets["digits, 16 principal components"] = (PCA(16, random_state=0).fit_transform(digits.data), digits.target)
    for name, load in (("iris", load_iris), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        sets[name] = load(return_X_y=True)
    for dim, clusters, spread in SYNTHETIC:
        data = generate(dim, clusters, 20_000, spread, 3)
        sets[f"generate {dim}, {clusters}, {spread}"] = (data.X, data.y)
    return sets


def entry(X: np.ndarray, y: np.ndarray, prior: NIW) -> str:
    labels = DPMM(max_iter=200, prior=prior, backend="native", random_state=0).fit_predict(X)
    nmi, ari = normalized_mutual_info_score(y, labels), adjusted_rand_score(y, labels)
    return f"{labels.max() + 1}, {nmi:.2f}, {ari:.2f}"


def main() -> None:
    warnings.simplefilter("ignore")
    print("| data | N | D | classes | " + " | ".join(f"{w:g}" for w in CHOICES) + " | reference |")
    print("|---" * (5 + len(CHOICES)) + "|")
    for name, (points, y) in data_sets().items():
        X = np.asarray(points, dtype=np.float64)
        priors = [*(NIW.from_data(X, widths) for widths in CHOICES), NIW.reference(X.shape[1])]
        entries = " | ".join(entry(X, y, prior) for prior in priors)
        print(f"| {name} | {len(X)} | {X.shape[1]} | {len(np.unique(y))} | {entries} |", flush=True)


if __name__ == "__main__":
    main()
