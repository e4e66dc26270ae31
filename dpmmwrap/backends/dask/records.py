"""The client's records of a fit on workers: commands, files, traffic."""

from __future__ import annotations

import pickle
from typing import NamedTuple

from dpmmwrap.backends.dask.part import Command

LOG_BYTES = 64 << 20
"""Bytes of commands to keep although copies have seen them, because copies may be lost, too."""


class Log:
    """The commands of one chain, numbered from the first."""

    def __init__(self, done: int = 0) -> None:
        self.first = done
        self.commands: list[Command] = []
        self.sizes: list[int] = []

    def __len__(self) -> int:
        return self.first + len(self.commands)

    def append(self, command: Command) -> None:
        self.commands.append(command)
        self.sizes.append(len(pickle.dumps(command, protocol=5)))

    def since(self, number: int) -> list[Command]:
        return self.commands[number - self.first :]

    def trim(self, seen: int) -> None:
        """Forget the oldest commands that copies have seen, if the log is too large."""
        total = sum(self.sizes)
        while self.commands and total > LOG_BYTES and self.first < seen:
            total -= self.sizes.pop(0)
            del self.commands[0]
            self.first += 1


class Traffic(NamedTuple):
    """The number of calls, and bytes sent and received."""

    calls: int = 0
    sent: int = 0
    received: int = 0

    def plus(self, sent: int, received: int) -> Traffic:
        return Traffic(self.calls + 1, self.sent + sent, self.received + received)


class LabelFiles(NamedTuple):
    """The files of a chain's labels, in a folder that all workers see."""

    folder: str
    files: list[str]
    done: int
    n_clusters: int


class LostAgain(Exception):
    """Workers were lost while others were being replaced."""

    def __init__(self, addresses: set[str]) -> None:
        super().__init__(*sorted(addresses))
        self.addresses = addresses
