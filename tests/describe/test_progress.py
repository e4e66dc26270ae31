"""What verbose=1 shows: on a terminal, in a notebook, and in a pipe."""

import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpmmwrap.describe import progress
from dpmmwrap.estimator import DPMM
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.trace import Iteration

X = np.random.default_rng(0).normal(size=(60, 2))


def an_iteration(clusters: int = 2) -> Iteration:
    return Iteration(clusters, -10.0, 0.1, 0, 0, 0, 0)


def fit(**settings: Any) -> DPMM:
    quick: dict[str, Any] = {"init": "kmeans", "max_iter": 12, "backend": "native", "random_state": 0, "n_chains": 1}
    return DPMM(**(quick | settings)).fit(X)


def test_plain_lines_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    fit(verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["iteration 10", "iteration 12"]
    assert "1 cluster," in lines[-1]
    fit(verbose=2)
    assert len(capsys.readouterr().out.splitlines()) == 12
    fit(verbose=0)
    assert capsys.readouterr().out == ""


def test_few_lines_among_many_draws(capsys: pytest.CaptureFixture[str]) -> None:
    settings: Any = SimpleNamespace(max_iter=20, total_iterations=1020, stop_when_flat=False)
    for number in range(1, 1021):
        progress.plain_line(settings, 1, number, an_iteration())
    told = [int(line.split()[1][:-1]) for line in capsys.readouterr().out.splitlines()]
    assert told == [10, 20, *range(120, 1021, 100)]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    shown: list[bytes] = []

    def listen() -> None:
        while part := read(ours):
            shown.append(part)

    # Someone has to read, or the terminal is full and the fit waits.
    reader = threading.Thread(target=listen, daemon=True)
    with os.fdopen(theirs, "w") as terminal:
        reader.start()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", terminal)
            fit(verbose=1, n_chains=2)
    reader.join(10)
    os.close(ours)
    text = b"".join(shown).decode()
    assert "chain 1 of 2, iteration " in text and "log posterior" in text and " left" in text
    assert capsys.readouterr().out == ""


def read(handle: int) -> bytes:
    try:
        return os.read(handle, 4096)
    except OSError:
        # So a terminal says that the other side is closed.
        return b""


def test_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert not progress.in_notebook()
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=True))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    assert progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook(), "IPython on a terminal, or only imported"
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    fit(verbose=1)
    captured = capsys.readouterr()
    assert captured.out == "" and "12/12" in captured.err


def test_someone_elses_progress_has_precedence(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[int] = []
    DPMM(init="kmeans", max_iter=5, backend="native", n_chains=1, verbose=1).fit(
        X, progress=lambda number, iteration: heard.append(number)
    )
    assert heard == [1, 2, 3, 4, 5] and capsys.readouterr().out == ""


def test_settings_know_how_long_a_chain_is() -> None:
    nothing: Any = None
    assert Settings(1.0, nothing, nothing, 20, 1, 0).total_iterations == 20
