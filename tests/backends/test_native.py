"""The built-in sampler as a backend; what its chains do is tested with the sampler."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM, NIW
from dpmmwrap.backends import Settings, native
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


def test_chains_agree_with_the_answer_not_with_what_it_was_shaken_from(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    X[30:] += 20
    prior = NIW(np.zeros(2), 0.1, np.eye(2), 5.0)
    settings = Settings(1.0, prior, make_initializer("kmeans"), 60, 3, 0, n_chains=3, stop_when_flat=True)
    assert settings.refine
    as_found = native.NativeBackend().fit(X, settings)
    assert as_found.agreement == (1.0, 1.0)

    def one_cluster(X: Any, settings: Settings, best: Best, interrupt: Any) -> Best:
        return best._replace(labels=np.zeros_like(best.labels))

    monkeypatch.setattr(native, "refined", one_cluster)
    assert native.NativeBackend().fit(X, settings).agreement == (0.0, 0.0)
