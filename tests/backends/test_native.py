"""The built-in sampler as a backend; what its chains do is tested with the sampler."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM
from dpmmwrap.backends import native


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
