"""Fits with other priors over partitions: what the estimator keeps of them, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM, DirichletProcess, FiniteMixture, Native, PitmanYor, load

QUICK: dict[str, Any] = {
    "init": "kmeans", "covariance_type": "full", "n_chains": 1, "backend": "native", "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.concatenate([np.random.default_rng(0).normal(size=(60, 2)) + 9 * k for k in (0, 1, 1)])


@pytest.fixture(scope="module")
def learned(X: np.ndarray) -> DPMM:
    return DPMM(**QUICK, partition_prior="pitman-yor", n_draws=60, thin=1).fit(X)


def test_a_learned_discount_is_kept_with_the_draws(learned: DPMM) -> None:
    assert learned.n_clusters_ == 2
    draws = learned.draws_
    assert draws.discount.shape == draws.alpha.shape and np.ptp(draws.discount) > 0.1
    assert learned.partition_prior_.values == pytest.approx((draws.alpha.mean(), draws.discount.mean()))
    assert learned.alpha_ == learned.partition_prior_.alpha
    assert "discount" in [one.name for one in learned.diagnostics_]


def test_weights_of_clusters_are_those_of_the_next_point(learned: DPMM, X: np.ndarray, tmp_path: Path) -> None:
    sizes = np.bincount(learned.labels_) - learned.partition_prior_.values[1]
    np.testing.assert_allclose(learned.weights_, sizes / sizes.sum())
    learned.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.weights, learned.weights_)
    np.testing.assert_array_equal(loaded.score_samples(X), learned.score_samples(X))
    np.testing.assert_array_equal(loaded.draws.discount, learned.draws_.discount)


def test_a_finite_mixture(X: np.ndarray) -> None:
    model = DPMM(**QUICK, partition_prior=FiniteMixture(2.0, 1.0)).fit(X)
    assert model.n_clusters_ == 2 and model.partition_prior_ == FiniteMixture(2.0, 1.0)
    sizes = np.bincount(model.labels_) + 2.0
    np.testing.assert_allclose(model.weights_, sizes / sizes.sum())
    # Two clusters of 120 and 60 points, with the same likelihood under either prior.
    other = DPMM(**QUICK, alpha=1.0).fit(X)
    counts = np.array([120.0, 60.0])
    gap = FiniteMixture(2.0, 1.0).log_partition(counts) - DirichletProcess(1.0).log_partition(counts)
    np.testing.assert_array_equal(np.bincount(other.labels_), counts)
    assert model.log_posterior_ - other.log_posterior_ == pytest.approx(gap, abs=3.0)


def test_names_and_objects_are_the_same(X: np.ndarray) -> None:
    by_name = DPMM(**QUICK, partition_prior="pitman-yor:1,0.2", max_iter=10).fit(X)
    given = DPMM(**QUICK, partition_prior=PitmanYor(1.0, 0.2), max_iter=10).fit(X)
    np.testing.assert_array_equal(by_name.trace_.log_posterior, given.trace_.log_posterior)
    through_alpha = DPMM(**QUICK, alpha=2.0, max_iter=10).fit(X)
    given = DPMM(**QUICK, partition_prior=DirichletProcess(2.0), max_iter=10).fit(X)
    np.testing.assert_array_equal(through_alpha.trace_.log_posterior, given.trace_.log_posterior)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"partition_prior": "finite", "backend": "julia"}, "the partition prior finite needs the built-in sampler"),
        ({"partition_prior": "finite", "backend": Native(ratio="reference")}, "reference is for the Dirichlet process"),
        ({"partition_prior": "finite", "alpha": 2.0}, "alpha is for partition_prior dirichlet"),
        ({"partition_prior": "stick"}, "partition_prior should be dirichlet, pitman-yor, finite"),
    ],
)
def test_what_does_not_go_together_is_refused(X: np.ndarray, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DPMM(**QUICK | settings).fit(X)
