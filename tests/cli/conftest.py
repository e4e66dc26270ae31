"""Running commands inside the test process."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dpmmwrap import cli


@dataclass
class Finished:
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """What a failed command said: exactly one line on stderr, nothing on stdout, exit code 2."""
        assert self.code == 2, self.err
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("dpmmwrap: ")
        return lines[0]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    def run(*arguments: object) -> Finished:
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    return run
