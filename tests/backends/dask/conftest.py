"""Worker processes, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster


@cache
def cluster() -> LocalCluster:
    """Two worker processes."""
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End them after the last of these tests: idle ones would take a twentieth of a core from all others."""
    if cluster.cache_info().currsize and (nextitem is None or Path(__file__).parent not in nextitem.path.parents):
        cluster().close()
        cluster.cache_clear()


@pytest.fixture
def workers() -> LocalCluster:
    return cluster()


@pytest.fixture
def client(workers: LocalCluster) -> Iterator[Client]:
    with Client(workers) as client:
        # One may have been killed by the test before.
        client.wait_for_workers(2, timeout=60)
        yield client
