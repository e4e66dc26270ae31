"""Draws as ArviZ takes them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpmmwrap.posterior.diagnostics import arviz_groups, to_arviz
from dpmmwrap.sampler.draws import Draws


def some_draws() -> Draws:
    rng = np.random.default_rng(0)
    shape = (2, 30)
    moves = rng.integers(0, 3, (2, *shape))
    return Draws(
        n_clusters=rng.integers(3, 6, shape),
        alpha=rng.gamma(2.0, size=shape),
        log_posterior=rng.normal(size=shape),
        weights=rng.dirichlet(np.ones(6), shape),
        splits=moves[0],
        splits_proposed=2 * moves[0],
        merges=moves[1],
        merges_proposed=4 * moves[1],
    )


def test_arviz_that_is_installed() -> None:
    arviz = pytest.importorskip("arviz")
    draws = some_draws()
    found = to_arviz(draws)
    np.testing.assert_array_equal(found.posterior["n_clusters"], draws.n_clusters)
    np.testing.assert_array_equal(found.posterior["alpha"], draws.alpha)
    np.testing.assert_array_equal(found.sample_stats["lp"], draws.log_posterior)
    assert found.posterior["weights"].dims == ("chain", "draw", "cluster")
    assert found.posterior["weights"].shape == (2, 30, 6)
    assert len(arviz.summary(found, var_names=["n_clusters", "alpha"])) == 2


def test_weights_go_by_size_and_rates_are_shares() -> None:
    draws = some_draws()
    groups = arviz_groups(draws)
    weights = groups["posterior"]["weights"]
    assert (np.diff(weights, axis=2) <= 0).all()
    np.testing.assert_allclose(np.sort(weights), np.sort(draws.weights))
    # Nothing was proposed in some draws.
    assert (draws.splits_proposed == 0).any()
    for name, share in (("split_acceptance_rate", 0.5), ("merge_acceptance_rate", 0.25)):
        proposed = draws.splits_proposed if name.startswith("split") else draws.merges_proposed
        np.testing.assert_array_equal(groups["sample_stats"][name], np.where(proposed > 0, share, 0.0))


def from_dict_0(posterior: Any = None, *, sample_stats: Any = None, dims: Any = None) -> Any:
    """As ArviZ 0.2x has it."""
    return posterior, sample_stats, dims


def from_dict_1(data: Any, *, name: Any = None, dims: Any = None) -> Any:
    """As ArviZ 1 has it."""
    assert set(data) == {"posterior", "sample_stats"}
    return data["posterior"], data["sample_stats"], dims


@pytest.mark.parametrize("from_dict", [from_dict_0, from_dict_1])
def test_both_forms_of_arviz_get_the_same(from_dict: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=from_dict))
    posterior, sample_stats, dims = to_arviz(some_draws())
    assert set(posterior) == {"n_clusters", "alpha", "weights"}
    assert set(sample_stats) == {"lp", "split_acceptance_rate", "merge_acceptance_rate"}
    assert dims == {"weights": ["cluster"]}


def test_without_arviz_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'dpmmwrap\[posterior\]'"):
        to_arviz(some_draws())
