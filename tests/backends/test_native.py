"""The built-in sampler as a backend; what its chains do is tested with the sampler."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM, NIW
from dpmmwrap.backends import native
from dpmmwrap.families.learned.defaults import DataScale
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.posterior.fitted import log_posterior_of
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.state import Best
from dpmmwrap.starts import make_initializer


def test_ctrl_c_after_the_last_iteration_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    result_of = native.result_of

    def late(*args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return result_of(*args)

    monkeypatch.setattr(native, "result_of", late)
    # From one cluster, so that nothing is compared before.
    options = {"covariance_type": "diag", "n_chains": 1, "init_clusters": 1, "max_iter": 10, "init": "random"}
    model = DPMM(**options, backend="native", random_state=0)
    with pytest.raises(KeyboardInterrupt, match="the estimator has the result so far"):
        model.fit(np.random.default_rng(0).normal(size=(60, 2)))
    assert len(model.trace_) == 10 and model.interrupted_


def test_chains_agree_with_the_answer_not_with_where_the_local_search_began(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    X[30:] += 20
    prior = NIW(np.zeros(2), 0.1, np.eye(2), 5.0)
    settings = Settings(
        DirichletProcess(1.0), prior, make_initializer("kmeans"), 60, 3, 0, n_chains=3, stop_when_flat=True
    )
    assert settings.refine
    as_found = native.NativeBackend().fit(X, settings)
    assert as_found.agreement == (1.0, 1.0)

    def one_cluster(X: Any, settings: Settings, candidates: list[Best], interrupt: Any) -> Best:
        return candidates[0]._replace(labels=np.zeros_like(candidates[0].labels))

    monkeypatch.setattr(native, "refined", one_cluster)
    assert native.NativeBackend().fit(X, settings).agreement == (0.0, 0.0)


def learned_settings(X: np.ndarray, kind: str) -> Settings:
    begun = DataScale(X).start(kind)
    return Settings(
        DirichletProcess(), begun.prior, make_initializer("kmeans"), 60, 3, 0, n_chains=2, stop_when_flat=True,
        hyperprior=begun.hyperprior,
    )  # fmt: skip


def overlapping() -> np.ndarray:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    return (rng.normal(size=(200, 2)) + 3.0 * rng.normal(size=(4, 2))[y]).astype(np.float32)


def gap(X: np.ndarray, settings: Settings, result: Result) -> float:
    """Between the log posterior of a result and that of its labels, concentration and prior."""
    assert result.prior is not None and result.partition_prior is not None
    found = log_posterior_of(X, result.labels, settings, result.partition_prior, result.prior)
    return abs(result.log_posterior - found)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_the_learned_prior_belongs_to_the_labels(kind: str) -> None:
    X = overlapping()
    settings = learned_settings(X, kind)
    # With what follows the search, and without it.
    for own in (settings, replace(settings, n_chains=1)):
        assert own.refine == (own is settings)
        result = native.NativeBackend().fit(X, own)
        assert result.prior is not settings.prior
        # Single precision here and there.
        assert gap(X, settings, result) < 0.01


def test_a_prior_that_is_not_taken_over_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    X = overlapping()
    settings = learned_settings(X, "full")
    refined = native.refined

    def further(X: Any, settings: Settings, candidates: list[Best], interrupt: Any) -> Best:
        """From other candidates, so that the answer is another one."""
        others = [one._replace(labels=one.labels % 2) for one in candidates]
        return refined(X, settings, others, interrupt)

    monkeypatch.setattr(native, "refined", further)
    assert gap(X, settings, native.NativeBackend().fit(X, settings)) < 0.01

    def wrong(result: Result, best: Best) -> Result:
        return replace(result, **{name: value for name, value in best._asdict().items() if name != "prior"})

    monkeypatch.setattr(native, "with_best", wrong)
    assert gap(X, settings, native.NativeBackend().fit(X, settings)) > 0.1
