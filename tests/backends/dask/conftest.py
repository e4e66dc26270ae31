"""Worker processes, started once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def workers() -> Iterator[LocalCluster]:
    """Two worker processes."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
        yield cluster


@pytest.fixture
def client(workers: LocalCluster) -> Iterator[Client]:
    with Client(workers) as client:
        # One may have been killed by the test before.
        client.wait_for_workers(2, timeout=60)
        yield client
