"""The table that `dpmmwrap fit` prints: a summary in a few lines."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import click

from dpmmwrap.describe.plotting import counted
from dpmmwrap.sampler.trace import told_length

SIZES_SHOWN = 8


def show(summary: dict[str, Any], source: str) -> None:
    """A short table on stdout."""
    click.echo(f"{source}: {counted(summary['points'], 'point')} {extent(summary)}")
    for name, value in rows(summary):
        click.echo(f"  {click.style(f'{name:<14}', bold=True)} {value}")
    for note in summary["notes"]:
        click.echo(f"note: {note}")


def extent(summary: dict[str, Any]) -> str:
    """How wide the data are."""
    columns = summary["dimensions"]
    if summary["family"] == "multinomial":
        return f"of {counted(columns, 'count')}"
    if summary["family"] == "gaussian":
        return f"in {counted(columns, 'dimension')}"
    categorical = len(summary["categorical"])
    return f"of {columns - categorical:,} numeric and {counted(categorical, 'categorical column')}"


def rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the table: a name and what is to be said about it."""
    told = [("clusters", clusters(summary)), ("sizes", sizes(summary["sizes"]))]
    if summary["outliers"]:
        told.append(("outliers", f"{summary['outliers']:,}"))
    if summary["n_clusters"] > 1:
        told.append(("groups", groups(summary)))
    if summary["confidence"] is not None:
        told.append(("confidence", confidence(summary)))
    told.append(("log posterior", log_posterior(summary)))
    if summary["diagnostics"] is not None:
        told += diagnostics(summary)
    if "nmi" in summary:
        told.append(("NMI, ARI", f"{summary['nmi']:.3f}, {summary['ari']:.3f}"))
    told += [
        ("family", family_words(summary)),
        *([("prior", prior(summary))] if summary["prior_width"] is not None else []),
        *([("sensitivity", line) for line in sensitivity(summary)]),
        ("time", f"{summary['seconds']:.1f} s, {length(summary)}{startup(summary)}"),
        ("sampler", f"{summary['backend']}{taken(summary)}, {summary['init']} subclusters, seed {summary['seed']}"),
    ]
    if summary["missing"]:
        told.append(("missing", counted(summary["missing"], "value")))
    if summary["skipped"]:
        told.append(("left out", f"{counted(summary['skipped'], 'row')} with missing values"))
    if summary["scaled"] or summary["components"] or summary["logged"]:
        told.append(("prepared", prepared(summary)))
    if summary["converted_from"]:
        told.append(("data", f"converted from {summary['converted_from']} to float32, once"))
    if summary["interrupted"]:
        told.append(("interrupted", "this is the result so far"))
    return told


def startup(summary: dict[str, Any]) -> str:
    """What Julia took before it could sample, which is not among the seconds."""
    seconds = summary["startup_seconds"]
    return f"; {seconds:.1f} s to start and compile Julia" if seconds else ""


def taken(summary: dict[str, Any]) -> str:
    """Why the sampler was taken, where it could have been another one."""
    reason = summary["backend_reason"]
    return f" ({reason})" if reason.startswith("Julia is set up") else ""


def prepared(summary: dict[str, Any]) -> str:
    """What was done to the features first."""
    done = [f"logarithm of {', '.join(summary['logged'])}"] if summary["logged"] else []
    done += ["standardised"] if summary["scaled"] else []
    if summary["components"]:
        done.append(counted(summary["components"], "principal component"))
    return ", ".join(done)


def clusters(summary: dict[str, Any]) -> str:
    """How many there are, and how sure that is."""
    around = []
    if summary["n_clusters_interval"] is not None:
        fewest, most = summary["n_clusters_interval"]
        around.append(f"{fewest} to {most} in 95% of draws" if most > fewest else f"{most} in at least 95% of draws")
    if "true_clusters" in summary:
        around.append(f"the truth has {summary['true_clusters']}")
    return f"{summary['n_clusters']}" + (f" ({'; '.join(around)})" if around else "")


def sizes(counts: list[int]) -> str:
    """In the order of the clusters' numbers, which is that of their sizes."""
    shown = ", ".join(f"{count:,}" for count in counts[:SIZES_SHOWN])
    more = len(counts) - SIZES_SHOWN
    return f"{shown} and {more} smaller" if more > 0 else shown


def groups(summary: dict[str, Any]) -> str:
    """What is left when clusters that overlap are joined."""
    if summary["groups"] == summary["n_clusters"]:
        return f"{summary['groups']}: no two clusters overlap enough to be joined"
    joined = f"{counted(summary['n_clusters'], 'component')} in {counted(summary['groups'], 'group')}"
    return f"{joined} ({sizes(sorted(summary['group_sizes'], reverse=True))})"


def confidence(summary: dict[str, Any]) -> str:
    """How sure the points' clusters are."""
    few = f"; below a half for {counted(summary['unsure'], 'point')}" if summary["unsure"] else ""
    return f"{summary['confidence']:.3f} on average{few}"


def log_posterior(summary: dict[str, Any]) -> str:
    of_search = summary["loss"] is None and summary["chains"] > 1
    return f"{summary['log_posterior']:,.1f}" + (f", the best of {summary['chains']} chains" if of_search else "")


def diagnostics(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Whether the chains agree, and how many independent draws theirs are worth; of the weights, the worst."""
    found = summary["diagnostics"]
    words = {"n_clusters": "clusters", "log_posterior": "log posterior", "alpha": "alpha"}
    kinds = {words[name]: [found[name]] for name in words if name in found}
    kinds["largest weights"] = [found[name] for name in found if name not in words]
    r_hats = [f"{kind} {largest([one['r_hat'] for one in some])}" for kind, some in kinds.items()]
    sizes = [(kind, [one[name] for one in some for name in ("ess_bulk", "ess_tail")]) for kind, some in kinds.items()]
    total = f"of {counted(summary['chains'] * summary['draws'], 'draw')}"
    worth = ", ".join(f"{kind} {smallest(values)}" for kind, values in sizes)
    return [("R-hat", ", ".join(r_hats)), ("effective", f"{worth} {total}")]


def largest(values: list[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{max(known):.2f}" if known else "unknown"


def smallest(values: list[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return f"{min(known):,.0f}" if known else "unknown"


def family_words(summary: dict[str, Any]) -> str:
    """The family, and why it has these covariances."""
    if summary["family"] == "multinomial":
        return "multinomial"
    if summary["family"] == "gaussian":
        return f"gaussian, {summary['covariance_type']} covariances: {summary['covariance_reason']}"
    names = summary["categorical"]
    return f"mixed, categorical: {', '.join(names)}" if names else "mixed, no column is categorical"


def prior(summary: dict[str, Any]) -> str:
    """The default prior's hyperparameters."""
    values = {name: summary[f"prior_{name}"] for name in ("width", "strength", "kappa")}
    learned = summary["prior_learned"]
    words = "all learned" if len(learned) == len(values) else f"{' and '.join(learned)} learned"
    told = ", ".join(f"{name} {value:,.3g}" for name, value in values.items())
    return f"{told} ({words})" if learned else told


def sensitivity(summary: dict[str, Any]) -> list[str]:
    """Clusters at other widths, kappas and concentrations, and how many the prior expects before it sees the data."""
    found = summary["sensitivity"] or []
    names = {"width": "the prior's width", "kappa": "its kappa", "alpha": "the concentration"}
    lines = []
    for setting in dict.fromkeys(one["setting"] for one in found):
        some = [one for one in found if one["setting"] == setting]
        factors = ", ".join(str(Fraction(one["factor"])) for one in some)
        counts = ", ".join(str(one["n_clusters"]) for one in some)
        lines.append(f"clusters at {factors} times {names[setting]}: {counts}")
    if found:
        low, high = summary["prior_clusters"]
        lines.append(f"before it sees the data, the prior expects {low} to {high} clusters (nine times in ten)")
    return lines


def length(summary: dict[str, Any]) -> str:
    """How long the chains were, and why they have ended."""
    own = told_length(summary["iterations"], summary["stopped_by"], summary["chains"])
    if not summary["draws"]:
        return own
    return f"{own}, then {counted(summary['draws'], 'draw')}{' each' if summary['chains'] > 1 else ''}"
