"""Options of `dpmmwrap fit` that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.cli.families import families_with, uses_julia, with_network
from dpmmwrap.cli.fit_options import JULIA_OPTIONS, NO_LOSS, backend_name
from dpmmwrap.families import FAMILIES, families_of, family_for, family_named

if TYPE_CHECKING:
    from dpmmwrap.families.base import Family

ONE_PLACE = (
    *("example", "columns", "drop", "id_column", "skip_missing", "scale", "pca", "log", "normalize", "categorical"),
    *("weights", "with_data", "missing", "workers", "machines"),
)
"""Options that need all data on one machine, or another backend."""
FILE_OPTIONS = ("columns", "drop", "id_column", "labels", "sample_weight", "known", "together", "time_column")
"""Options about the columns of files."""
WITHOUT_JULIA = "needs the built-in sampler: leave out --backend julia, --workers and --machines."


def settle(ctx: click.Context, options: dict[str, Any]) -> None:
    """Determine the family and refuse contradictory options, before anything is read."""
    for name, wanted in (("categorical", family_for(mixes=True)), ("exposure", family_for(exposure=True))):
        if options[name] is not None and options["family"] not in (None, wanted.name):
            raise click.UsageError(f"--{name} is for --family {wanted.name}, not {options['family']}.", ctx)
        if options[name] is not None:
            options["family"] = wanted.name
    options["family"] = options["family"] or FAMILIES[0]
    for problem in chain(problems(options), problems_of_backend(options)):
        raise click.UsageError(problem, ctx)


def problems(options: dict[str, Any]) -> Iterator[str]:
    """Options that contradict each other, one sentence each."""
    init, julia = options["init"], uses_julia(options)
    try:
        family = families_of(options["family"], options["tails"])[-1]
    except ValueError:
        yield f"--tails {options['tails']} is for --family {FAMILIES[0]}, not {options['family']}."
        return
    name = family.name
    if options["example"] == bool(options["data"]):
        yield "Expected either a file of points or --example."
    if options["example"] and family.input != "numbers":
        yield f"--example clusters points in the plane: it is not for --family {name}."
    if options["example"] and any(options[option] for option in FILE_OPTIONS):
        yield "Options that name columns, such as --columns and --id, are for files, not for --example."
    if options["with_data"] and options["example"]:
        yield "--with-data is for files, not for --example."
    if options["with_data"] and options["out"] is None:
        yield "--with-data adds columns to labels.csv, and needs --out DIR."
    for option in ("scale", "log"):
        if options[option] and family.input == "counts":
            yield f"--{option} is for numbers, not for the counts of {name}."
    for option in ("normalize", "pca"):
        if options[option] and family.input != "numbers":
            yield f"--{option} is for --family gaussian, not {name}."
    if options["device"].startswith("cuda") and not with_network(options):
        yield "--device cuda is for the network, which needs --init splitnet: leave it out."
    if init == "splitnet" and not family.network:
        yield f"--init splitnet is for --family gaussian; for {name} use kmeans."
    if options["weights"] is not None and not family.network:
        yield f"--weights is for --family gaussian, not {name}."
    if options["weights"] is not None and init not in ("auto", "splitnet"):
        yield f"--weights is for --init splitnet, not {init}."
    if options["checkpoint_every"] is not None and options["checkpoint"] is None:
        yield "--checkpoint-every needs --checkpoint FILE."
    if options["sample_weight"] is not None and (julia or options["backend"] == "dask"):
        yield "--sample-weight needs the built-in sampler: use --backend native."
    streams = options["window"] is not None or options["time_column"] is not None
    for option in ("known", "together"):
        if options[option] is not None and options["backend"] == "dask":
            yield f"--{option} needs the built-in sampler: use --backend native."
    if options["together"] is not None and (streams or options["known"] is not None):
        yield "--together is for a fit without --known, --window and --time."
    yield from problems_of_model(options, family)
    if julia and not family.julia:
        yield f"Julia's sampler is for --family {families_with('julia')}, not {name}."
    if julia and options["covariance"] not in ("auto", *family.julia):
        yield f"Julia's sampler has only full covariances, not --covariance {options['covariance']}."


def problems_of_model(options: dict[str, Any], family: Family) -> Iterator[str]:
    """Settings of the model and its prior that contradict each other."""
    covariance, prior = options["covariance"], options["prior"]
    full = family.reference and covariance in ("auto", family.kinds[0])
    projects = family.reference and covariance in ("auto", *family.kinds[:2]) and prior == "data"
    learned = prior == "data" and family.learned
    # Tables have diagonal covariances, so --covariance diag is allowed.
    if covariance not in family.covariance_types:
        yield f"--covariance {covariance} is for --family gaussian, not {family.name}."
    if isinstance(options["subspace"], int) and not projects:
        yield "--subspace N is for --family gaussian with full or diagonal covariances and the default prior."
    if prior == "reference" and not full:
        yield "--prior reference is for full covariances of --family gaussian."
    if prior not in ("data", "reference") and not family.prior_file:
        yield f"--prior FILE is for --family {families_with('prior_file')}, not {family.name}."
    if options["alpha_prior"] != (1.0, 1.0) and options["partition_prior"] != "dirichlet":
        yield "--alpha-prior is for --partition-prior dirichlet."
    if any(options[name] != "auto" for name in ("prior_kappa", "prior_width", "prior_strength")) and not learned:
        yield "--prior-kappa, --prior-width and --prior-strength are for the default prior of numeric columns."
    if options["sensitivity"] and not learned:
        other = "--prior" if family.learned else f"--family {family.name}"
        yield f"--sensitivity varies the default prior of numeric columns: leave out {other}."


def problems_of_backend(options: dict[str, Any]) -> Iterator[str]:
    """Settings that the backend does not have, and options that need draws."""
    name = backend_name(options)
    for option, asked in (("--draws", options["draws"] > 0), ("--chains", options["chains"] not in ("auto", 1))):
        if asked and uses_julia(options):
            yield f"{option} {WITHOUT_JULIA}"
    for option in ("thin", "loss"):
        if options[option] is not None and not options["draws"]:
            yield f"--{option} needs --draws N."
    if name != "julia" and any(options[option] for option in JULIA_OPTIONS):
        yield "--workers and --machines need the Julia backend: --backend julia."
    if name == "julia" and options["checkpoint"] is not None:
        yield f"--checkpoint {WITHOUT_JULIA}"
    connections = [option for option in ("scheduler", "local_workers") if options[option] is not None]
    if name == "dask":
        yield from problems_of_dask(options, len(connections))
    else:
        yield from (f"{as_typed(option)} needs --backend dask." for option in connections)


def problems_of_dask(options: dict[str, Any], connections: int) -> Iterator[str]:
    """Options that Dask does not support."""
    if connections != 1:
        yield "--backend dask needs either --scheduler ADDRESS or --local-workers N."
    for name in ONE_PLACE:
        if options[name]:
            yield f"{as_typed(name)} needs one machine: --backend dask clusters the points of DATA without changes."
    if isinstance(options["subspace"], int):
        yield "--subspace N needs one machine: project the data first."
    if not (family := families_of(options["family"], options["tails"])[-1]).dask:
        others = " or ".join(name for name in FAMILIES if family_named(name).dask)
        yield f"--family {family.name} needs one machine: --backend dask has {others}."
    if options["draws"] and options["loss"] != NO_LOSS:
        yield "--draws with --backend dask needs --loss none."


def as_typed(name: str) -> str:
    return "--id" if name == "id_column" else f"--{name.replace('_', '-')}"
