"""`dpmmwrap generate`: draw a data set from a Gaussian mixture."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLES = """
\b
Example:
  dpmmwrap generate --dim 2 --clusters 20 --points 20000 --spread 50 --seed 0 --out data.npz
"""

POSITIVE = click.IntRange(min=1)


@click.command("generate", epilog=EXAMPLES)
@click.option("--dim", type=POSITIVE, default=2, show_default=True, help="Features of a point.")
@click.option("--clusters", type=POSITIVE, default=20, show_default=True, help="Components of the mixture.")
@click.option("--points", type=POSITIVE, default=20_000, show_default=True, help="Points to draw.")
@click.option(
    "--spread",
    type=click.FloatRange(min=0, min_open=True),
    default=50.0,
    show_default=True,
    help="Variance of the components' means; smaller means more overlap.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE.npz", help="File to write.")
def command(dim: int, clusters: int, points: int, spread: float, seed: int, out: Path) -> None:
    """Draw points from a random mixture: weights Dir(5), means N(0, spread·I), covariances IW(D+2, I).

    FILE.npz gets the arrays X (float32), y, weights, means and covariances.
    """
    from dpmmwrap.datasets import generate
    from dpmmwrap.files import InputError, check_writable, write_npz

    if out.suffix.lower() != ".npz":
        raise InputError(f"--out should be a .npz file, not {out}")
    check_writable(out, needed=4 * points * (dim + 1))
    write_npz(out, generate(dim, clusters, points, spread, seed).arrays())
    click.echo(f"Written to {out}: {points:,} points in {dim} dimensions from {clusters} Gaussians")
