"""The family of a fit, what it can read, and options that contradict each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.families import FAMILIES, family_for, family_named

if TYPE_CHECKING:
    from dpmmwrap.files import InputError, WordsInstead
    from dpmmwrap.files.reading import Kind


FILE_OPTIONS = ("columns", "drop", "id_column", "labels", "sample_weight")
"""Options about the columns of files."""


def settle(ctx: click.Context, options: dict[str, Any]) -> None:
    """Determine the family, and refuse options that contradict each other, before anything is read."""
    for name, wanted in (("categorical", family_for(mixes=True)), ("exposure", family_for(exposure=True))):
        if options[name] is not None and options["family"] not in (None, wanted.name):
            raise click.UsageError(f"--{name} is for --family {wanted.name}, not {options['family']}.", ctx)
        if options[name] is not None:
            options["family"] = wanted.name
    options["family"] = options["family"] or FAMILIES[0]
    for problem in problems(options):
        raise click.UsageError(problem, ctx)


def problems(options: dict[str, Any]) -> list[str]:
    """Options that contradict each other, one sentence each."""
    name, covariance, init = options["family"], options["covariance"], options["init"]
    family, counts = family_named(name), family_named(name).input == "counts"
    with_files = " and ".join(other for other in FAMILIES if family_named(other).prior_file)
    of_julia = " and ".join(other for other in FAMILIES if family_named(other).julia)
    julia = options["backend"] == "julia" or options["workers"] or options["machines"] is not None
    checks = [
        (
            options["example"] == bool(options["data"]),
            "Expected either a file of points or --example.",
        ),
        (
            options["example"] and not family.network,
            f"--example is of points in the plane, not for --family {name}.",
        ),
        (
            options["example"] and any(options[name] for name in FILE_OPTIONS),
            "--columns, --drop, --id, --labels and --sample-weight are for files, not for --example.",
        ),
        (options["scale"] and counts, f"--scale is for numbers, not for the counts of {name}."),
        (options["normalize"] and family.input != "numbers", f"--normalize is for --family gaussian, not {name}."),
        (bool(options["log"]) and counts, f"--log is for numbers, not for the counts of {name}."),
        (
            options["device"].startswith("cuda") and not with_network(options),
            "--device cuda is where the network runs, and without --init splitnet there is none: leave it out.",
        ),
        (options["with_data"] and options["example"], "--with-data is for files, not for --example."),
        (options["with_data"] and options["out"] is None, "--with-data is about labels.csv and needs --out DIR."),
        (bool(options["pca"]) and family.input != "numbers", f"--pca is for --family gaussian, not {name}."),
        # Tables have diagonal covariances, which may be stated.
        (
            covariance not in family.covariance_types,
            f"--covariance {covariance} is for --family gaussian, not {name}.",
        ),
        (
            isinstance(options["subspace"], int)
            and (not family.reference or covariance not in ("auto", family.kinds[0]) or options["prior"] != "data"),
            "--subspace N is for --family gaussian with full covariances and the default prior.",
        ),
        (
            init == "splitnet" and not family.network,
            f"--init splitnet is for --family gaussian; for {name} use kmeans.",
        ),
        (
            options["weights"] is not None and not family.network,
            f"--weights is for --family gaussian, not {name}.",
        ),
        (
            options["weights"] is not None and init not in ("auto", "splitnet"),
            f"--weights is for --init splitnet, not {init}.",
        ),
        (
            options["prior"] == "reference" and not (family.reference and covariance in ("auto", family.kinds[0])),
            "--prior reference is for full covariances of --family gaussian.",
        ),
        (
            options["prior"] not in ("data", "reference") and not family.prior_file,
            f"--prior FILE is for --family {with_files}, not {name}.",
        ),
        (
            options["alpha_prior"] != (1.0, 1.0) and options["partition_prior"] != "dirichlet",
            "--alpha-prior is for --partition-prior dirichlet.",
        ),
        (
            any(options[name] != "auto" for name in ("prior_kappa", "prior_width", "prior_strength"))
            and (options["prior"] != "data" or not family.learned),
            "--prior-kappa, --prior-width and --prior-strength are for the default prior of numeric columns.",
        ),
        (
            options["sensitivity"] and (options["prior"] != "data" or not family.learned),
            "--sensitivity is about the default prior of numeric columns: leave out "
            f"{'--prior' if family.learned else f'--family {name}'}.",
        ),
        (
            options["sample_weight"] is not None and (julia or options["backend"] == "dask"),
            "--sample-weight needs the built-in sampler: use --backend native.",
        ),
        (julia and not family.julia, f"Julia's sampler is for --family {of_julia}, not {name}."),
        (
            julia and covariance not in ("auto", *family.julia),
            f"Julia's sampler has full covariances only, not --covariance {covariance}.",
        ),
        (
            options["checkpoint_every"] is not None and options["checkpoint"] is None,
            "--checkpoint-every needs --checkpoint FILE.",
        ),
    ]
    return [sentence for wrong, sentence in checks if wrong]


def with_network(options: dict[str, Any]) -> bool:
    """Whether a network may divide new clusters: by name, or by "auto"."""
    if options["init"] == "auto" and options["weights"] is None:
        return options["acceptance_ratio"] in ("reference", "printed") or options["backend"] == "julia"
    return options["init"] == "splitnet" or options["weights"] is not None


def kind_of_file(options: dict[str, Any]) -> Kind:
    """What the files of a family hold. Exposures need not be whole numbers."""
    return "numbers" if options["exposure"] is not None else family_named(options["family"]).input


def why_no_gaps(options: dict[str, Any]) -> str:
    """Advice about missing values for fits that allow none; empty if they are allowed."""
    family = family_named(options["family"])
    julia = options["backend"] == "julia" or options["workers"] or options["machines"]
    leaving_out = "--skip-missing, which leaves out rows with missing values"
    if family.mixes:
        return ""
    if options["pca"]:
        return f"principal components need every value: use {leaving_out}"
    if julia:
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
    """Advice about columns of words: they are categories, or they name the rows."""
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
    """A note of the estimator with options: --covariance diag instead of covariance_type='diag'."""
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
