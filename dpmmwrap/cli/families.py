"""The family of a fit, its files, and options that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.families import FAMILIES, families_of, family_for, family_named

if TYPE_CHECKING:
    from dpmmwrap.families.base import Family
    from dpmmwrap.files import InputError, WordsInstead
    from dpmmwrap.files.reading import Kind


FILE_OPTIONS = ("columns", "drop", "id_column", "labels", "sample_weight", "known", "together", "time_column")
"""Options about the columns of files."""


def settle(ctx: click.Context, options: dict[str, Any]) -> None:
    """Determine the family and refuse contradictory options, before anything is read."""
    for name, wanted in (("categorical", family_for(mixes=True)), ("exposure", family_for(exposure=True))):
        if options[name] is not None and options["family"] not in (None, wanted.name):
            raise click.UsageError(f"--{name} is for --family {wanted.name}, not {options['family']}.", ctx)
        if options[name] is not None:
            options["family"] = wanted.name
    options["family"] = options["family"] or FAMILIES[0]
    for problem in problems(options):
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
        yield f"--example has points in the plane, and is not for --family {name}."
    if options["example"] and any(options[option] for option in FILE_OPTIONS):
        yield "Options that name columns, such as --columns and --id, are for files, not for --example."
    if options["with_data"] and options["example"]:
        yield "--with-data is for files, not for --example."
    if options["with_data"] and options["out"] is None:
        yield "--with-data is about labels.csv and needs --out DIR."
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
        yield f"--sensitivity is about the default prior of numeric columns: leave out {other}."


def families_with(ability: str) -> str:
    return " and ".join(name for name in FAMILIES if getattr(family_named(name), ability))


def uses_julia(options: dict[str, Any]) -> bool:
    return options["backend"] == "julia" or bool(options["workers"]) or options["machines"] is not None


def with_network(options: dict[str, Any]) -> bool:
    """Whether a network may divide new clusters, by name or by "auto"."""
    if options["init"] == "auto" and options["weights"] is None:
        return options["acceptance_ratio"] in ("reference", "printed") or options["backend"] == "julia"
    return options["init"] == "splitnet" or options["weights"] is not None


def kind_of_file(options: dict[str, Any]) -> Kind:
    """The contents of the files. Exposures need not be whole numbers."""
    return "numbers" if options["exposure"] is not None else family_named(options["family"]).input


def why_no_gaps(options: dict[str, Any]) -> str:
    """Advice for fits that allow no missing values; empty for others."""
    family = family_named(options["family"])
    leaving_out = "--skip-missing, which leaves out rows with missing values"
    if family.mixes:
        return ""
    if options["pca"]:
        return f"principal components need every value: use {leaving_out}"
    if uses_julia(options):
        return f"Julia's sampler needs every value: use --backend native, or {leaving_out}"
    return f"use {leaving_out}" if family.input == "counts" else ""


def way_out(error: InputError, options: dict[str, Any]) -> str:
    """Advice to append to a message about a file."""
    from dpmmwrap.files import MissingValues, SparseInstead, WordsInstead

    if isinstance(error, MissingValues):
        return f"; {why_no_gaps(options)}"
    if isinstance(error, SparseInstead):
        return f"; sparse counts are for --family {family_for(sparse=True).name}"
    if isinstance(error, WordsInstead):
        return way_without_words(error, options["family"])
    return ""


def way_without_words(error: WordsInstead, family: str) -> str:
    """Advice about columns of words, which are categories or names of rows."""
    from dpmmwrap.files.problems import as_option

    categories = [name for name in error.columns if name not in error.distinct]
    # "evaluate" is not a family; it accepts categories.
    tables = {FAMILIES[0]: f"--family {family_for(mixes=True).name} --categorical", "evaluate": "--categorical"}
    way = f"; use --drop {as_option(error.columns)}"
    if categories and family in tables:
        rest = f" --drop {as_option(error.distinct)}" if error.distinct else ""
        way = f"; use {tables[family]} {as_option(categories)}{rest}, or --drop {as_option(error.columns)}"
    return f"{way}, or --id {as_option(error.distinct[:1])} if that names the rows" if error.distinct else way


def as_options(sentence: str) -> str:
    """A note of the estimator, with options such as --covariance diag instead of covariance_type='diag'."""
    from dpmmwrap.files.problems import as_option

    def option(match: re.Match[str]) -> str:
        name = {"covariance_type": "covariance"}.get(match[1], match[1])
        return f"--{name.replace('_', '-')} {match[2]}"

    def kept(match: re.Match[str]) -> str:
        column = as_option([match[1]])
        return f"--categorical {column} would keep it, --id {column} names the rows by it"

    sentence = re.sub(r"categorical=\['(.*)'\] would keep it", kept, sentence)
    sentence = sentence.replace(
        "name the categorical columns: categorical)", "name the categorical columns: --categorical)"
    )
    sentence = sentence.replace("confidence_ shows", "confidence.npy shows")
    return re.sub(r"\b(\w+)='([\w-]+)'", option, sentence)
