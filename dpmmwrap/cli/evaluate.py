"""`dpmmwrap evaluate`: repeat the experiments and compare with other methods."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("evaluate")
def command() -> None:
    """Repeat the experiments and compare with other methods."""


@command.command("splits")
@click.option("--dim", type=click.IntRange(min=1), default=2, show_default=True, help="Features of a point.")
@click.option("--sets", type=click.IntRange(min=1), default=80, show_default=True, help="Test sets of each level.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--weights", type=click.Path(path_type=Path), help="A SplitNet of one's own instead of the shipped one.")
@click.option("--parts", is_flag=True, help="Also SplitNet's start without each of its parts.")
def splits(dim: int, sets: int, seed: int, weights: Path | None, parts: bool) -> None:
    """How well each start splits the paper's easy, medium and hard test sets.

    ARI against the truth, the share of splits with a positive log Hastings ratio, milliseconds per split.
    """
    from dpmmwrap.evaluation.splits import compare_splits, table

    click.echo(table(compare_splits(dim, sets=sets, seed=seed, weights=weights, parts=parts), dim))
