"""Which model a fit has. What is chosen for data of each kind is tested where the kinds are."""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest

from dpmmwrap import DPMM, Native
from dpmmwrap.datasets import generate
from dpmmwrap.model.choice import choose_model
from dpmmwrap.model.inputs import FitData, as_float32
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.chain import Chain


def test_ctrl_c_while_covariances_are_compared_ends_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not taken for the end of a chain that only compares."""
    begin, begun = Chain.begin, []

    def interrupted(chain: Chain) -> None:
        begun.append(chain)
        if len(begun) == 1:
            signal.raise_signal(signal.SIGINT)
        begin(chain)

    monkeypatch.setattr(Chain, "begin", interrupted)
    model = DPMM(backend=Native(n_jobs=1), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.random.default_rng(0).normal(size=(60, 2)))
    # Nothing begins after it.
    assert len(begun) == 1
    assert not hasattr(model, "labels_")


def correlated(clusters: int, each: int, dim: int, seed: int = 0) -> np.ndarray:
    """Clusters whose features follow a few directions, other ones in each cluster."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(clusters):
        directions = rng.normal(size=(3, dim))
        found.append(
            10 * rng.normal(size=dim) + rng.normal(size=(each, 3)) @ directions + rng.normal(size=(each, dim)) / 3
        )
    return np.concatenate(found)


def read(X: np.ndarray) -> FitData:
    return FitData(*as_float32(X))


def test_full_covariances_in_many_dimensions_where_clusters_have_the_points() -> None:
    found = choose_model(DPMM(), read(correlated(2, 330, 32)), DirichletProcess())
    assert found.prior.family == "full"
    assert found.reason.startswith("they make the data more probable")


KINDS = ("full", "diag", "spherical")
QUICK = {"init": "kmeans", "backend": "native", "n_chains": 2, "random_state": 0}


def balls(rng: np.random.Generator) -> np.ndarray:
    """Two that overlap."""
    return rng.normal(size=(800, 4)) + np.repeat([[0.0] * 4, [1.5] * 4], 400, axis=0)


def ellipsoids(rng: np.random.Generator) -> np.ndarray:
    """The paper's data, which a prior of too wide clusters would describe by hundreds of balls."""
    return generate(5, 10, 1000, 10.0, rng).X


DRAWN = {draw.__name__: draw for draw in (balls, ellipsoids)}
FINDS = {"balls": ("spherical", 2), "ellipsoids": ("full", 10)}


@pytest.mark.parametrize("name", DRAWN)
def test_auto_takes_what_makes_the_data_most_probable(name: str) -> None:
    X = DRAWN[name](np.random.default_rng(1)).astype(np.float32)
    warnings.simplefilter("ignore", UserWarning)
    model = DPMM(**QUICK).fit(X)
    kind, clusters = FINDS[name]
    assert abs(model.n_clusters_ - clusters) <= 1
    assert model.covariance_type_ == kind
    told = {kind: DPMM(**QUICK, covariance_type=kind).fit(X).log_evidence_ for kind in KINDS}
    best = max(told.values())
    assert model.log_evidence_ >= best - max(10.0, 0.001 * abs(best)), (model.covariance_type_, told)
