"""Which model a fit has. What is chosen for data of each kind is tested where the kinds are."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from dpmmwrap import DPMM
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
