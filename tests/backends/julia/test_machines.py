"""Workers of the Julia backend over a real SSH server on loopback: their own places, and machines that are lost."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from processes import running
from sklearn.metrics import normalized_mutual_info_score

from dpmmwrap import DPMM, cli
from dpmmwrap.backends import Julia
from dpmmwrap.backends.julia import Callbacks, JuliaError, start_julia
from dpmmwrap.backends.julia import setup as julia_setup

MISSING = julia_setup.missing()
SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
pytestmark = [
    pytest.mark.julia,
    pytest.mark.skipif(MISSING is not None, reason=f"the Julia backend cannot run: {MISSING}"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="there is no SSH server and client here"),
]


SOON = 100
"""Seconds in which a machine that is lost has to be noticed, on a machine that is busy with other things."""


class Server(NamedTuple):
    """An SSH server of our own: where it answers, and how a client gets in."""

    host: str
    config: Path
    pid: int


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    (folder / "sshd").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder / 'client.pub'}\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    (folder / "client.config").write_text(
        f"IdentityFile {folder / 'client'}\nIdentitiesOnly yes\nStrictHostKeyChecking no\nLogLevel ERROR\n"
        f"UserKnownHostsFile {folder / 'known'}\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    # For as long as all tests of this file may take.
    command = [str(SSHD), "-D", "-e", "-f", str(folder / "sshd")]
    with running(command, longest=1800, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "listening" in line:
                break
        else:
            pytest.skip("the SSH server does not start here")
        yield Server(f"{getpass.getuser()}@127.0.0.1:{port}", folder / "client.config", process.pid)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another machine's places: links to what is here, under names that this process does not use."""
    folder = tmp_path_factory.mktemp("elsewhere")
    found = julia_setup.find()
    assert found.executable is not None and found.project is not None
    (folder / "project").symlink_to(found.project.resolve())
    (folder / "bridge").symlink_to(julia_setup.bridge_folder())
    (folder / "julia").write_text(f'#!/bin/sh\nexec "{found.executable}" "$@"\n')
    (folder / "julia").chmod(0o755)
    (folder / "scratch").mkdir()
    return folder


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 2000)
    X = 20 * np.stack([np.cos(truth), np.sin(truth)], axis=1) + rng.standard_normal((2000, 2))
    return X.astype(np.float32), truth


def machines(folder: Path, server: Server, *settings: str) -> Path:
    path = folder / "machines"
    path.write_text(f"{server.host} ssh_config={server.config} {' '.join(settings)}\n")
    return path


def test_a_machine_has_its_own_places(
    server: Server, elsewhere: Path, data: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    import juliacall

    X, truth = data
    depot = os.pathsep.join(map(str, juliacall.Base.DEPOT_PATH))
    own = {name: elsewhere / name for name in ("project", "bridge")}
    path = machines(
        tmp_path,
        server,
        f"exename={elsewhere / 'julia'} dir={elsewhere / 'scratch'} depot={depot}",
        *(f"{name}={place}" for name, place in own.items()),
        "OPENBLAS_NUM_THREADS=1 GREETING='good day'",
    )
    asked = '(pwd(), ENV["GREETING"], ENV["JULIA_DEPOT_PATH"], Base.active_project(), ENV["SSH_CONNECTION"])'
    ask = juliacall.Main.seval(
        f"import Distributed; () -> Distributed.remotecall_fetch(() -> {asked}, only(Distributed.workers()))"
    )
    told: list[Any] = []

    def look(number: int, iteration: Any) -> None:
        if number == 1:
            told.extend(ask())

    model = DPMM(init="kmeans", backend=Julia(machines=path), max_iter=30, random_state=0).fit(X, progress=look)
    assert model.backend_ == "julia"
    assert normalized_mutual_info_score(truth, model.labels_) > 0.95
    where, greeting, its_depot, its_project, connection = map(str, told)
    assert Path(where) == elsewhere / "scratch"
    assert greeting == "good day"
    assert its_depot == depot
    assert Path(its_project).parent == elsewhere / "project"
    assert connection.startswith("127.0.0.1 ")
    assert juliacall.Main.seval("Distributed.nprocs()") == 1


def test_a_machine_that_is_lost_is_named(server: Server, data: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    import juliacall

    ask = juliacall.Main.seval(
        "import Distributed; () -> Distributed.remotecall_fetch(getpid, only(Distributed.workers()))"
    )

    def lose(number: int, iteration: Any) -> None:
        if number == 3:
            os.kill(int(ask()), signal.SIGKILL)

    with pytest.raises(JuliaError, match=rf"worker process \d+ of Julia on {server.host} ended during the fit"):
        DPMM(init="kmeans", backend=Julia(machines=machines(tmp_path, server)), max_iter=1000).fit(
            data[0], progress=lose
        )
    assert juliacall.Main.seval("Distributed.nprocs()") == 1


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    children = [own for own, parent in parents if parent == pid]
    return children + [other for child in children for other in descendants(child)]


# Killed, all connections are closed at once. Halted, they stay open and nobody answers, as when a cable is pulled.
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_whole_machine_that_is_lost_ends_the_command_with_a_sentence(
    server: Server,
    data: tuple[np.ndarray, np.ndarray],
    tmp_path: Path,
    sent: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import juliacall

    bridge, report = start_julia(), Callbacks.report
    lost: list[int] = []

    def end_all() -> None:
        for pid in lost:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # Should nobody notice that the machine is silent, the test fails instead of waiting for good.
    waited_too_long = threading.Timer(SOON, end_all)

    def lose(self: Callbacks, number: int, *rest: Any) -> None:
        report(self, number, *rest)
        if number == 3:
            # SSH's own processes on that machine, and the worker.
            lost.extend(descendants(server.pid))
            for pid in lost:
                os.kill(pid, sent)
            waited_too_long.start()

    monkeypatch.setattr(Callbacks, "report", lose)
    np.save(tmp_path / "data.npy", data[0])
    silence = bridge.LONGEST_SILENCE.x
    bridge.LONGEST_SILENCE.x = 4
    try:
        options = ["--init", "kmeans", "--iterations", "10000", "--quiet"]
        own = ["--machines", str(machines(tmp_path, server))]
        assert cli.run(["fit", str(tmp_path / "data.npy"), *own, *options]) == 2
    finally:
        in_time = waited_too_long.is_alive()
        waited_too_long.cancel()
        bridge.LONGEST_SILENCE.x = silence
        end_all()
    assert in_time
    assert len(lost) >= 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search(rf"worker process \d+ of Julia on {server.host} ended during the fit", said)
    assert juliacall.Main.seval("import Distributed; Distributed.nprocs()") == 1


def test_a_machine_that_does_not_answer_is_named(
    server: Server, data: tuple[np.ndarray, np.ndarray], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import juliacall

    start_julia()
    nobody = server._replace(host=f"127.0.0.1:{free_port()}")
    with pytest.raises(JuliaError, match=f"no worker could be started on {nobody.host}"):
        DPMM(init="kmeans", backend=Julia(machines=machines(tmp_path, nobody)), max_iter=5).fit(data[0])
    julia = Julia(machines=machines(tmp_path, server, "exename=/no/julia"))
    with pytest.raises(JuliaError, match=f"no worker could be started on {server.host}"):
        DPMM(init="kmeans", backend=julia, max_iter=5).fit(data[0])
    assert juliacall.Main.seval("import Distributed; Distributed.nprocs()") == 1
