"""The options of `dpmmwrap fit`, in the sections of its help."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from dpmmwrap.cli.common import (
    A_PATH,
    ABOVE_ZERO,
    POSITIVE,
    Option,
    auto_or_number,
    auto_or_positive,
    column_list,
    many_or_number,
    with_options,
)
from dpmmwrap.cli.data_options import data_options
from dpmmwrap.families import COVARIANCE_TYPES, FAMILIES, TAILS

INITS = ("auto", "random", "kmeans", "splitnet")
RATIOS = ("auto", "jain-neal", "reference", "printed")
LOSSES, NO_LOSS = ("vi", "binder"), "none"

EXAMPLES = """
\b
Examples:
  dpmmwrap fit --example
  dpmmwrap fit data.npy --out result
  dpmmwrap fit iris.csv --labels species --drop id --scale --out result
  dpmmwrap fit 'parts/*.csv.gz' --id sample --columns width,height --out result
  dpmmwrap fit data.csv --iterations 200 --seed 1 --labels truth.csv
  dpmmwrap fit data.csv --draws 1000 --chains 4 --out result
  dpmmwrap fit data.csv --sensitivity
  dpmmwrap fit tuesday.csv --update result/model.npz --out result
  dpmmwrap fit data.npz --json | jq .n_clusters
  dpmmwrap fit large.npy --checkpoint large.ckpt --out result
  dpmmwrap fit words.npz --family multinomial
  dpmmwrap fit patients.csv --categorical sex,region
  dpmmwrap fit /shared/parts --backend dask --scheduler tcp://host:8786 --out result
"""


class SectionOption(click.Option):
    """An option in a section of the help."""

    def __init__(self, *arguments: Any, section: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help has sections in the order of its options; --help is in the last one."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(option, "section", next(reversed(sections), "")), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def section(title: str) -> Callable[..., Callable[[Any], Any]]:
    """`click.option` for a section of the help."""
    return partial(click.option, cls=SectionOption, section=title)


def shape_and_rate(ctx: click.Context, option: click.Parameter, value: str) -> tuple[float, float]:
    """Two positive numbers separated by a comma."""
    parts = value.split(",")
    if len(parts) != 2:
        raise click.BadParameter(f"{value!r} is not two numbers separated by a comma.", ctx, option)
    return ABOVE_ZERO(parts[0], option, ctx), ABOVE_ZERO(parts[1], option, ctx)


def subspace_size(ctx: click.Context, option: click.Parameter, value: str) -> int | str | None:
    """auto, none, or a number above zero."""
    return None if value == "none" else auto_or_number(ctx, option, value)


def known_device(ctx: click.Context, option: click.Parameter, value: str) -> str:
    if value not in ("auto", "cpu", "cuda") and not (value.startswith("cuda:") and value[5:].isdecimal()):
        raise click.BadParameter(f"{value!r} is not one of 'auto', 'cpu', 'cuda'.", ctx, option)
    return value


files, model, search = section("Data and results"), section("Model"), section("Search")
updates = section("Data that keep coming")
draws, running = section("Draws from the posterior"), section("Running")

# fmt: off
OPTIONS: tuple[Option, ...] = (
    files("--example", is_flag=True, help="Cluster the bundled example: 10,000 points in 2 dimensions."),
    *data_options(files, section("How files are written")),
    files("--log", callback=column_list, metavar="COLS",
        help="Take the logarithm of these columns first; for skewed ones, such as incomes and prices."),
    files("--normalize", is_flag=True,
        help="Scale each row to length 1 first, for embeddings in which only the direction matters."),
    files("--out", type=A_PATH, metavar="DIR", help="Write labels, model, trace, summary, a report and pictures here."),
    files("--with-data", is_flag=True, help="Copy the columns of DATA into labels.csv."),
    files("--json", "as_json", is_flag=True, help="Print a JSON object on stdout, and nothing else."),
    files("--quiet", "-q", is_flag=True, help="No progress line and no table."),
    model("--family", type=click.Choice(FAMILIES), show_default=FAMILIES[0],
        help="The distribution of a cluster's points. student: gaussian with --tails student. multinomial: counts, of "
        "which the proportions matter, dense or sparse. poisson: event counts. mixed: a table of numbers and "
        "categories."),
    model("--covariance", type=click.Choice(COVARIANCE_TYPES), default="auto", show_default=True,
        help="The shape of Gaussian clusters: any ellipsoid, one along the axes, or a ball. auto: the shape under "
        "which the data are most probable."),
    model("--tails", type=click.Choice(TAILS), default=TAILS[0], show_default=True,
        help="student: clusters have Student's t distributions with learned degrees of freedom, so that distant points "
        "do not need separate clusters. auto: whichever makes the data more probable."),
    model("--subspace", callback=subspace_size, metavar="auto|none|N", default="auto", show_default=True,
        help="Clusters differ only in a subspace of N dimensions; for embeddings with hundreds of columns. auto: with "
        "more than 30 columns, a subspace if it makes the data more probable."),
    model("--categorical", callback=column_list, metavar="COLS",
        help="The categorical columns; implies --family mixed. By default those that hold words, or whole numbers "
        "with few different values."),
    model("--exposure", metavar="COL",
        help="The column with the time, or the number of cases, over which the events of a row were counted; implies "
        "--family poisson."),
    model("--sample-weight", metavar="COL",
        help="The column with the number of equal rows that each row represents; it is not a feature."),
    model("--known", metavar="COL",
        help="The column of known clusters, empty where the cluster is unknown. Rows of a known cluster stay together, "
        "and apart from those of the others. It is not a feature; labels.csv names these clusters."),
    model("--together", metavar="COL",
        help="Rows with the same value in this column, such as a patient's, share a cluster; it is not a feature."),
    model("--prior", default="data", show_default=True, metavar="data|reference|FILE",
        help="data: learned from the data. reference: the reference package's, around 0 with scale I. FILE: a .json or "
        ".npz with mean, mean_strength, scale and degrees_of_freedom (multinomial: concentration; poisson: shape, rate "
        "and exposure, the number of its column from 0, or -1)."),
    model("--prior-width", callback=auto_or_positive, metavar="auto|NUMBER", default="auto", show_default=True,
        help="How wide the default prior expects clusters to be, as a share of each feature's variance. Smaller values "
        "give more clusters. auto: learned from the data."),
    model("--prior-strength", callback=auto_or_positive, metavar="auto|NUMBER", default="auto", show_default=True,
        help="How certain the prior is of this width, in degrees of freedom. auto: learned from the data."),
    model("--prior-kappa", callback=auto_or_positive, metavar="auto|NUMBER", default="auto", show_default=True,
        help="The variance within a cluster, divided by the variance of the clusters' means. Smaller values expect "
        "clusters farther apart. auto: learned from the data."),
    model("--sensitivity", is_flag=True,
        help="Also show how many clusters short chains find if the prior's width, kappa or concentration is a "
        "quarter, half, twice or four times as large, and how many the prior alone expects."),
    model("--alpha", callback=auto_or_positive, metavar="auto|NUMBER", default="auto", show_default=True,
        help="Concentration: larger values give more clusters. auto: learned from the data."),
    model("--alpha-prior", callback=shape_and_rate, metavar="SHAPE,RATE", default="1,1", show_default=True,
        help="Shape and rate of the Gamma prior under which the concentration is learned."),
    model("--partition-prior", metavar="PRIOR", default="dirichlet", show_default=True,
        help="Prior over partitions: dirichlet; pitman-yor for many small clusters; finite for a number of clusters "
        "that does not grow with the points. Parameters may follow: pitman-yor:CONCENTRATION,DISCOUNT (each may be "
        "auto) or finite:GAMMA,RATE."),
    model("--outlier-weight", type=click.FloatRange(0, 1, max_open=True), metavar="SHARE", default=0.0,
        show_default=True, help="The weight of a broad component for outliers, which get the label -1."),
    updates("--update", type=A_PATH, metavar="MODEL",
        help="Add the rows of DATA to this model, a model.npz or its folder, and write the new one to --out DIR, which "
        "may be the same folder. Clusters keep their ids."),
    updates("--window", type=click.IntRange(min=0), metavar="N", show_default="5000",
        help="The clusters of the last N rows can still change with later rows. In a first fit: keep these rows, and "
        "finer pieces of the clusters, for later updates."),
    updates("--forget", type=click.FloatRange(0, 1, max_open=True), metavar="SHARE", default=0.0, show_default=True,
        help="The share of the weight of earlier rows that is lost with each new row, or with each unit of --time."),
    updates("--time", "time_column", metavar="COL",
        help="The name of the column of times, which are numbers. It must be given from the first fit on."),
    updates("--freeze", is_flag=True, help="Do not merge clusters of the model; only find new ones beside them."),
    updates("--repeat", is_flag=True, help="Add a batch even if the model has seen it before."),
    search("--iterations", callback=auto_or_number, metavar="auto|N", default="auto", show_default=True,
        help="Length of the search. auto: until the log posterior stays flat, at most 500."),
    search("--init", type=click.Choice(INITS), default="auto", show_default=True,
        help="How a new cluster is divided into its two subclusters. auto: kmeans; splitnet for Gaussian clusters in "
        "Julia or with the reference's ratio."),
    search("--weights", type=A_PATH, metavar="FILE", help="Weights of a trained network, for --init splitnet."),
    search("--init-clusters", callback=many_or_number, metavar="auto|many|N", default="auto", show_default=True,
        help="The number of clusters to begin with. many: small ones, which then merge. auto: 1; many with the "
        "reference's ratio, under which splits miss overlapping clusters."),
    search("--max-clusters", type=POSITIVE, metavar="N", help="The largest number of clusters."),
    search("--min-cluster-age", type=POSITIVE, metavar="N", help="Iterations before a new cluster may split or merge."),
    search("--acceptance-ratio", type=click.Choice(RATIOS), default="auto", show_default=True,
        help="How splits and merges are accepted: by the whole Hastings ratio (auto, jain-neal), as in the reference "
        "package, or as printed in the paper."),
    search("--seed", type=click.IntRange(0, 2**32 - 1), metavar="N", default=0, show_default=True,
        help="The same seed gives the same labels and draws."),
    draws("--draws", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
        help="Draws of each chain after the search. With draws, the labels are the clustering that represents them "
        "best, and the result shows how certain it is."),
    draws("--chains", callback=auto_or_number, metavar="auto|N", default="auto", show_default=True,
        help="Independent chains. Without draws, the best one is the result; with draws, they show whether the sampler "
        "has converged. auto: 4 with draws, or for up to 10,000 points and a million numbers; else 1."),
    draws("--thin", type=POSITIVE, metavar="N", show_default="5", help="Iterations from one draw to the next."),
    draws("--loss", type=click.Choice((*LOSSES, NO_LOSS)), show_default="vi",
        help="The loss that the labels minimise, on average over the draws: variation of information, or Binder's. It "
        "needs the labels of all draws, 4 bytes for each point and draw. With none, these are not kept, and the result "
        "is the best clustering of the search, without confidences."),
    running("--n-jobs", type=int, metavar="N",
        help="Threads; -1 for all cores. Several chains run side by side. The result does not depend on it."),
    running("--device", callback=known_device, metavar="auto|cpu|cuda", default="auto", show_default=True,
        help="Where the network runs. auto: cuda if there is a GPU."),
    running("--checkpoint", type=A_PATH, metavar="FILE",
        help="Save the chain here, and resume from this file if it exists. Further chains and the labels of draws have "
        "files beside it. With Dask, a folder that all workers see."),
    running("--checkpoint-every", type=POSITIVE, metavar="N", help="Iterations or draws between two saves."),
    running("--backend", type=click.Choice(["auto", "native", "julia", "dask"]), default="auto", show_default=True,
        help="The built-in sampler, DPMMSubClusters.jl, or the built-in sampler on Dask's workers. auto: Julia if it "
        "is set up and supports all settings, else the built-in sampler."),
    running("--scheduler", metavar="ADDRESS", help="Dask: the address of the scheduler, such as tcp://host:8786."),
    running("--local-workers", type=POSITIVE, metavar="N", help="Dask: worker processes to start on this machine."),
    running("--workers", type=click.IntRange(min=0), metavar="N", help="Julia: worker processes on this machine."),
    running("--machines", type=A_PATH, metavar="FILE", help="Julia: a file of machines to run workers on."),
)


# fmt: on

all_options = with_options(*OPTIONS)

BACKEND_OPTIONS = ("min_cluster_age",)
NATIVE_OPTIONS = ("n_jobs", "checkpoint", "checkpoint_every")
JULIA_OPTIONS = ("workers", "machines")
"""Settings of all backends, of the built-in sampler (also on Dask), and of Julia."""


def backend_name(options: dict[str, Any]) -> str:
    """The backend, by its name or by a setting of only one backend."""
    name: str = options["backend"]
    if name == "auto" and any(options[option] for option in JULIA_OPTIONS):
        return "julia"
    if name == "auto" and any(options[option] is not None for option in NATIVE_OPTIONS):
        return "native"
    return name
