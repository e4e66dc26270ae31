"""Worker processes of Julia: reading where they run, starting them, keeping them for several fits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dpmmwrap.files import InputError

# No more than a name and a port: these words become arguments of ssh.
MACHINE = re.compile(r"((?:\w[\w.-]*@)?[A-Za-z0-9][\w.-]*(?::\d+)?)(?:\*([1-9]\d*))?")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
FOLDERS = ("exename", "dir", "depot", "project", "bridge", "ssh_config")


class Machine(NamedTuple):
    """A machine that runs workers; empty settings are as on this machine."""

    host: str
    processes: int = 1
    exename: str = ""
    """Julia's executable there."""
    dir: str = ""
    """The folder to work in."""
    depot: str = ""
    """Where Julia's packages are, the JULIA_DEPOT_PATH there."""
    project: str = ""
    """The Julia project with DPMMSubClusters."""
    bridge: str = ""
    """The folder DPMMWrapBridge of the dpmmwrap there."""
    ssh_config: str = ""
    """A file of ssh's own settings, here."""
    environment: tuple[str, ...] = ()
    """Further variables, each NAME=value."""


class Team(NamedTuple):
    """The workers of a fit."""

    here: int = 0
    machines: tuple[Machine, ...] = ()

    @property
    def size(self) -> int:
        return self.here + sum(machine.processes for machine in self.machines)


def team_of(workers: int, machines: Path | None) -> Team:
    return Team(workers, () if machines is None else tuple(read_machines(machines)))


def read_machines(path: Path) -> list[Machine]:
    """The machines in a file, one `user@host*n` per line, followed by its settings:
    `exename=/opt/julia/bin/julia dir=/scratch OMP_NUM_THREADS=1`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} should be a text file of machines, but it cannot be read") from error
    machines = []
    for number, line in enumerate(lines, start=1):
        try:
            words = shlex.split(line, comments=True)
            if words:
                machines.append(machine_of(words))
        except ValueError as problem:
            raise InputError(f"{path}, line {number}: {problem}") from problem
    if not machines:
        raise InputError(f"{path} should name machines, one user@host*n per line, but it names none")
    return machines


def machine_of(words: list[str]) -> Machine:
    """A machine from the words of a line."""
    found = MACHINE.fullmatch(words[0])
    if found is None:
        raise ValueError(f"a machine should be written user@host*n, not {words[0]!r}")
    settings: dict[str, str] = {}
    variables = []
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if equals and name in FOLDERS and value and not value.startswith("-"):
            settings[name] = value
        elif equals and VARIABLE.fullmatch(name):
            variables.append(word)
        else:
            known = ", ".join(FOLDERS)
            raise ValueError(f"a setting should be NAME=value, with the name of a variable or one of {known}: {word!r}")
    return Machine(found.group(1), int(found.group(2) or 1), **settings, environment=tuple(variables))


_kept: list[Team] = []
"""The workers that are kept at the moment, if any."""


def are_kept() -> bool:
    return bool(_kept)


@contextmanager
def julia_workers(workers: int = 0, machines: str | Path | None = None) -> Iterator[None]:
    """Start worker processes of Julia and keep them for all fits inside, which then use Julia.

    Parameters
    ----------
    workers : int, default=0
        Processes on this machine.
    machines : str or Path, default=None
        A file of further machines, as in `Julia`.

    Examples
    --------
    >>> import dpmmwrap
    >>> with dpmmwrap.julia_workers(4):  # doctest: +SKIP
    ...     models = [dpmmwrap.DPMM(random_state=seed).fit(X) for seed in range(3)]
    """
    from dpmmwrap.backends.julia import start_julia

    team = team_of(workers, None if machines is None else Path(machines))
    if not team.size:
        raise ValueError("julia_workers needs a number of workers, or a file of machines")
    if _kept:
        raise ValueError(f"{_kept[0].size} workers of Julia are running already; stop them before you start others")
    bridge = start_julia()
    with started(bridge, team):
        _kept.append(team)
        try:
            yield
        finally:
            _kept.clear()


@contextmanager
def for_a_fit(bridge: Any, team: Team, points: int, tell: Callable[[str], None] | None = None) -> Iterator[int]:
    """Yields the number of workers of a fit: those that are kept, or new ones that stop after it."""
    if _kept:
        kept = _kept[0]
        if team.size and team != kept:
            raise ValueError(f"{kept.size} workers of Julia are kept, so a fit cannot start {team.size} others")
        check_enough(points, kept.size)
        yield kept.size
        return
    check_enough(points, team.size)
    if not team.size:
        yield 0
        return
    if tell is not None:
        tell(f"starting {team.size} worker{'' if team.size == 1 else 's'} of Julia")
    with started(bridge, team):
        yield team.size


def check_enough(points: int, workers: int) -> None:
    """Each worker needs a point; checked before any starts."""
    if points < workers:
        raise ValueError(f"{workers} workers need at least as many points, but there are {points}")


@contextmanager
def started(bridge: Any, team: Team) -> Iterator[None]:
    """Start workers, and stop them after the block."""
    from dpmmwrap.backends.julia import translated

    with translated():
        machines = [bridge.Machine(**described(machine)) for machine in team.machines]
        added = bridge.start_workers(team.here, machines)
    try:
        yield
    finally:
        bridge.stop_workers(added)


def described(machine: Machine) -> dict[str, Any]:
    """The arguments of the bridge's `Machine`."""
    return machine._asdict() | {"environment": list(machine.environment)}
