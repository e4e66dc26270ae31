"""`dpmmwrap fit`: cluster a file of points."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dpmmwrap.cli.families import COVARIANCES, FAMILIES, as_options, gaps_allowed, kind_of_file, settle, way_out

if TYPE_CHECKING:
    from dpmmwrap.arrays import IntArray
    from dpmmwrap.cli.results import Fitted
    from dpmmwrap.files import Data

DEFAULT_INIT = "auto"
INITS = ("auto", "random", "kmeans", "splitnet")
RATIOS = ("auto", "jain-neal", "reference", "printed")
A_PATH = click.Path(path_type=Path)
POSITIVE = click.IntRange(min=1)

SAME_NAME = (
    *(
        "backend",
        "min_cluster_age",
        "init_clusters",
        "max_clusters",
        "outlier_weight",
        "acceptance_ratio",
        "n_jobs",
        "device",
    ),
    *("checkpoint", "checkpoint_every", "workers", "machines"),
)
"""Options that the estimator calls by the same names."""

EXAMPLES = """
\b
Examples:
  dpmmwrap fit --example
  dpmmwrap fit data.npy --out result
  dpmmwrap fit data.csv --iterations 200 --seed 1 --labels truth.csv
  dpmmwrap fit data.npz --json | jq .n_clusters
  dpmmwrap fit large.npy --checkpoint large.ckpt --out result
  dpmmwrap fit words.npz --family multinomial
  dpmmwrap fit patients.csv --categorical sex,region
"""


def word_or_number(ctx: click.Context, option: click.Parameter, value: str) -> str | int:
    """A positive number, or one of the words auto and many."""
    number: int | str = value if value in ("auto", "many") else POSITIVE(value, option, ctx)
    return number


def auto_or_positive(ctx: click.Context, option: click.Parameter, value: str) -> str | float:
    """A number above zero, or the word auto."""
    number: float | str = value if value == "auto" else click.FloatRange(min=0, min_open=True)(value, option, ctx)
    return number


def column_list(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Columns with commas between them."""
    if value is None:
        return None
    columns = tuple(word.strip() for word in value.split(",") if word.strip())
    if not columns:
        raise click.BadParameter("expected names or numbers of columns, with commas between them.", ctx, option)
    return columns


def known_device(ctx: click.Context, option: click.Parameter, value: str) -> str:
    if value not in ("auto", "cpu", "cuda") and not (value.startswith("cuda:") and value[5:].isdecimal()):
        raise click.BadParameter(f"{value!r} is not one of 'auto', 'cpu', 'cuda'.", ctx, option)
    return value


@click.command("fit", epilog=EXAMPLES)
@click.argument("data", type=A_PATH, required=False)
@click.option("--example", is_flag=True, help="Cluster the bundled example: 10,000 points in 2 dimensions.")
@click.option("--out", type=A_PATH, metavar="DIR", help="Write labels, model, trace, summary and pictures here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else.")
@click.option("--labels", type=A_PATH, metavar="TRUTH", help="True labels, for NMI and ARI (else y of a .npz).")
@click.option(
    "--family",
    type=click.Choice(FAMILIES),
    show_default="gaussian",
    help="What the points of a cluster follow. multinomial: rows of counts, dense or sparse. mixed: a table of numbers "
    "and categories.",
)
@click.option(
    "--covariance",
    type=click.Choice(COVARIANCES),
    default="auto",
    show_default=True,
    help="Of Gaussian clusters: any ellipsoid, one along the axes, or a ball. auto: full or diag, whichever makes the "
    "data more probable. Missing values need diag or spherical, and auto knows that.",
)
@click.option(
    "--categorical",
    callback=column_list,
    metavar="COLS",
    help="Categorical columns, by names or by numbers from 1, with commas between them: --family mixed. Without it, "
    "those that hold words.",
)
@click.option("--skip-missing", is_flag=True, help="Leave out rows with missing values.")
@click.option(
    "--init",
    type=click.Choice(INITS),
    default=DEFAULT_INIT,
    show_default=True,
    help="How the two subclusters of a new cluster begin. auto: splitnet for Gaussian clusters, else kmeans.",
)
@click.option("--weights", type=A_PATH, metavar="FILE", help="Weights of a trained network, for --init splitnet.")
@click.option(
    "--alpha",
    callback=auto_or_positive,
    metavar="auto|NUMBER",
    default="auto",
    show_default=True,
    help="Concentration: more means more clusters. auto: learned from the data.",
)
@click.option("--iterations", type=POSITIVE, default=100, show_default=True, help="Length of the chain.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="The same seed gives the same labels.",
)
@click.option(
    "--prior",
    default="data",
    show_default=True,
    metavar="data|reference|FILE",
    help="From how wide the data are locally; the reference package's (0, I); or a .json or .npz with "
    "mean, mean_strength, scale and degrees_of_freedom (of counts: concentration).",
)
@click.option(
    "--init-clusters",
    callback=word_or_number,
    metavar="auto|many|N",
    default="auto",
    show_default=True,
    help="Clusters to begin with. many: small ones, that then merge. auto: 1, but many where the reference's ratio "
    "is used, by which splits do not find clusters that overlap.",
)
@click.option("--max-clusters", type=POSITIVE, help="Never have more clusters than this.")
@click.option("--min-cluster-age", type=POSITIVE, help="Iterations before a new cluster may split or merge.")
@click.option(
    "--acceptance-ratio",
    type=click.Choice(RATIOS),
    default="auto",
    show_default=True,
    help="How splits and merges are judged: by all of the Hastings ratio (auto, with the built-in sampler), as the "
    "reference package does (auto, with Julia), or as the paper prints it.",
)
@click.option(
    "--outlier-weight",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Weight of a component for outliers, which get the label -1.",
)
@click.option(
    "--backend",
    type=click.Choice(["auto", "native", "julia"]),
    default="auto",
    show_default=True,
    help="The built-in sampler or DPMMSubClusters.jl; auto takes Julia where it is set up.",
)
@click.option("--n-jobs", type=int, help="Threads; -1 for all cores. The labels do not depend on it.")
@click.option(
    "--device",
    callback=known_device,
    metavar="auto|cpu|cuda",
    default="auto",
    show_default=True,
    help="Where the network runs; auto: cuda where there is one.",
)
@click.option("--workers", type=click.IntRange(min=0), help="Julia: worker processes on this machine.")
@click.option("--machines", type=A_PATH, metavar="FILE", help="Julia: a file of machines to run workers on.")
@click.option("--checkpoint", type=A_PATH, metavar="FILE", help="Save the chain here; go on from it if it exists.")
@click.option("--checkpoint-every", type=POSITIVE, metavar="N", help="Iterations between two saves.")
@click.option("--quiet", "-q", is_flag=True, help="No progress line and no table.")
@click.option("--burnout", type=POSITIVE, hidden=True)
@click.option("--merge-ratio", type=click.Choice(RATIOS), hidden=True)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Cluster the points of DATA: .npy, .npz (X, and y if there), .csv, .tsv or .parquet.

    Each row is a point, each column a feature. The number of clusters is found, not given. Counts may also be a sparse
    matrix (.npz, as scipy.sparse.save_npz writes it). NaN, NA and empty fields are missing values.
    Ctrl-C ends after the current iteration and keeps the result so far.
    """
    from dpmmwrap.cli import DONE, INTERRUPTED

    settle(ctx, options)
    task = read(options)
    check_places(options, len(task.data))
    fitted = fit(task, options)
    finish(fitted, task, options)
    return INTERRUPTED if fitted.model.interrupted_ else DONE


class Task(NamedTuple):
    """What is to be clustered."""

    data: Data
    truth: IntArray | None
    prior: Any
    source: str
    """Where the points came from."""
    kept: IntArray | None = None
    """The numbers of the rows that are left where some were left out."""
    skipped: int = 0


def read(options: dict[str, Any]) -> Task:
    """The prior, the points and their true labels, without the rows that are to be left out."""
    from dpmmwrap.cli.priors import check_dimensions, make_prior

    prior = make_prior(options["prior"], options["family"], options["covariance"])
    data, source = read_points(options, prior)
    check_dimensions(prior, options["prior"], data.dim)
    task = Task(data, read_truth(data, options["labels"]), prior, source)
    return skip_missing(task) if options["skip_missing"] else task


def read_points(options: dict[str, Any], prior: Any) -> tuple[Data, str]:
    """The points and the name of where they came from."""
    from dpmmwrap.datasets import read_example
    from dpmmwrap.files import InputError, read_data

    if options["example"]:
        return read_example(), "the bundled example"
    gaps = options["skip_missing"] or gaps_allowed(options, prior)
    kind, words = kind_of_file(options["family"]), options["categorical"] or ()
    try:
        return read_data(options["data"], kind=kind, gaps=gaps, words=words), str(options["data"])
    except InputError as error:
        raise InputError(f"{error}{way_out(error, options, prior)}") from error


def read_truth(data: Data, path: Path | None) -> IntArray | None:
    from dpmmwrap.files import read_labels

    return data.y if path is None else read_labels(path, len(data))


def skip_missing(task: Task) -> Task:
    """Without the rows in which values are missing."""
    import numpy as np

    from dpmmwrap.files import InputError

    complete = task.data.complete()
    kept = np.flatnonzero(complete)
    if len(kept) == len(complete):
        return task
    if len(kept) < 2:
        message = f"{task.source} should hold at least 2 points without missing values, but it holds {len(kept)}"
        raise InputError(message)
    truth = None if task.truth is None else task.truth[kept]
    return task._replace(data=task.data.only(kept), truth=truth, kept=kept, skipped=len(complete) - len(kept))


def check_places(options: dict[str, Any], n: int) -> None:
    """Whether results can be written is found out before the fit, not after."""
    from dpmmwrap.files import check_writable, prepare_folder

    if options["out"] is not None:
        # The labels, and some room for the rest.
        prepare_folder(options["out"], needed=4 * n + 2_000_000)
    if options["checkpoint"] is not None:
        check_writable(options["checkpoint"], needed=5 * n)


def fit(task: Task, options: dict[str, Any]) -> Fitted:
    """The fitted model, how long that took, and what was to be said meanwhile."""
    from dpmmwrap.cli.progress import heard_warnings, progress_line
    from dpmmwrap.cli.results import Fitted
    from dpmmwrap.estimator import DPMM

    model = DPMM(**parameters(options, task))
    start = time.perf_counter()
    with heard_warnings() as heard, progress_line(options["iterations"], shown=not options["quiet"]) as progress:
        model.fit(task.data.X, truth=task.truth, progress=progress)
    # The model's own notes come as warnings, too.
    notes = dict.fromkeys([*task.data.notes, *heard, *model.notes_])
    return Fitted(model, time.perf_counter() - start, tuple(as_options(note) for note in notes))


def parameters(options: dict[str, Any], task: Task) -> dict[str, Any]:
    """The estimator's parameters; what was not asked for keeps the estimator's default."""
    given = {
        "alpha": options["alpha"],
        "covariance_type": options["covariance"],
        "family": options["family"],
        "init": make_start(options),
        "max_iter": options["iterations"],
        "prior": task.prior,
        "random_state": options["seed"],
    }
    if options["categorical"] is not None:
        from dpmmwrap.files import find_columns

        given["categorical"] = list(find_columns(options["categorical"], tuple(task.data.X), task.source))
    return given | {name: options[name] for name in SAME_NAME if options[name] is not None}


def make_start(options: dict[str, Any]) -> Any:
    if options["weights"] is None:
        return options["init"]
    from dpmmwrap.starts import make_initializer

    return make_initializer("splitnet", weights=options["weights"], device=options["device"])


def finish(fitted: Fitted, task: Task, options: dict[str, Any]) -> None:
    """Show the result, then write it: should the disk be full by now, the numbers are not lost. Nor are the files if
    whoever reads the numbers has left (`| head`)."""
    from dpmmwrap.cli import results

    summary = results.summarise(fitted, task)
    try:
        if options["as_json"]:
            click.echo(results.to_json(summary))
        elif options["quiet"]:
            for note in fitted.notes:
                click.echo(f"dpmmwrap: note: {note}", err=True)
        else:
            results.show(summary, task.source)
    finally:
        if options["out"] is not None:
            written = results.write(options["out"], fitted.model, summary, task)
            if not options["quiet"]:
                click.echo(written, err=options["as_json"])
