"""`dpmmwrap fit`: cluster a file of points."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dpmmwrap.arrays import IntArray
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.families.gaussian import NIW
    from dpmmwrap.files import Data

DEFAULT_INIT = "splitnet"
INITS = ("random", "kmeans", "splitnet")
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
"""


def word_or_number(ctx: click.Context, option: click.Parameter, value: str) -> str | int:
    """A positive number, or one of the words auto and many."""
    number: int | str = value if value in ("auto", "many") else POSITIVE(value, option, ctx)
    return number


@click.command("fit", epilog=EXAMPLES)
@click.argument("data", type=A_PATH, required=False)
@click.option("--example", is_flag=True, help="Cluster the bundled example: 10,000 points in 2 dimensions.")
@click.option("--out", type=A_PATH, metavar="DIR", help="Write labels, model, trace, summary and pictures here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else.")
@click.option("--labels", type=A_PATH, metavar="TRUTH", help="True labels, for NMI and ARI (else y of a .npz).")
@click.option(
    "--init",
    type=click.Choice(INITS),
    default=DEFAULT_INIT,
    show_default=True,
    help="How the two subclusters of a new cluster begin.",
)
@click.option("--weights", type=A_PATH, metavar="FILE", help="Weights of a trained network, for --init splitnet.")
@click.option(
    "--alpha",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Concentration: more means more clusters.",
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
    "mean, mean_strength, scale and degrees_of_freedom.",
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
    type=click.Choice(["auto", "jain-neal", "reference", "printed"]),
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
@click.option("--device", default="auto", show_default=True, help="Where the network runs: cpu, cuda, mps.")
@click.option("--workers", type=click.IntRange(min=0), help="Julia: worker processes on this machine.")
@click.option("--machines", type=A_PATH, metavar="FILE", help="Julia: a file of machines to run workers on.")
@click.option("--checkpoint", type=A_PATH, metavar="FILE", help="Save the chain here; go on from it if it exists.")
@click.option("--checkpoint-every", type=POSITIVE, metavar="N", help="Iterations between two saves.")
@click.option("--quiet", "-q", is_flag=True, help="No progress line and no table.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Cluster the points of DATA: .npy, .npz (X, and y if there), .csv, .tsv or .parquet.

    Each row is a point, each column a feature. The number of clusters is found, not given.
    Ctrl-C ends after the current iteration and keeps the result so far.
    """
    from dpmmwrap.cli import DONE, INTERRUPTED

    check_together(ctx, options)
    data, source = read_points(options)
    truth = read_truth(data, options["labels"])
    check_places(options, len(data.X))
    model, seconds = fit(data, truth, options)
    finish(model, seconds, data, truth, source, options)
    return INTERRUPTED if model.interrupted_ else DONE


def check_together(ctx: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that make no sense together, before anything is read."""
    if options["example"] == (options["data"] is not None):
        raise click.UsageError("Expected either a file of points or --example.", ctx)
    if options["weights"] is not None and options["init"] != "splitnet":
        raise click.UsageError(f"--weights is for --init splitnet, not {options['init']}.", ctx)
    if options["checkpoint_every"] is not None and options["checkpoint"] is None:
        raise click.UsageError("--checkpoint-every needs --checkpoint FILE.", ctx)


def read_points(options: dict[str, Any]) -> tuple[Data, str]:
    """The points and the name of where they came from."""
    from dpmmwrap.datasets import read_example
    from dpmmwrap.files import read_data

    if options["example"]:
        return read_example(), "the bundled example"
    return read_data(options["data"]), str(options["data"])


def read_truth(data: Data, path: Path | None) -> IntArray | None:
    from dpmmwrap.files import read_labels

    return data.y if path is None else read_labels(path, len(data.X))


def check_places(options: dict[str, Any], n: int) -> None:
    """Whether results can be written is found out before the fit, not after."""
    from dpmmwrap.files import check_writable, prepare_folder

    if options["out"] is not None:
        # The labels, and some room for the rest.
        prepare_folder(options["out"], needed=4 * n + 2_000_000)
    if options["checkpoint"] is not None:
        check_writable(options["checkpoint"], needed=5 * n)


def fit(data: Data, truth: IntArray | None, options: dict[str, Any]) -> tuple[DPMM, float]:
    """The fitted model, and the seconds that took."""
    from dpmmwrap.cli.progress import progress_line
    from dpmmwrap.estimator import DPMM

    model = DPMM(**parameters(options, data.X.shape[1]))
    start = time.perf_counter()
    with progress_line(options["iterations"], shown=not options["quiet"]) as progress:
        model.fit(data.X, truth=truth, progress=progress)
    return model, time.perf_counter() - start


def parameters(options: dict[str, Any], dim: int) -> dict[str, Any]:
    """The estimator's parameters; what was not asked for keeps the estimator's default."""
    given = {
        "alpha": options["alpha"],
        "init": make_start(options),
        "max_iter": options["iterations"],
        "prior": make_prior(options["prior"], dim),
        "random_state": options["seed"],
    }
    return given | {name: options[name] for name in SAME_NAME if options[name] is not None}


def make_start(options: dict[str, Any]) -> Any:
    if options["weights"] is None:
        return options["init"]
    from dpmmwrap.starts import make_initializer

    return make_initializer("splitnet", weights=options["weights"], device=options["device"])


def make_prior(prior: str, dim: int) -> str | NIW:
    """The prior by name or from a file."""
    if prior in ("data", "reference"):
        return prior
    from dpmmwrap.families.gaussian import NIW
    from dpmmwrap.files import InputError, read_arrays, read_json

    names = ("mean", "mean_strength", "scale", "degrees_of_freedom")
    path = Path(prior)
    if path.suffix.lower() not in (".json", ".npz"):
        raise InputError(f"--prior should be data, reference, or a .json or .npz file, not {prior!r}")
    fields = read_arrays(path, required=names) if path.suffix.lower() == ".npz" else read_json(path)
    if not isinstance(fields, dict) or sorted(fields) != sorted(names):
        came = ", ".join(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise InputError(f"{path} should hold {', '.join(names)}, but it holds {came or 'nothing'}")
    try:
        niw = NIW(**{name: as_numbers(value) for name, value in fields.items()})
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} should hold a normal-inverse-Wishart prior: {error}") from error
    if niw.dim != dim:
        raise InputError(f"{path} should be a prior of {dim} dimensions like the data, but it has {niw.dim}")
    return niw


def as_numbers(value: Any) -> Any:
    """A float, or an array of floats."""
    import numpy as np

    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array


def finish(
    model: DPMM, seconds: float, data: Data, truth: IntArray | None, source: str, options: dict[str, Any]
) -> None:
    """Show the result, then write it: should the disk be full by now, the numbers are not lost. Nor are the files if
    whoever reads the numbers has left (`| head`)."""
    from dpmmwrap.cli import results

    summary = results.summarise(model, seconds, truth)
    try:
        if options["as_json"]:
            click.echo(results.to_json(summary))
        elif not options["quiet"]:
            results.show(summary, source)
    finally:
        if options["out"] is not None:
            notes = results.write(options["out"], model, summary, data, truth)
            if not options["quiet"]:
                click.echo(notes, err=options["as_json"])
