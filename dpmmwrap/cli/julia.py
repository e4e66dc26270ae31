"""`dpmmwrap julia`: set up and describe the Julia backend."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpmmwrap.backends.julia.setup import Installation


@click.group("julia")
def command() -> None:
    """Set up, check and describe the Julia backend: DPMMSubClusters.jl, the reference sampler.

    \b
    Once: dpmmwrap julia setup
    Then: dpmmwrap fit data.npy --backend julia
    """


@command.command("setup")
def setup() -> None:
    """Install Julia and its packages, and compile them. This needs the network once.

    The Julia of PYTHON_JULIACALL_EXE and the project of PYTHON_JULIACALL_PROJECT are used without changes. With
    PYTHON_JULIAPKG_OFFLINE=yes nothing is downloaded: Julia must be installed, and JULIA_DEPOT_PATH must name a depot
    with the packages, such as a folder copied from another machine.
    """
    from dpmmwrap.backends.julia import setup as julia_setup

    installation = julia_setup.find()
    if installation.juliacall is None:
        raise click.ClickException(installation.missing or "")
    if installation.given:
        click.echo(f"Using {installation.executable} and the project {installation.project} without changes.")
    else:
        bring()
        if julia_setup.is_offline() and julia_setup.find().missing is not None:
            add_from_depot(installation.juliacall)
    installation = julia_setup.find()
    if installation.missing is not None:
        raise click.ClickException(installation.missing)
    click.echo("Starting and compiling Julia; the first time takes minutes.")
    from dpmmwrap.backends.julia import prepare

    prepare()
    describe(installation)


def bring() -> None:
    """Let juliapkg download the packages of juliapkg.json; it shows its own progress."""
    import juliapkg

    from dpmmwrap.backends.julia import setup as julia_setup

    offline = julia_setup.is_offline()
    if not offline:
        click.echo("Downloading Julia and its packages; this takes some minutes.")
    try:
        juliapkg.resolve()
    except subprocess.CalledProcessError as error:
        raise click.ClickException(
            f"Julia's package manager failed (exit code {error.returncode}); see its messages above"
        ) from error
    except Exception as error:  # juliapkg raises plain exceptions
        if offline:
            least = julia_setup.dotted(julia_setup.LEAST_JULIA)
            raise click.ClickException(
                f"Julia {least} or newer is not installed, and cannot be downloaded without a network: unpack one from "
                "julialang.org and set PYTHON_JULIAPKG_EXE to its bin/julia"
            ) from error
        raise click.ClickException(f"Julia could not be downloaded: {error}") from error


def add_from_depot(juliacall: str) -> None:
    """Make the project from the packages of a depot, without a network."""
    import juliapkg

    from dpmmwrap.backends.julia import setup as julia_setup

    wanted = julia_setup.wanted_packages(juliacall)
    lacking = julia_setup.lacking_in_depots(list(wanted))
    if lacking:
        depots = " and ".join(map(str, julia_setup.depots()))
        raise click.ClickException(f"the depot {depots} lacks {', '.join(lacking)}: {julia_setup.BRING}")
    packages = ", ".join(f'Pkg.PackageSpec(name="{name}", version="{version}")' for name, version in wanted.items())
    script = f"import Pkg; Pkg.offline(true); Pkg.add([{packages}])"
    click.echo("Making a project from the packages of the depot.")
    run = [juliapkg.executable(), f"--project={juliapkg.project()}", "--startup-file=no", "-e", script]
    try:
        subprocess.run(run, check=True)
    except subprocess.CalledProcessError as error:
        named = " and ".join(f"{name} {version}" for name, version in wanted.items())
        raise click.ClickException(
            f"the depot lacks {named} or their dependencies; see Julia's messages above: {julia_setup.BRING}"
        ) from error


@command.command("status")
def status() -> int:
    """Show what is installed, or what is missing and how to install it (exit code 1)."""
    from dpmmwrap.backends.julia import setup as julia_setup

    installation = julia_setup.find()
    describe(installation)
    return 0 if installation.missing is None else 1


def describe(installation: Installation) -> None:
    """Show what is installed, one line each."""
    from dpmmwrap.backends.julia.setup import ask_version

    version = None if installation.executable is None else ask_version(installation.executable)
    given = "  (yours, used without changes)" if installation.given else ""
    julia = "not found" if version is None else f"{version}  {installation.executable}"
    lines = [
        ("Julia", julia),
        ("juliacall", installation.juliacall or "not installed"),
        ("PythonCall", installation.pythoncall or "not found"),
        ("DPMMSubClusters", installation.dpmmsubclusters or "not found"),
        ("project", f"{installation.project or 'none'}{given}"),
        ("workers", f"none running; fit --workers N starts them ({os.cpu_count() or 1} cores here)"),
        ("status", installation.missing or "ready"),
    ]
    for name, value in lines:
        click.echo(f"{name:16} {value}")
