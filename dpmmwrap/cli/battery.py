"""`dpmmwrap evaluate battery`: methods over a folder of data sets."""

from __future__ import annotations

from typing import Any

import click

from dpmmwrap.cli.experiments import POSITIVE, carry_out, command_line, out_option, run_options, word_list

HELP = """
\b
Methods: DPMM, EM-GMM and K-means (both told the number of classes), DPGMM (scikit-learn's, with
its own prior), GMM-BIC, K-means-silhouette, HDBSCAN; these are the default. And DPMM with one
setting changed:
  families         DPMM-full, DPMM-diag, DPMM-spherical, DPMM-multinomial (for counts)
  starts           DPMM-random, DPMM-kmeans, DPMM-splitnet
  first-clusters   DPMM-from-one, DPMM-from-many, DPMM-from-truth
  rivals, all      all that are not ours; everything
The words on the left stand for those on the right.
\b
A set is a .npz with X and y, or with the arrays of a sparse matrix of counts and y. A class of -1
says that it is not known: that point is clustered, but not scored. Sets of one battery have a name
with the same word before the first underscore. Where there is an index.csv with a column name,
its columns that begin with "published" are shown.
\b
The folder gets results.csv (a row per run), sets.csv (per set and method), means.csv (per
battery), a figure, report.html and report.md. The same command goes on where it was
interrupted, and does not repeat what is in the folder.
"""
EXAMPLES = """
\b
Examples:
  dpmmwrap evaluate battery sets --jobs 4 --out battery
  dpmmwrap evaluate battery sets --sets 'sipu_*,fcps_*' --methods DPMM,EM-GMM,families --seeds 1
  dpmmwrap evaluate battery sets scikit-learn --group 'real=usps*,sklearn_digits'
"""


def group_list(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """NAME=PATTERN,PATTERN as the patterns of each name."""
    groups = {}
    for word in value:
        name, sign, patterns = word.partition("=")
        found = tuple(pattern.strip() for pattern in patterns.split(",") if pattern.strip())
        if not (name.strip() and sign and found):
            raise click.BadParameter(f"{word!r} should be NAME=PATTERN,…", ctx, option)
        groups[name.strip()] = found
    return groups


@click.command("battery", epilog=HELP + EXAMPLES)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True)
@click.option("--methods", callback=word_list, metavar="NAME,…", help="Methods to compare; see below.")
@click.option("--sets", callback=word_list, metavar="PATTERN,…", help="Only sets of such names, as 'sipu_*'.")
@click.option(
    "--max-points",
    type=click.IntRange(min=2),
    default=10_000,
    show_default=True,
    help="Of larger sets, a random sample of so many points, always the same one.",
)
@click.option("--seeds", type=POSITIVE, default=3, show_default=True, help="Runs of each method on each set.")
@click.option(
    "--group",
    "groups",
    callback=group_list,
    multiple=True,
    metavar="NAME=PATTERN,…",
    help="Sets that count as one battery, whatever their names begin with. May be given several times.",
)
@click.option(
    "--upper-bound", type=POSITIVE, default=50, show_default=True, help="Clusters that scikit-learn's DPGMM may use."
)
@run_options
@out_option("evaluation-battery")
@click.pass_context
def battery(ctx: click.Context, /, **options: Any) -> int:
    """Compare methods over the .npz sets of a folder: K, NMI, ARI, log posterior, seconds.

    DIR is a folder; several may be given. The word scikit-learn stands for the sets that it ships: breast cancer,
    digits, iris and wine.
    """
    from dpmmwrap.evaluation.battery import plan_battery
    from dpmmwrap.evaluation.experiments import Choice
    from dpmmwrap.evaluation.fits import FitSettings
    from dpmmwrap.evaluation.sets import find_sets, read_published

    folders = options["folders"]
    settings = FitSettings(upper_bound=options["upper_bound"])
    choice = Choice(options["methods"], settings, options["seeds"], options["seed"], in_processes=options["jobs"] > 1)
    found = find_sets(folders, options["sets"] or (), options["max_points"])
    plan, published = plan_battery(choice, found), read_published(folders)

    def write(store: Any) -> None:
        from dpmmwrap.evaluation.battery_report import report_battery
        from dpmmwrap.evaluation.summary import text_table

        tables = report_battery(options["out"], store, plan, command_line(ctx), options["groups"], published)
        if not options["quiet"]:
            click.echo(f"ARI, in brackets clusters found\n\n{text_table(tables.sets)}\n\n{text_table(tables.means)}\n")

    return carry_out(ctx, plan, write)
