"""What all tests share: the compiled loops, made once and side by side, before the processes of pytest-xdist begin."""

import os

import pytest

from dpmmwrap import compiling

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def pytest_sessionstart(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or session.config.option.collectonly:
        return
    if getattr(session.config.option, "numprocesses", None):
        # A process for each core: with threads of their own they would wait for each other.
        os.environ.update({name: os.environ.get(name, "1") for name in THREADS})
    compiling.prepare(compiling.KINDS, draws=True)
