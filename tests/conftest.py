"""What all tests share: the compiled loops, made once and side by side, before the processes of pytest-xdist begin."""

import gc
import os
import signal
from collections.abc import Generator

import pytest

from dpmmwrap.families import compiled_kinds
from dpmmwrap.sampler import compiling

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


# A shell starts what runs in its background with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or session.config.option.collectonly:
        return
    if getattr(session.config.option, "numprocesses", None):
        # A process for each core: with threads of their own they would wait for each other.
        os.environ.update({name: os.environ.get(name, "1") for name in THREADS})
    compiling.prepare(compiled_kinds(), draws=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: looking through it for garbage takes a third of this time, and some of the tests'."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    return found
