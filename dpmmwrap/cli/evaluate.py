"""`dpmmwrap evaluate`: repeat the experiments and compare with other methods, also over folders of data sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dpmmwrap.cli.common import A_PATH, POSITIVE, Option, number_list, option, with_options, word_list
from dpmmwrap.cli.experiments import (
    carry_out,
    comparison,
    data,
    methods_option,
    out_option,
    prior_option,
    ratio_option,
    run_options,
    synthetic,
    typed,
)
from dpmmwrap.evaluation.sizes import SMALL, Sizes

HELP = """
\b
Methods: DPMM, EM-GMM and K-means (which know the number of classes), DPGMM (scikit-learn's, with
its own prior), GMM-BIC, K-means-silhouette, HDBSCAN; these are the default. Also DPMM with one
different setting:
  families         DPMM-full, DPMM-diag, DPMM-spherical, DPMM-multinomial (for counts)
  starts           DPMM-random, DPMM-kmeans, DPMM-splitnet
  first-clusters   DPMM-from-one, DPMM-from-many, DPMM-from-truth
  rivals, all      the methods other than DPMM; all methods
The words on the left stand for those on the right.
\b
A set is a .npz with X and y, or with the arrays of a sparse matrix of counts and y. Points whose
class is unknown (-1) are clustered, but not scored. The names of all sets of a battery begin with
the same word, followed by an underscore. If the folder has an index.csv with a column "name",
the report shows its columns that begin with "published".
\b
The folder gets results.csv (a row per run), sets.csv (per set and method), means.csv (per
battery), a figure, report.html and report.md. After an interruption the same command
continues; finished runs are not repeated.
"""
BATTERY_EXAMPLES = """
\b
Examples:
  dpmmwrap evaluate battery sets --jobs 4 --out battery
  dpmmwrap evaluate battery sets --sets 'sipu_*,fcps_*' --methods DPMM,EM-GMM,families --seeds 1
  dpmmwrap evaluate battery sets scikit-learn --group 'real=usps*,sklearn_digits'
"""


def group_list(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The patterns of each name, from NAME=PATTERN,PATTERN."""
    groups = {}
    for word in value:
        name, sign, patterns = word.partition("=")
        groups[name.strip()] = word_list(ctx, option, patterns) or ()
        if not (name.strip() and sign and groups[name.strip()]):
            raise click.BadParameter(f"{word!r} should be NAME=PATTERN,…", ctx, option)
    return groups


@click.command("battery", epilog=HELP + BATTERY_EXAMPLES)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True)
@methods_option
@click.option("--sets", callback=word_list, metavar="PATTERN,…", help="Only sets whose names match, such as 'sipu_*'.")
@option(
    "--max-points",
    10_000,
    "Larger sets are reduced to a random sample of this size, the same for all methods.",
    type=click.IntRange(min=2),
)
@option("--seeds", 3, "Runs of each method on each set.", type=POSITIVE)
@click.option(
    "--group",
    "groups",
    callback=group_list,
    multiple=True,
    metavar="NAME=PATTERN,…",
    help="Sets that form a battery, whatever their names. May be given several times.",
)
@option("--upper-bound", 50, "Clusters that scikit-learn's DPGMM may use.", type=POSITIVE)
@run_options
@out_option("evaluation-battery")
@click.pass_context
def battery(ctx: click.Context, /, **options: Any) -> int:
    """Compare methods over the .npz sets of a folder: K, NMI, ARI, log posterior, seconds.

    DIR is a folder; several may be given. The word scikit-learn stands for the sets that come with it: breast cancer,
    digits, iris and wine.
    """
    from dpmmwrap.evaluation.experiments import plan_battery
    from dpmmwrap.evaluation.sets import find_sets, read_published

    folders = options["folders"]
    choice = comparison(options, options["seeds"], upper_bound=options["upper_bound"])
    plan = plan_battery(choice, find_sets(folders, options["sets"] or (), options["max_points"]))
    published = read_published(folders)

    def write(store: Any) -> None:
        from dpmmwrap.describe.report.engine import text_table
        from dpmmwrap.evaluation.battery_report import report_battery

        sets, means = report_battery(options["out"], store, plan, typed(ctx), options["groups"], published)
        if not options["quiet"]:
            click.echo(f"ARI, and the number of clusters in brackets\n\n{text_table(sets)}\n\n{text_table(means)}\n")

    return carry_out(ctx, plan, write)


PAPER = """
\b
Methods: SubC-Random, SubC-K-means and SubC-SplitNet, DPGMM (scikit-learn's, with our prior), moVB
(if bnpy is installed), EM-GMM and K-means (which know the number of clusters).
A real data set is a .npz with X (principal components) and y, whose name contains mnist,
fashion-mnist, cifar10, cifar20 or stl10.
The folder gets results.csv, box plots, report.html and report.md. After an interruption the same
command continues; finished runs are not repeated.
\b
Examples:
  dpmmwrap evaluate paper --small --data features --out paper
  dpmmwrap evaluate paper --backend julia --jobs 4 --out paper-julia
  dpmmwrap evaluate paper --prior 4 --data features --out round-clusters
  dpmmwrap evaluate paper --ratio jain-neal --dims 2 --methods SubC-Random,SubC-K-means --out whole-ratio
"""
SIZES = {
    "dims": "Dimensions of the mixtures.",
    "clusters": "True clusters of the mixtures.",
    "points": "Points of each mixture.",
    "datasets": "Mixtures of each kind.",
    "runs": "Runs on each real data set, and on the mixtures whose iterations are plotted.",
    "iterations": "Iterations of each method.",
    "upper_bounds": "Clusters that DPGMM may use, one after the other.",
    "max_points": "Larger real data sets are reduced to a random sample of this size.",
}


def size_option(name: str, text: str) -> Option:
    """An option about the size of the experiments, for one number or several."""
    full, small = getattr(Sizes(), name), getattr(SMALL, name)
    several = isinstance(full, tuple)
    kind: dict[str, Any] = {"callback": number_list, "metavar": "N,N,…"} if several else {"type": POSITIVE}
    shown = [",".join(map(str, value)) if several else str(value) for value in (full, small)]
    default = shown[0] if full == small else f"{shown[0]}; {shown[1]} with --small"
    return click.option(f"--{name.replace('_', '-')}", default=None, help=f"{text}  [default: {default}]", **kind)


@click.command("paper", epilog=PAPER)
@click.option("--small", is_flag=True, help="Less of everything, for a few minutes instead of a day.")
@click.option("--data", type=A_PATH, metavar="DIR", help="A folder with the paper's real data sets.")
@click.option("--backend", type=click.Choice(["native", "julia"]), default="native", show_default=True)
@ratio_option("reference")
@prior_option
@methods_option
@with_options(*(size_option(name, text) for name, text in SIZES.items()))
@run_options
@out_option("evaluation-paper")
@click.pass_context
def paper(ctx: click.Context, /, **options: Any) -> int:
    """Repeat the paper's experiments: its mixtures, its data sets (if you have them), and its methods.

    Winter, Dinari and Freifeld (2022): NMI, ARI, K, log posterior and seconds of the three starts and of other methods,
    beside what the paper prints.
    """
    from dpmmwrap.evaluation.experiments import find_paper_sets, plan_paper
    from dpmmwrap.evaluation.report import report_paper

    given = {name: options[name] for name in SIZES if options[name] is not None}
    sizes = replace(SMALL if options["small"] else Sizes(), **given)
    choice = comparison(options, 1, iterations=sizes.iterations, ratio=options["ratio"], prior=options["prior"])
    sets = find_paper_sets(options["data"], sizes.max_points)
    plan = plan_paper(choice, sizes, sets, options["backend"])
    return carry_out(ctx, plan, lambda store: report_paper(options["out"], store, plan, typed(ctx)))


EXAMPLES = """
\b
Examples:
  dpmmwrap evaluate splits --dim 2 --out splits
  dpmmwrap evaluate splits --dim 10 --weights mine.safetensors
"""


@click.group("evaluate")
def command() -> None:
    """Repeat the experiments and compare with other methods."""


for experiment in (paper, synthetic, data, battery):
    command.add_command(experiment)


@command.command("splits", epilog=EXAMPLES)
@option("--dim", 2, "Features of a point.", type=POSITIVE)
@option("--sets", 80, "Test sets of each level.", type=POSITIVE)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--weights", type=A_PATH, help="Weights of a SplitNet other than the shipped one.")
@click.option("--parts", is_flag=True, help="Also SplitNet's start with each of its parts left out in turn.")
@click.option("--out", type=A_PATH, metavar="DIR", help="Write a table, a figure and a report to this folder.")
@click.pass_context
def splits(
    ctx: click.Context, dim: int, sets: int, seed: int, weights: Path | None, parts: bool, out: Path | None
) -> None:
    """Compare how well each start splits the paper's easy, medium and hard test sets.

    The measures are ARI, the share of splits with a positive log Hastings ratio, and milliseconds per split.
    """
    from dpmmwrap.describe.report.engine import markdown_table
    from dpmmwrap.evaluation.splits import compare_splits, levels_table, write_splits
    from dpmmwrap.files import prepare_folder

    if out is not None:
        prepare_folder(out, needed=5_000_000)
    results = compare_splits(dim, sets, seed, weights, parts)
    click.echo(markdown_table(levels_table(results, f"D = {dim}")))
    if out is not None:
        write_splits(out, results, dim, sets, seed, weights, typed(ctx))
        click.echo(f"Written to {out}: results.csv, report.html, report.md and a figure")
