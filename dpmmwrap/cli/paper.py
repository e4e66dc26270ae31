"""`dpmmwrap evaluate paper`: all experiments of the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from dpmmwrap.cli.common import A_PATH, POSITIVE, Option, number_list, with_options
from dpmmwrap.cli.experiments import carry_out, comparison, methods_option, out_option, ratio_option, run_options, typed
from dpmmwrap.evaluation.sizes import SMALL, PaperSizes

HELP = """
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
    full, small = getattr(PaperSizes(), name), getattr(SMALL, name)
    several = isinstance(full, tuple)
    kind: dict[str, Any] = {"callback": number_list, "metavar": "N,N,…"} if several else {"type": POSITIVE}
    shown = [",".join(map(str, value)) if several else str(value) for value in (full, small)]
    default = shown[0] if full == small else f"{shown[0]}; {shown[1]} with --small"
    return click.option(f"--{name.replace('_', '-')}", default=None, help=f"{text}  [default: {default}]", **kind)


@click.command("paper", epilog=HELP)
@click.option("--small", is_flag=True, help="Less of everything, for a few minutes instead of a day.")
@click.option("--data", type=A_PATH, metavar="DIR", help="A folder with the paper's real data sets.")
@click.option("--backend", type=click.Choice(["native", "julia"]), default="native", show_default=True)
@ratio_option("reference")
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
    from dpmmwrap.evaluation.fits import FitSettings
    from dpmmwrap.evaluation.paper import find_paper_sets, plan_paper
    from dpmmwrap.evaluation.report import report_paper

    given = {name: options[name] for name in SIZES if options[name] is not None}
    sizes = replace(SMALL if options["small"] else PaperSizes(), **given)
    settings = FitSettings(iterations=sizes.iterations, ratio=options["ratio"])
    sets = find_paper_sets(options["data"], sizes.max_points)
    plan = plan_paper(comparison(options, settings, 1), sizes, sets, options["backend"])
    return carry_out(ctx, plan, lambda store: report_paper(options["out"], store, plan, typed(ctx)))
