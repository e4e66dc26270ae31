"""Workers that are killed, stopped and cut off, and a scheduler that is lost: the labels stay what they are."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import daskfits
import numpy as np
import pytest
from distributed import Client, LocalCluster

from dpmmwrap import DPMM, Dask
from dpmmwrap.backends.dask import ClusterError, calls
from dpmmwrap.backends.dask import cluster as clusters

SETTINGS: dict[str, Any] = {"covariance_type": "full", "init": "kmeans", "random_state": 0, "max_iter": 30}


def at(iterations: dict[int, Callable[[], None]]) -> Callable[[int, Any], None]:
    """What is to happen after some iterations, once each."""

    def progress(number: int, _: Any) -> None:
        if number in iterations:
            iterations.pop(number)()

    return progress


def test_a_killed_worker_is_replaced(client: Client, workers: LocalCluster) -> None:
    X, _ = daskfits.points()
    model = DPMM(**SETTINGS).fit(daskfits.lazy(X), progress=at({12: lambda: daskfits.kill(workers)}))
    daskfits.assert_same(model, DPMM(**SETTINGS).fit(X))


@pytest.mark.slow
def test_a_checkpoint_goes_on_with_another_number_of_workers(
    client: Client, workers: LocalCluster, tmp_path: Path
) -> None:
    X, _ = daskfits.points()

    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    saved = {"backend": Dask(checkpoint=tmp_path / "saved", checkpoint_every=5)}
    with pytest.raises(Stop):
        DPMM(**SETTINGS, **saved).fit(daskfits.lazy(X), progress=at({13: stop}))
    seen: list[int] = []
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as other, Client(other):
        model = DPMM(**SETTINGS, **saved).fit(daskfits.lazy(X), progress=lambda number, _: seen.append(number))
        assert seen[0] == 11
        daskfits.assert_same(model, DPMM(**SETTINGS).fit(X))
        with pytest.raises(ValueError, match="belongs to a run with other data"):
            DPMM(**SETTINGS, **saved).fit(daskfits.lazy(X + 1))
        (tmp_path / "a file").touch()
        with pytest.raises(ValueError, match="on Dask a checkpoint is a folder"):
            DPMM(**SETTINGS, backend=Dask(checkpoint=tmp_path / "a file")).fit(daskfits.lazy(X))


def test_workers_with_other_versions_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    own = clusters.worker.versions()
    here = os.getpid()

    def versions() -> dict[str, str]:
        return own | {"numpy": "0.1"} if os.getpid() == here else own

    monkeypatch.setattr(clusters.worker, "versions", versions)
    with pytest.raises(ClusterError, match=r"the worker tcp://.* has numpy .* and this process 0.1: all need the same"):
        DPMM(**SETTINGS).fit(daskfits.lazy(daskfits.points(3000)[0]))


def test_what_a_worker_raises_is_raised_here(client: Client) -> None:
    X = daskfits.lazy(daskfits.points(3000)[0]).map_blocks(broken, dtype=np.float32)
    with pytest.raises(ClusterError, match="the rows of the data could not be brought to a worker: no such disk"):
        DPMM(**SETTINGS).fit(X)


def broken(block: Any) -> Any:
    if not block.size:
        return block
    raise OSError("no such disk")


@pytest.mark.slow
def test_a_lost_scheduler_is_one_sentence_and_a_checkpoint_goes_on(tmp_path: Path) -> None:
    X, _ = daskfits.points()
    saved = {"backend": Dask(checkpoint=tmp_path / "saved", checkpoint_every=5)}
    with contextlib.ExitStack() as stack:
        scheduler, address = stack.enter_context(daskfits.scheduler_process(tmp_path))
        for _ in range(2):
            stack.enter_context(daskfits.worker_process(address, tmp_path))
        client = stack.enter_context(Client(address, timeout=30))
        client.wait_for_workers(2, timeout=60)
        with pytest.raises(
            ClusterError, match=r"connection to the Dask scheduler at tcp://.* was lost after iteration"
        ):
            DPMM(**SETTINGS, **saved).fit(daskfits.lazy(X), progress=at({12: scheduler.kill}))
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as other, Client(other):
        daskfits.assert_same(DPMM(**SETTINGS, **saved).fit(daskfits.lazy(X)), DPMM(**SETTINGS).fit(X))


def three_workers() -> LocalCluster:
    return LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0", silence_logs=50)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_workers_are_killed_at_random_moments(seed: int) -> None:
    """Also while they load rows, while others take over, and while labels are copied."""
    X, _ = daskfits.points(200_000)
    chance, settings = random.Random(seed), SETTINGS | {"max_iter": 80}
    with three_workers() as cluster, Client(cluster):
        over, killed = threading.Event(), []

        def killer() -> None:
            while len(killed) < 4 and not over.wait(chance.uniform(0.5, 8.0)):
                daskfits.kill(cluster, chance.randrange(3))
                killed.append(len(killed))

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            # No faster than four kills take.
            model = DPMM(**settings).fit(daskfits.lazy(X), progress=lambda *_: over.wait(0.3))
        finally:
            over.set()
            thread.join()
        assert killed
        daskfits.assert_same(model, DPMM(**settings).fit(X))


@pytest.mark.slow
def test_a_worker_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped, not killed: its connections stay open."""
    monkeypatch.setattr(calls, "SILENCE", 5.0)
    X, _ = daskfits.points()
    with three_workers() as cluster, Client(cluster):
        process = next(iter(cluster.workers.values())).process
        assert process is not None and process.pid is not None
        pid = process.pid
        try:
            stop = {12: lambda: os.kill(pid, signal.SIGSTOP)}
            daskfits.assert_same(DPMM(**SETTINGS).fit(daskfits.lazy(X), progress=at(stop)), DPMM(**SETTINGS).fit(X))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Network namespaces, each a host of its own, on one bridge."""

    def __init__(self) -> None:
        self.name = f"dp{os.getpid() % 10_000}"
        self.gateway = "10.231.77.1"
        self.count = 0

    def __enter__(self) -> Hosts:
        ip("link", "add", self.name, "type", "bridge")
        ip("addr", "add", f"{self.gateway}/24", "dev", self.name)
        ip("link", "set", self.name, "up")
        return self

    def add(self) -> tuple[list[str], str]:
        """How programs are started on another host, and its address."""
        host, outer, inner = (f"{self.name}{kind}{self.count}" for kind in "nab")
        address = f"10.231.77.{10 + self.count}"
        self.count += 1
        ip("netns", "add", host)
        ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        ip("link", "set", inner, "netns", host)
        ip("link", "set", outer, "master", self.name, "up")
        for words in (["addr", "add", f"{address}/24", "dev", inner], ["link", "set", inner, "up"]):
            ip("-n", host, *words)
        ip("-n", host, "link", "set", "lo", "up")
        return ["ip", "netns", "exec", host], address

    def cut(self, number: int) -> None:
        ip("link", "set", f"{self.name}a{number}", "down")

    def __exit__(self, *_: object) -> None:
        for number in range(self.count):
            subprocess.run(["ip", "netns", "del", f"{self.name}n{number}"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.name], check=False, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if shutil.which("ip") is None:
        pytest.skip("there is no program ip")
    made = Hosts()
    try:
        with made:
            yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not permitted here: {error.stderr.decode().strip()}")


@pytest.mark.slow
def test_a_host_is_cut_off(hosts: Hosts, tmp_path: Path) -> None:
    """Three workers on hosts of their own, whose data are in a file that all of them see."""
    from dpmmwrap.backends.dask.files import open_lazily

    X, _ = daskfits.points()
    np.save(tmp_path / "points.npy", X)
    with contextlib.ExitStack() as stack:
        _, address = stack.enter_context(
            daskfits.scheduler_process(tmp_path, hosts.gateway, DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP="20s")
        )
        for _ in range(3):
            prefix, host = hosts.add()
            stack.enter_context(daskfits.worker_process(address, tmp_path, prefix, host))
        client = stack.enter_context(Client(address, timeout=30))
        client.wait_for_workers(3, timeout=60)
        before = set(client.scheduler_info(n_workers=-1)["workers"])
        assert len({place.rpartition(":")[0] for place in before}) == 3
        lazy = open_lazily([tmp_path / "points.npy"]).X
        model = DPMM(**SETTINGS).fit(lazy, progress=at({12: lambda: hosts.cut(0)}))
        daskfits.assert_same(model, DPMM(**SETTINGS).fit(X))
        assert len(set(client.scheduler_info(n_workers=-1)["workers"])) == 2
