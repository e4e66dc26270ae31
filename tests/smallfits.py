"""Small fits that the tests of reports and of pictures in notebooks share; each is made once."""

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from dpmmwrap import DPMM

QUICK = {"init": "kmeans", "max_iter": 12, "backend": "native", "random_state": 0}


class Fit(NamedTuple):
    model: DPMM
    X: Any


def fitted(X: Any, **settings: Any) -> Fit:
    with warnings.catch_warnings():
        # Short chains disagree, and say so.
        warnings.simplefilter("ignore", UserWarning)
        return Fit(DPMM(**(QUICK | settings)).fit(X), X)


@lru_cache(maxsize=1)
def flowers() -> Fit:
    """A table of four named features in three clusters, with draws; rows have names."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [40, 30, 20])
    X = rng.normal(size=(90, 4)) + 6 * np.eye(3, 4)[truth] + [10, 20, 30, 40]
    names = ["petal <b>length</b>", "petal width", "sepal & length", "sepal_width" + "_of_plant" * 9]
    frame = pd.DataFrame(X, columns=names, index=[f"plant {row}" for row in range(90)])
    return fitted(frame, n_draws=20, thin=1, n_chains=2, covariance_type="diag")


@lru_cache(maxsize=1)
def people() -> Fit:
    """A mixed table: ages with gaps, towns."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], 60)
    frame = pd.DataFrame(
        {
            "age": rng.normal(np.array([30.0, 60.0])[truth], 4),
            "town": np.array(["north", "south"])[(rng.random(120) < np.array([0.1, 0.9])[truth]).astype(int)],
        }
    )
    frame.loc[:4, "age"] = np.nan
    return fitted(frame, family="mixed", n_chains=1)


@lru_cache(maxsize=1)
def texts() -> Fit:
    """Sparse counts of thirty words, ten of which each of three topics has."""
    rng = np.random.default_rng(0)
    shares = np.kron(np.eye(3), np.ones(10)) + 0.05
    counts = [rng.multinomial(20, shares[k] / shares[k].sum()) for k in np.repeat([0, 1, 2], 40)]
    return fitted(sparse.csr_matrix(np.array(counts)), family="multinomial", n_chains=1)


@lru_cache(maxsize=1)
def line() -> Fit:
    """One feature, one cluster."""
    return fitted(np.random.default_rng(0).normal(size=(40, 1)), n_chains=1)


@lru_cache(maxsize=1)
def plane() -> Fit:
    """Two features in float32, two clusters that overlap, and an outlier component."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + np.repeat([[0, 0], [4, 0]], 100, axis=0)
    X[0] = 60
    return fitted(X.astype(np.float32), outlier_weight=0.02, covariance_type="full", max_iter="auto")
