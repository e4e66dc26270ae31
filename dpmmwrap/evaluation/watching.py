"""The built-in sampler, watched: the ARI of every iteration, beside what the trace has anyway.

A trace holds no ARI because nobody but the figures of an experiment wants one; so the chain is watched from here
instead of carrying it through every fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpmmwrap.backends import Backend
from dpmmwrap.backends.native import result_of
from dpmmwrap.estimator import DPMM
from dpmmwrap.evaluation.metrics import ari_of_table
from dpmmwrap.numerics.arrays import Float32Array
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.kernels.labels import contingency
from dpmmwrap.sampler.settings import Progress, Result, Settings
from dpmmwrap.sampler.trace import Iteration


class WatchedBackend:
    """The native backend, with `ari` filled by the fit; needs the truth."""

    name = "native"

    def __init__(self) -> None:
        self.ari: list[float] = []

    def fit(self, X: Float32Array, settings: Settings) -> Result:
        truth = settings.truth
        if truth is None:
            raise ValueError("a watched fit needs the true labels")
        settings.bind(X, settings.full_ratio)
        chain = Chain(X, settings)

        def watch(number: int, iteration: Iteration) -> None:
            table = np.zeros((int(truth.max()) + 1, iteration.n_clusters), np.int64)
            contingency(truth, chain.state.labels, table)
            self.ari.append(ari_of_table(table))

        chain.context = chain.context._replace(settings=replace(settings, progress=watch))
        try:
            return result_of([chain.run()])
        finally:
            chain.context.data.close()


class WatchedDPMM(DPMM):
    """DPMM on the built-in sampler, with `aris_`: the ARI of each iteration."""

    def _started(self, chosen: Any, progress: Progress | None) -> Backend:
        self.aris_: list[float] = []
        backend = WatchedBackend()
        backend.ari = self.aris_
        return backend
