"""`dpmmwrap julia`: set up and describe the Julia backend."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpmmwrap.backends.julia_setup import Found


@click.group("julia")
def command() -> None:
    """Set up, check and describe the Julia backend: DPMMSubClusters.jl, the reference sampler.

    \b
    First: pip install 'dpmmwrap[julia]'
    Then:  dpmmwrap julia setup
    """


@command.command("setup")
def setup() -> None:
    """Bring Julia and the packages, and compile them. Needs the network, once.

    A Julia and a project named by PYTHON_JULIACALL_EXE and PYTHON_JULIACALL_PROJECT are used as they are.
    """
    from dpmmwrap.backends import julia_setup

    found = julia_setup.find()
    if found.juliacall is None:
        raise click.ClickException(found.missing or "")
    if found.given:
        click.echo(f"Using {found.executable} and the project {found.project} as they are.")
    else:
        bring()
    found = julia_setup.find()
    if found.missing is not None:
        raise click.ClickException(found.missing)
    click.echo("Starting Julia and compiling what is not compiled yet; the first time takes minutes.")
    from dpmmwrap.backends.julia import start_julia

    start_julia()
    describe(found)


def bring() -> None:
    """Have juliapkg fetch what juliapkg.json names; it and Julia show their progress themselves."""
    import juliapkg

    click.echo("Bringing Julia and its packages; this needs the network and some minutes.")
    try:
        juliapkg.resolve()
    except subprocess.CalledProcessError as error:
        raise click.ClickException(
            f"Julia's package manager failed (exit code {error.returncode}); what it said stands above"
        ) from error
    except OSError as error:
        raise click.ClickException(f"Julia could not be fetched: {error}") from error


@command.command("status")
def status() -> int:
    """Say what is there, or what is missing and the command that mends it. Exit code 1 if something is."""
    from dpmmwrap.backends import julia_setup

    found = julia_setup.find()
    describe(found)
    return 0 if found.missing is None else 1


def describe(found: Found) -> None:
    for name, value in lines(found):
        click.echo(f"{name:16} {value}")
    click.echo(f"{'status':16} {found.missing or 'ready'}")


def lines(found: Found) -> list[tuple[str, str]]:
    """What `status` says, one line each."""
    from dpmmwrap.backends.julia_setup import ask_version

    version = None if found.executable is None else ask_version(found.executable)
    julia = "not found" if version is None else f"{version}  {found.executable}"
    return [
        ("Julia", julia),
        ("juliacall", found.juliacall or "not installed"),
        ("PythonCall", found.pythoncall or "not found"),
        ("DPMMSubClusters", found.dpmmsubclusters or "not found"),
        ("project", f"{found.project or 'none'}{'  (yours, used as it is)' if found.given else ''}"),
        ("workers", f"none running; fit --workers N starts them ({os.cpu_count() or 1} cores here)"),
    ]
