"""The family of a fit, and what its files may hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dpmmwrap.families import FAMILIES, family_for, family_named

if TYPE_CHECKING:
    from dpmmwrap.files import InputError, WordsInstead


def families_with(ability: str) -> str:
    return " and ".join(name for name in FAMILIES if getattr(family_named(name), ability))


def uses_julia(options: dict[str, Any]) -> bool:
    return options["backend"] == "julia" or bool(options["workers"]) or options["machines"] is not None


def with_network(options: dict[str, Any]) -> bool:
    """Whether a network may divide new clusters, by name or by "auto"."""
    if options["init"] == "auto" and options["weights"] is None:
        return options["acceptance_ratio"] in ("reference", "printed") or options["backend"] == "julia"
    return options["init"] == "splitnet" or options["weights"] is not None


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

    for name, typed in (("max_iter", "--iterations"), ("n_chains", "--chains"), ("n_draws", "--draws")):
        sentence = sentence.replace(name, typed)
    sentence = re.sub(r"categorical=\['(.*)'\] would keep it", kept, sentence)
    sentence = sentence.replace(
        "name the categorical columns: categorical)", "name the categorical columns: --categorical)"
    )
    sentence = re.sub(r"\bconfidence_(?!\w)", "confidence.npy", sentence)
    return re.sub(r"\b(\w+)='([\w-]+)'", option, sentence)
