"""Memoized variational Bayes (moVB) by bnpy, which was written for the Python and NumPy of 2017."""

from __future__ import annotations

import contextlib
import inspect
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import Float64Array, IntArray

BATCHES = 10


def fit(X: Float64Array, prior: NIW, alpha: float, laps: int, seed: int) -> tuple[IntArray, int]:
    """Labels, and the number of passes over the data until nothing changed."""
    with old_names(), warnings.catch_warnings(action="ignore"), tempfile.TemporaryDirectory() as folder:
        import bnpy

        data = bnpy.data.XData(in_prior_units(X, prior))
        model, info = bnpy.run(
            data,
            "DPMixtureModel",
            "Gauss",
            "memoVB",
            output_path=folder,
            nLap=laps,
            nTask=1,
            nBatch=min(BATCHES, len(X)),
            K=1,
            gamma0=alpha,
            kappa=float(prior.mean_strength),
            nu=int(prior.degrees_of_freedom),
            ECovMat="eye",
            MMat="zero",
            moves="birth,merge,shuffle",
            initname="randexamples",
            algseed=seed,
            dataorderseed=seed,
            printEvery=-1,
            doWriteStdOut=False,
        )
        labels: IntArray = model.calc_local_params(data)["resp"].argmax(axis=1)
    return labels, int(np.max(info["lap_history"]))


def in_prior_units(X: Float64Array, prior: NIW) -> Float64Array:
    """The points in coordinates in which the prior has mean 0 and expected covariance I, as bnpy's options need it."""
    factor = np.linalg.cholesky(prior.mean_covariance()[0])
    return np.ascontiguousarray(np.linalg.solve(factor, (X - prior.mean).T).T)


@contextlib.contextmanager
def old_names() -> Iterator[None]:
    """While bnpy runs, provide names that NumPy and Python have since dropped."""
    dropped: list[tuple[Any, str, Any]] = [
        (np, "float", float),
        (np, "int", int),
        (np, "float_", np.float64),
        (np, "bool8", np.bool_),
        (np, "product", np.prod),
        (np, "asscalar", np.ndarray.item),
        (np, "Inf", np.inf),
        (inspect, "getargspec", lambda function: tuple(inspect.getfullargspec(function)[:4])),
    ]
    lacking = [(module, name, value) for module, name, value in dropped if name not in vars(module)]
    for module, name, value in lacking:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, _ in lacking:
            delattr(module, name)
