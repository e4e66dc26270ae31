"""Which model a fit has. What is chosen for data of each kind is tested where the kinds are."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM, choice
from dpmmwrap.choice import Asked, Tried, choose_model
from dpmmwrap.inputs import Read, as_float32
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
    model = DPMM(n_jobs=1, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.random.default_rng(0).normal(size=(60, 2)))
    # The other chain of the first comparison begins, and nothing after it.
    assert len(begun) == 2
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


def read(X: np.ndarray) -> Read:
    return Read(*as_float32(X))


def test_full_covariances_in_many_dimensions_where_clusters_have_the_points() -> None:
    found = choose_model(Asked(), read(correlated(2, 170, 32)))
    assert found.prior.family == "full"
    assert found.reason.startswith("they make the data more probable")


def test_no_full_covariances_of_clusters_with_fewer_points_than_features(monkeypatch: pytest.MonkeyPatch) -> None:
    X = correlated(2, 170, 32)
    monkeypatch.setattr(choice, "tried", few_points_a_cluster(len(X), 32))
    found = choose_model(Asked(), read(X))
    assert found.prior.family == "diag"
    assert found.reason == "clusters of full ones would have fewer points than the 32 features"


def few_points_a_cluster(n: int, dim: int) -> Any:
    """Full covariances are found to be far better, with one cluster too many for its points."""

    def tried(points: Any, found: Any, kind: str, asked: Any) -> Tried:
        count = n // dim + 1 if kind == "full" else 2
        return Tried(kind, 0.0 if kind == "full" else -1e6, False, count, count)

    return tried
