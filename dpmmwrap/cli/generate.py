"""`dpmmwrap generate`: draw a data set from a mixture."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from dpmmwrap.cli.common import A_PATH, ABOVE_ZERO, POSITIVE, option

EXAMPLES = """
\b
Examples:
  dpmmwrap generate --dim 2 --clusters 20 --points 20000 --spread 50 --seed 0 --out data.npz
  dpmmwrap generate --kind counts --dim 1000 --points 5000 --out texts.npz
  dpmmwrap generate --kind mixed --dim 3 --clusters 5 --out table.csv
"""


@click.command("generate", epilog=EXAMPLES)
@option(
    "--kind",
    "gaussian",
    "Gaussians with any covariance, or spherical ones of variance 1; rows of counts (sparse); or a table of D numeric "
    "and D categorical columns.",
    type=click.Choice(("gaussian", "round", "counts", "mixed")),
)
@option("--dim", 2, "Features of a point.", type=POSITIVE)
@option("--clusters", 20, "Components of the mixture.", type=POSITIVE)
@option("--points", 20_000, "Points to draw.", type=POSITIVE)
@option("--spread", 50.0, "Variance of the components' means; smaller means more overlap.", type=ABOVE_ZERO)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=A_PATH, required=True, metavar="FILE", help="File to write.")
@click.pass_context
def command(
    ctx: click.Context, kind: str, dim: int, clusters: int, points: int, spread: float, seed: int, out: Path
) -> None:
    """Draw points from a random mixture: weights Dir(5), means N(0, spread·I), covariances IW(D+2, I).

    FILE.npz gets the arrays X (float32), y, weights, means and covariances; counts as a sparse matrix. A mixed table is
    FILE.csv, and its true labels are FILE.labels.csv.
    """
    from dpmmwrap.files import InputError, check_writable, write_csv, write_npz

    ending = ".csv" if kind == "mixed" else ".npz"
    if out.suffix.lower() != ending:
        raise InputError(f"--out should be a {ending} file, not {out}")
    if kind == "counts" and ctx.get_parameter_source("spread") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--spread does not apply to --kind counts.", ctx)
    check_writable(out, needed=4 * points * (dim + 1) if kind != "counts" else 0)
    from dpmmwrap.datasets import generate, generate_counts, generate_mixed

    drawn = f"{points:,} points in {dim} dimensions from {clusters} Gaussians"
    if kind == "counts":
        drawn = f"{points:,} rows of {dim} counts from {clusters} clusters"
        write_npz(out, generate_counts(dim, clusters, points, seed).arrays())
    elif kind == "mixed":
        labels = out.with_suffix(".labels.csv")
        drawn = f"{points:,} rows of {dim} numeric and {dim} categorical columns from {clusters} clusters, and {labels}"
        table = generate_mixed(dim, clusters, points, spread, seed)
        write_csv(out, table.columns)
        write_csv(labels, {"cluster": table.y})
    else:
        write_npz(out, generate(dim, clusters, points, spread, seed, round=kind == "round").arrays())
    click.echo(f"Written to {out}: {drawn}")
