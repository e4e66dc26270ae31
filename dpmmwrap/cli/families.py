"""What the options of a fit ask for: the family, what it can read, and what makes no sense together."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.cli.data_options import way_by_format

if TYPE_CHECKING:
    from dpmmwrap.files import InputError, WordsInstead
    from dpmmwrap.files.reading import Kind

FAMILIES = ("gaussian", "multinomial", "mixed")
COVARIANCES = ("auto", "full", "diag", "spherical")


def settle(ctx: click.Context, options: dict[str, Any]) -> None:
    """Fill in the family, and refuse what makes no sense, before anything is read."""
    if options["categorical"] is not None and options["family"] in ("gaussian", "multinomial"):
        raise click.UsageError(f"--categorical is for --family mixed, not {options['family']}.", ctx)
    if options["family"] is None:
        options["family"] = "gaussian" if options["categorical"] is None else "mixed"
    for problem in problems(options):
        raise click.UsageError(problem, ctx)


def problems(options: dict[str, Any]) -> list[str]:
    """What makes no sense together."""
    family, covariance, init = options["family"], options["covariance"], options["init"]
    julia = options["backend"] == "julia" or options["workers"] or options["machines"] is not None
    # Tables have diagonal covariances, so that one may say so.
    known = {"gaussian": COVARIANCES, "mixed": ("auto", "diag"), "multinomial": ("auto",)}[family]
    checks = [
        (
            options["example"] == bool(options["data"]),
            "Expected either a file of points or --example.",
        ),
        (
            options["example"] and family != "gaussian",
            f"--example is of points in the plane, not for --family {family}.",
        ),
        (
            options["example"] and any(options[name] for name in ("columns", "drop", "id_column", "labels")),
            "--columns, --drop, --id and --labels are for files, not for --example.",
        ),
        (options["scale"] and family == "multinomial", "--scale is for numbers, not for the counts of multinomial."),
        (bool(options["log"]) and family == "multinomial", "--log is for numbers, not for the counts of multinomial."),
        (
            options["device"].startswith("cuda") and not with_network(options),
            "--device cuda is where the network runs, and without --init splitnet there is none: leave it out.",
        ),
        (options["with_data"] and options["example"], "--with-data is for files, not for --example."),
        (options["with_data"] and options["out"] is None, "--with-data is about labels.csv and needs --out DIR."),
        (bool(options["pca"]) and family != "gaussian", f"--pca is for --family gaussian, not {family}."),
        (covariance not in known, f"--covariance {covariance} is for --family gaussian, not {family}."),
        (
            init == "splitnet" and family != "gaussian",
            f"--init splitnet is for --family gaussian; for {family} use kmeans.",
        ),
        (
            options["weights"] is not None and family != "gaussian",
            f"--weights is for --family gaussian, not {family}.",
        ),
        (
            options["weights"] is not None and init not in ("auto", "splitnet"),
            f"--weights is for --init splitnet, not {init}.",
        ),
        (
            options["prior"] == "reference" and (family != "gaussian" or covariance not in ("auto", "full")),
            "--prior reference is for full covariances of --family gaussian.",
        ),
        (
            options["prior"] not in ("data", "reference") and family == "mixed",
            "--prior FILE is for --family gaussian and multinomial, not mixed.",
        ),
        (
            options["alpha_prior"] != (1.0, 1.0) and options["partition_prior"] != "dirichlet",
            "--alpha-prior is for --partition-prior dirichlet.",
        ),
        (
            any(options[name] != "auto" for name in ("prior_kappa", "prior_width", "prior_strength"))
            and (options["prior"] != "data" or family == "multinomial"),
            "--prior-kappa, --prior-width and --prior-strength are for the default prior of numeric columns.",
        ),
        (
            options["sensitivity"] and (options["prior"] != "data" or family == "multinomial"),
            "--sensitivity is about the default prior of numeric columns: leave out "
            f"{'--family multinomial' if family == 'multinomial' else '--prior'}.",
        ),
        (julia and family == "mixed", "Julia's sampler is for --family gaussian and multinomial, not mixed."),
        (
            julia and covariance not in ("auto", "full"),
            f"Julia's sampler has full covariances only, not --covariance {covariance}.",
        ),
        (
            options["checkpoint_every"] is not None and options["checkpoint"] is None,
            "--checkpoint-every needs --checkpoint FILE.",
        ),
    ]
    return [sentence for wrong, sentence in checks if wrong]


def with_network(options: dict[str, Any]) -> bool:
    """Whether a network may begin splits: where it is asked for, or where "auto" takes it."""
    if options["init"] == "auto" and options["weights"] is None:
        return options["acceptance_ratio"] in ("reference", "printed") or options["backend"] == "julia"
    return options["init"] == "splitnet" or options["weights"] is not None


def kind_of_file(family: str) -> Kind:
    """What the files of a family hold."""
    kinds: dict[str, Kind] = {"gaussian": "numbers", "multinomial": "counts", "mixed": "table"}
    return kinds[family]


def gaps_allowed(options: dict[str, Any], prior: Any) -> bool:
    """Whether missing values can be clustered with: not with full covariances, nor in counts."""
    return not why_no_gaps(options, prior)


def why_no_gaps(options: dict[str, Any], prior: Any) -> str:
    """Where no value may be missing, the way out; nothing where they may."""
    family, julia = options["family"], options["backend"] == "julia" or options["workers"] or options["machines"]
    leaving_out = "--skip-missing, which leaves out rows with missing values"
    if family == "mixed":
        return ""
    if family == "gaussian" and options["covariance"] == "full":
        return f"use --covariance diag, or {leaving_out}"
    if options["pca"]:
        return f"principal components need every value: use {leaving_out}"
    if prior == "reference" or getattr(prior, "family", "") == "full":
        return f"that prior is for full covariances, which need every value: use another one, or {leaving_out}"
    if julia:
        return f"Julia's sampler needs every value: use --backend native, or {leaving_out}"
    return f"use {leaving_out}" if family == "multinomial" else ""


def way_out(error: InputError, options: dict[str, Any], prior: Any) -> str:
    """What to try instead, behind what is wrong with a file."""
    from dpmmwrap.files import MissingValues, SparseInstead, WordsInstead

    if isinstance(error, MissingValues):
        return f"; {why_no_gaps(options, prior)}"
    if isinstance(error, SparseInstead):
        return "; sparse counts are for --family multinomial"
    if isinstance(error, WordsInstead):
        return "".join(f"; {way}" for way in ways_without_words(error, options["family"]))
    return way_by_format(error)


def ways_without_words(error: WordsInstead, family: str) -> list[str]:
    """What can be done about columns of words: they are categories, or they name the rows."""
    categories = [name for name in error.columns if name not in error.distinct]
    ways = []
    mixed = {"gaussian": "--family mixed --categorical", "evaluate": "--categorical"}.get(family)
    if categories and mixed:
        ways.append(f"use {mixed} {named(categories)}, or --drop {named(categories)}")
    elif categories:
        ways.append(f"use --drop {named(categories)}")
    if error.distinct:
        ways.append(f"use --drop {named(error.distinct)}, or --id {named(error.distinct[:1])} if that names the rows")
    return ways


def named(columns: Sequence[str]) -> str:
    """Columns as --categorical takes them; a name with a comma in it has to be given by number."""
    return shlex.quote(",".join("NUMBER" if "," in name else name for name in columns))


def as_options(sentence: str) -> str:
    """A note of the estimator's in the command line's words: covariance_type='diag' is --covariance diag there."""

    def option(found: re.Match[str]) -> str:
        name = {"covariance_type": "covariance"}.get(found[1], found[1])
        return f"--{name.replace('_', '-')} {found[2]}"

    def kept(found: re.Match[str]) -> str:
        column = named([found[1]])
        return f"--categorical {column} would keep it, --id {column} names the rows by it"

    sentence = re.sub(r"categorical=\['(.*)'\] would keep it", kept, sentence)
    sentence = sentence.replace(
        "name the categorical columns: categorical)", "name the categorical columns: --categorical)"
    )
    return re.sub(r"\b(\w+)='([\w-]+)'", option, sentence)
