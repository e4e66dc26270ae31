"""`dpmmwrap evaluate`: repeat the experiments and compare with other methods."""

from __future__ import annotations

from pathlib import Path

import click

from dpmmwrap.cli.battery import battery
from dpmmwrap.cli.experiments import command_line, data, failure_modes, synthetic

EXAMPLES = """
\b
Examples:
  dpmmwrap evaluate splits --dim 2 --out splits
  dpmmwrap evaluate splits --dim 10 --weights mine.safetensors
"""


@click.group("evaluate")
def command() -> None:
    """Repeat the experiments and compare with other methods."""


for experiment in (synthetic, failure_modes, data, battery):
    command.add_command(experiment)


@command.command("splits", epilog=EXAMPLES)
@click.option("--dim", type=click.IntRange(min=1), default=2, show_default=True, help="Features of a point.")
@click.option("--sets", type=click.IntRange(min=1), default=80, show_default=True, help="Test sets of each level.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--weights", type=click.Path(path_type=Path), help="A SplitNet of one's own instead of the shipped one.")
@click.option("--parts", is_flag=True, help="Also SplitNet's start without each of its parts.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Also a table, a figure and a report in this folder."
)
@click.pass_context
def splits(
    ctx: click.Context, dim: int, sets: int, seed: int, weights: Path | None, parts: bool, out: Path | None
) -> None:
    """How well each start splits the paper's easy, medium and hard test sets.

    ARI against the truth, the share of splits with a positive log Hastings ratio, milliseconds per split.
    """
    from dpmmwrap.evaluation.splits import compare_splits, table

    if out is not None:
        from dpmmwrap.files import prepare_folder

        prepare_folder(out, needed=5_000_000)
    results = compare_splits(dim, sets=sets, seed=seed, weights=weights, parts=parts)
    click.echo(table(results, dim))
    if out is not None:
        from dpmmwrap.evaluation.split_report import write_splits

        write_splits(out, results, dim, sets, seed, weights, command_line(ctx))
        click.echo(f"Written to {out}: results.csv, report.html, report.md and a figure")
