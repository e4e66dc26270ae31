"""A few short fits with the oldest numba that pyproject.toml admits, which `.ci/run` puts on the path.

PYTHONPATH=FOLDER python scripts/oldest_numba.py
"""

from __future__ import annotations

import re
from pathlib import Path

import numba
import numpy as np

from dpmmwrap import DPMM


def main() -> None:
    admitted = re.search(r'"numba>=([0-9.]+)"', Path("pyproject.toml").read_text())
    assert admitted and numba.__version__.startswith(admitted[1]), (admitted, numba.__version__)
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + 9.0 * truth[:, None]
    for kind in ("full", "diag"):
        model = DPMM(covariance_type=kind, init="random", backend="native", random_state=0, max_iter=30, n_chains=1)
        labels = model.fit_predict(X)
        pairs = len(set(zip(labels, truth, strict=True)))
        assert pairs == 3 == len(set(labels)), f"{kind}: {len(set(labels))} clusters instead of 3"
    print(f"numba {numba.__version__} with NumPy {np.__version__}: as expected")


if __name__ == "__main__":
    main()
