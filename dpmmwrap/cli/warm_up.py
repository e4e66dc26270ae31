"""`dpmmwrap warm-up`: compile before the first fit."""

from __future__ import annotations

import time

import click

from dpmmwrap.families import FAMILIES, family_named


@click.command("warm-up")
@click.option(
    "--family",
    "families",
    type=click.Choice(FAMILIES),
    multiple=True,
    help="Compile for this family only; may be given several times. By default for all.",
)
@click.option("--draws/--no-draws", default=True, show_default=True, help="Compile for draws from the posterior, too.")
def command(families: tuple[str, ...], draws: bool) -> None:
    """Compile everything that fits need, on all cores, so that the first fit does not wait. Do this once per machine.

    \b
    Everything:         dpmmwrap warm-up
    For numbers alone:  dpmmwrap warm-up --family gaussian --no-draws
    """
    from dpmmwrap.numerics.kernel_cache import folder
    from dpmmwrap.sampler import compiling

    if folder() is None:
        raise click.ClickException("there is no folder for compiled code: set NUMBA_CACHE_DIR to one")
    for family in families or FAMILIES:
        begun = time.perf_counter()
        done = compiling.prepare(family_named(family).compiled, draws, quiet=family != (families or FAMILIES)[0])
        seconds = time.perf_counter() - begun
        click.echo(f"{family}: compiled in {seconds:.0f} s" if done else f"{family}: already compiled")
    click.echo(f"kept in {folder()}")
