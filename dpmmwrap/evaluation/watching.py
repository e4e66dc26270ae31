"""The built-in sampler with the ARI of every iteration, which only the figures of experiments use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dpmmwrap.backends import Native, Runner, Tell
from dpmmwrap.backends.native import result_of
from dpmmwrap.numerics.agreement import ari_of_table
from dpmmwrap.numerics.arrays import Float32Array
from dpmmwrap.numerics.labels import contingency
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.trace import Iteration


@dataclass(frozen=True, kw_only=True, repr=False)
class NativeWithAri(Native):
    """The built-in sampler, with `aris`: the ARI of each iteration of its last fit."""

    aris: list[float] = field(default_factory=list)

    def start(self, tell: Tell | None = None) -> Runner:
        self.aris.clear()
        return AriRunner(self.aris)


class AriRunner:
    """The native backend; a fit with the truth appends the ARI of each iteration to `ari`."""

    def __init__(self, ari: list[float]) -> None:
        self.ari = ari

    def fit(self, X: Float32Array, settings: Settings) -> Result:
        truth = settings.truth
        if truth is None:
            raise ValueError("the ARI of iterations needs the true labels")
        settings.bind(X, settings.full_ratio)
        chain = Chain(X, settings)

        def watch(number: int, iteration: Iteration) -> None:
            table = np.zeros((int(truth.max()) + 1, iteration.n_clusters), np.int64)
            contingency(truth, chain.state.labels, table)
            self.ari.append(ari_of_table(table))

        chain.problem = replace(chain.problem, settings=replace(settings, progress=watch))
        try:
            return result_of([chain.run()])
        finally:
            chain.problem.data.close()
