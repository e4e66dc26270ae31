"""`dpmmwrap` itself: help, versions, and how problems end."""

import os
import subprocess
import sys

import click
import pytest

import dpmmwrap
from dpmmwrap import cli


def test_help_lists_every_command(run) -> None:
    done = run("--help")
    assert done.code == 0
    for name, line in cli.COMMANDS.items():
        assert name in done.out
        assert line in done.out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_help(run, name: str) -> None:
    done = run(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: dpmmwrap {name}")


def test_version(run) -> None:
    first, *lines = run("--version").out.splitlines()
    assert first == f"dpmmwrap, version {dpmmwrap.__version__}"
    told = dict(line.split(" ", 1) for line in lines)
    assert {"Python", "numba", "torch", "Julia"} <= set(told) and told["numba"][0].isdigit()


def test_completion_by_the_shell(run) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = run("completion", shell)
        assert done.code == 0 and "_DPMMWRAP_COMPLETE" in done.out
    typed = {"_DPMMWRAP_COMPLETE": "bash_complete", "COMP_WORDS": "dpmmwrap fit --skip", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "dpmmwrap"]
    done = subprocess.run(command, env=os.environ | typed, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,--skip-missing"]


def test_without_arguments_the_help_is_shown(run) -> None:
    done = run()
    assert done.code == 2
    assert "Commands:" in done.err


def test_unknown_command(run) -> None:
    assert "No such command 'cluster'" in run("cluster").sentence


def test_as_a_module() -> None:
    command = [sys.executable, "-m", "dpmmwrap", "fit", "none.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "dpmmwrap: none.npy should be a file, but it does not exist\n"


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (ValueError("alpha should be\npositive"), 2, "dpmmwrap: alpha should be positive\n"),
        (KeyboardInterrupt(), 130, "dpmmwrap: interrupted\n"),
        (RuntimeError("Julia gave up"), 1, "dpmmwrap: Julia gave up (dpmmwrap --traceback … shows where)\n"),
        (MemoryError("too much"), 1, "dpmmwrap: out of memory: too much\n"),
    ],
)
def test_how_problems_end(run, monkeypatch: pytest.MonkeyPatch, problem: BaseException, code: int, said: str) -> None:
    @click.command
    def broken() -> None:
        raise problem

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: broken)
    done = run("fit")
    # After a ^C click ends the line that the terminal has begun.
    assert (done.code, done.err.lstrip("\n")) == (code, said)


def test_bugs_are_not_hidden(run, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: broken)
    with pytest.raises(ZeroDivisionError):
        run("fit")


def test_traceback_on_demand(run) -> None:
    assert "Traceback" in run("--traceback", "fit", "none.npy").err
