"""`dpmmwrap evaluate synthetic` and `data`: the experiments that run methods on data sets."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.cli import INTERRUPTED
from dpmmwrap.cli.common import (
    A_PATH,
    ABOVE_ZERO,
    POSITIVE,
    Option,
    column_list,
    command_line,
    many_or_number,
    number_list,
    option,
    say_note,
    with_options,
    word_list,
    word_or,
)
from dpmmwrap.cli.data_options import data_options, format_of, left_out_note, selection_of, true_labels
from dpmmwrap.cli.families import way_without_words
from dpmmwrap.cli.preparing import counting_notes
from dpmmwrap.describe.progress import live_line
from dpmmwrap.evaluation.sizes import PAPER_SETS, Sizes

if TYPE_CHECKING:
    from dpmmwrap.evaluation.experiments import Comparison, Outcome, Plan, Run
    from dpmmwrap.evaluation.sources import FromFile
    from dpmmwrap.evaluation.store import Store
    from dpmmwrap.files import Data

RATIOS = ("auto", "jain-neal", "reference")
METHODS_HELP = """
\b
Methods: SubC-Random, SubC-K-means, SubC-SplitNet (each also followed by " (Julia)"), moVB, EM-GMM,
K-means; "DPGMM (our prior)" and "DPGMM (its own prior)", or DPGMM for both: scikit-learn's, with
the prior and concentration of the others, or with its own defaults. Also DPMM, GMM-BIC,
K-means-silhouette and HDBSCAN, which evaluate battery explains.
Methods that cannot run here are left out, with a note that says why.
The folder gets results.csv, figures, report.html and report.md. After an interruption the same
command continues; finished runs are not repeated.
"""
SYNTHETIC = """
\b
Examples:
  dpmmwrap evaluate synthetic --dim 2 --clusters 10,20,40 --points 20000 --datasets 10
  dpmmwrap evaluate synthetic --dim 5 --methods SubC-Random,SubC-SplitNet --jobs 4 --out five
"""
DATA = """
\b
Examples:
  dpmmwrap evaluate data features.npy --labels classes.csv --runs 10 --out mine
  dpmmwrap evaluate data iris.csv --labels species --drop id --out iris
  dpmmwrap evaluate data t10k-images-idx3-ubyte.gz --labels t10k-labels-idx1-ubyte.gz --compare-with MNIST
  dpmmwrap evaluate data fashion-mnist
"""


def ratio_option(default: str) -> Option:
    return option(
        "--ratio",
        default,
        "How the SubC samplers accept splits and merges: by the whole Hastings ratio, or as the reference package "
        "does, without restarts of subclusters. auto: the latter on Julia only.",
        type=click.Choice(RATIOS),
    )


prior_option = option(
    "--prior",
    "data",
    "The prior of all methods: from the data, the reference package's, or the latter with Psi = NUMBER I instead of I.",
    callback=word_or(ABOVE_ZERO, "data", "reference"),
    metavar="data|reference|NUMBER",
)
methods_option = click.option("--methods", callback=word_list, metavar="NAME,…", help="Methods to compare; see below.")
run_options = with_options(
    option("--seed", 0, "Seed of the first run.", type=click.IntRange(0, 2**31)),
    option("--jobs", 1, "Runs in parallel.", type=POSITIVE),
    click.option("--report-only", is_flag=True, help="Run nothing: report the finished runs of the folder."),
    click.option("--quiet", "-q", is_flag=True, help="No progress and no table."),
)
"""Options of all experiments."""
common = with_options(
    methods_option,
    option("--iterations", 200, "Iterations of each method.", type=POSITIVE),
    ratio_option("auto"),
    option("--alpha", 10.0, "Concentration: more gives more clusters.", type=ABOVE_ZERO),
    prior_option,
    option(
        "--init-clusters",
        "1",
        "Clusters that the SubC samplers begin with: 1 as in the paper; many: small ones, which then merge; auto: as "
        "fit does.",
        callback=many_or_number,
        metavar="auto|many|N",
    ),
    option("--upper-bound", 100, "Largest number of clusters of DPGMM; 1000 in the paper.", type=POSITIVE),
    click.option("--weights", type=A_PATH, metavar="FILE", help="Weights of a SplitNet other than the shipped one."),
    run_options,
)
"""Options of all experiments except the battery."""


def out_option(default: str) -> Option:
    return option("--out", default, "Folder to write to.", type=A_PATH, metavar="DIR")


def typed(ctx: click.Context) -> str:
    return command_line(ctx, ("jobs", "quiet", "report_only"))


@click.command("synthetic", epilog=METHODS_HELP + SYNTHETIC)
@option("--dim", 2, "Features of a point.", type=POSITIVE)
@option("--clusters", "10,20,40", "True clusters of the data sets.", callback=number_list, metavar="N,N,…")
@option("--points", 20_000, "Points in each data set.", type=POSITIVE)
@option("--datasets", 10, "Data sets of each kind.", type=POSITIVE)
@option("--runs", 1, "Runs of each method on each data set.", type=POSITIVE)
@click.option(
    "--spread",
    type=ABOVE_ZERO,
    help="Variance of the clusters' means.  [default: 50 in 1 or 2 dimensions, 20 in 3 or 4, 10 beyond]",
)
@option(
    "--qualitative-runs",
    10,
    "Runs of each start on the first data set, plotted by iteration.",
    type=click.IntRange(min=0),
)
@common
@out_option("evaluation-synthetic")
@click.pass_context
def synthetic(ctx: click.Context, /, **options: Any) -> int:
    """Compare methods on mixtures drawn at random: K, NMI, ARI, log posterior, running times."""
    from dpmmwrap.evaluation.experiments import plan_synthetic
    from dpmmwrap.evaluation.report import report_synthetic

    names = ("clusters", "points", "datasets")
    sizes = Sizes((options["dim"],), runs=options["qualitative_runs"], **{name: options[name] for name in names})
    plan = plan_synthetic(choice(options), sizes, options["spread"])
    return carry_out(ctx, plan, lambda store: report_synthetic(options["out"], store, plan, typed(ctx)))


@click.command("data", epilog=METHODS_HELP + DATA)
@click.argument("file", nargs=-1, required=True)
@with_options(*data_options(click.option))
@click.option(
    "--categorical",
    callback=column_list,
    metavar="COLS",
    help="Categorical columns, by names or by numbers from 1: each level becomes a column of zeros and ones.",
)
@option("--runs", 10, "Runs of each method.", type=POSITIVE)
@click.option("--name", help="The name of the data in the report.  [default: the file's name]")
@click.option(
    "--compare-with",
    type=click.Choice((*PAPER_SETS, "none"), case_sensitive=False),
    help="The data set of the paper to compare with.  [default: by the file's name]",
)
@common
@out_option("evaluation-data")
@click.pass_context
def data(ctx: click.Context, /, **options: Any) -> int:
    """Compare methods on the points of FILE, whose true labels are known.

    FILE is one or several files that dpmmwrap fit reads; MNIST's idx files or Keras' .npz of images; or mnist or
    fashion-mnist, which are downloaded from openml.org. Images are projected on 20 principal components, unless --pca
    says otherwise. K-means and DPGMM with its own prior get columns of variance one, except principal components, which
    are not scaled.
    """
    from dpmmwrap.evaluation.experiments import plan_data
    from dpmmwrap.evaluation.report import report_data
    from dpmmwrap.evaluation.sizes import paper_set

    name = options["name"] or Path(options["file"][0]).name
    asked = options["compare_with"]
    paper = paper_set(name) if asked is None else None if asked == "none" else asked
    chosen = choice(options)
    source, rows, skipped = open_data(options, name)
    plan = plan_data(chosen, source)
    left_out = [left_out_note(skipped)] if skipped else []
    plan = replace(plan, notes=[*rows.notes, *counting_notes(rows), *left_out, *plan.notes])
    return carry_out(ctx, plan, lambda store: report_data(options["out"], store, plan, typed(ctx), paper))


def open_data(options: dict[str, Any], name: str) -> tuple[FromFile, Data, int]:
    """The points of files; errors say what to do."""
    from dpmmwrap.evaluation.images import is_images
    from dpmmwrap.evaluation.sources import Reading, open_file
    from dpmmwrap.files import InputError, MissingValues, WordsInstead, files_of

    paths = tuple(options["file"])
    if len(paths) == 1 and is_images(paths[0]):
        column, file = None, options["labels"]
    else:
        column, file = true_labels(options["labels"], files_of(paths)[0], format_of(options))
    selection = selection_of(options, column)
    asked = (options["skip_missing"], options["scale"], options["pca"], options["categorical"] or ())
    try:
        return open_file(Reading(paths, None if file is None else str(file), selection, *asked), name)
    except WordsInstead as error:
        raise InputError(f"{error}{way_without_words(error, 'evaluate')}") from error
    except MissingValues as error:
        raise InputError(f"{error}; --skip-missing leaves out such rows") from error


def choice(options: dict[str, Any]) -> Comparison:
    names = ("alpha", "iterations", "prior", "ratio", "init_clusters", "upper_bound")
    weights = None if options["weights"] is None else str(options["weights"])
    return comparison(options, options["runs"], weights=weights, **{name: options[name] for name in names})


def comparison(options: dict[str, Any], runs: int, **settings: Any) -> Comparison:
    from dpmmwrap.evaluation.experiments import Comparison
    from dpmmwrap.evaluation.fits import FitSettings

    in_processes = options["jobs"] > 1
    return Comparison(options["methods"], FitSettings(**settings), runs, options["seed"], in_processes=in_processes)


def carry_out(ctx: click.Context, plan: Plan, write: Callable[[Store], None]) -> int:
    """Do the runs and write the report; after Ctrl-C, say what is kept."""
    from dpmmwrap.evaluation.store import Store, locked, run_all
    from dpmmwrap.files import InputError, prepare_folder

    folder, quiet = ctx.params["out"], ctx.params["quiet"]
    for note in plan.notes:
        say_note(note)
    prepare_folder(folder, needed=50_000_000)
    with locked(folder):
        store = Store(folder, plan.runs)
        done = sum(run in store for run in plan.runs)
        try:
            with progress_bar(len(plan.runs), done, shown=not quiet) as finished:
                if not ctx.params["report_only"]:
                    run_all(store, ctx.params["jobs"], finished)
        except KeyboardInterrupt:
            done = sum(run in store for run in plan.runs)
            kept = f"{done} of {len(plan.runs)} runs are kept in {folder}"
            click.echo(f"dpmmwrap: interrupted: {kept}, and the same command continues", err=True)
            return INTERRUPTED
        if not any(run in store for run in plan.runs):
            raise InputError(f"{folder} holds no finished run of this experiment yet")
        write(store)
    if not quiet:
        click.echo(f"Written to {folder}: results.csv, report.html, report.md and figures")
    return 0


@contextlib.contextmanager
def progress_bar(runs: int, done: int, *, shown: bool) -> Iterator[Callable[[Run, Outcome], None]]:
    """Runs done and time left: a live bar on a terminal, else a line for each run."""
    numbers = itertools.count(done + 1)
    if not shown:
        yield lambda run, outcome: None
    elif not sys.stderr.isatty():
        yield lambda run, outcome: click.echo(f"run {next(numbers)}/{runs}: {describe(run, outcome)}", err=True)
    else:
        layout = "run {n}/{total}{postfix} |{bar:16}| {remaining} left"
        with live_line(layout, runs, initial=done, leave=False) as line:

            def redraw(run: Run, outcome: Outcome) -> None:
                line.set_postfix_str(describe(run, outcome), refresh=False)
                line.update()

            yield redraw


def describe(run: Run, outcome: Outcome) -> str:
    """A finished run in a few words."""
    measures = outcome.measures
    where = f" on {run.source.identity()['data']}" if run.experiment == "battery" else ""
    if measures["problem"]:
        return f"{run.method}{where} gave up: {measures['problem']}"
    clusters = f"{measures['n_clusters']} of {run.source.clusters} clusters"
    return f"{run.method}{where}, {clusters}, NMI {measures['nmi']:.2f}, {measures['seconds']:.1f} s"
