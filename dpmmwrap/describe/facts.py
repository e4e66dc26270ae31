"""The facts of a fitted model: `facts` collects them, the other functions put them into words.

The table of `dpmmwrap fit`, summary.json, notebooks, the report and the experiments all draw from here. The keys are
those of summary.json (docs/files.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpmmwrap.backends.dask import is_lazy
from dpmmwrap.describe.wording import counted
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.diagnostics import interval
from dpmmwrap.posterior.groups import Groups

Facts = Mapping[str, Any]
SIZES_SHOWN = 8
HYPERPARAMETERS = ("width", "strength", "kappa")


def facts(model: Any, groups: Groups | None = None, truth: IntArray | None = None) -> dict[str, Any]:
    """All facts of a fitted `DPMM`, its groups, and its agreement with true labels (below 0: unknown) if given.

    Facts of draws are None without draws.
    """
    from dpmmwrap.model.data_prior import learned_names

    sizes, given = cluster_sizes(model), model.prior_width_
    present = model._present
    rows = len(model.labels_)
    rows_with_values = slice(None) if present is None else present.rows
    with_values = rows if present is None else len(present.rows) + present.weightless
    draws, sure = model.draws_, model.confidence_
    diagnostics = None if draws is None else [one._asdict() for one in model.diagnostics_ or ()]
    component_groups = np.arange(len(sizes)) if groups is None else groups.of_points(np.arange(len(sizes)))
    return {
        "n_clusters": int(model.n_clusters_),
        "draws": 0 if draws is None else draws.n_draws,
        "n_clusters_interval": None if draws is None else list(interval(draws.n_clusters)),
        "loss": None if sure is None else model.loss,
        "confidence": None if sure is None else float(sure.mean()),
        "unsure": None if sure is None else int((sure < 0.5).sum()),
        "diagnostics": diagnostics if diagnostics is None else {one.pop("name"): one for one in diagnostics},
        "groups": int(model.n_clusters_) if groups is None else groups.suggested,
        "groups_reason": "" if groups is None else groups.reason,
        "groups_by_confusion": None if groups is None else groups.second_opinion,
        "log_posterior": float(model.log_posterior_),
        "startup_seconds": round(model.startup_seconds_, 3),
        "iterations": int(model.n_iter_),
        "stopped_by": model.stopped_by_,
        "chains": len(model.traces_),
        "backend": str(model.backend_),
        "backend_reason": str(model.backend_reason_),
        **facts_of_family(model),
        "init": model.init_ if isinstance(model.init, str) else "splitnet",
        "alpha": float(model.alpha_),
        **{f"prior_{name}": getattr(model, f"prior_{name}_") for name in HYPERPARAMETERS},
        # Julia's sampler learns none.
        "prior_learned": [] if given is None or model.backend_ == "julia" else learned_names(model.prior),
        "seed": model.random_state,
        "interrupted": bool(model.interrupted_),
        "points": rows,
        "missing": int(model.n_missing_),
        "empty": rows - with_values,
        "outliers": with_values - int(sizes.sum()),
        "sizes": sizes.tolist(),
        "group_sizes": np.bincount(component_groups, weights=sizes).astype(int).tolist(),
        "notes": list(model.notes_),
        **({} if truth is None else agreement(truth[rows_with_values], model.labels_[rows_with_values])),
    }


def cluster_sizes(model: Any) -> IntArray:
    """Points of each cluster, without outliers."""
    labels = model.labels_
    if is_lazy(labels):
        return np.asarray(model.mixture_.counts).astype(np.int64)
    return np.bincount(labels[labels >= 0], minlength=model.n_clusters_)


def facts_of_family(model: Any) -> dict[str, Any]:
    posterior, columns = model.mixture_.posterior, model.mixture_.columns
    counts = posterior.input == "counts"
    return {
        "family": model.family,
        "covariance_type": None if counts else str(getattr(posterior, "numeric_kind", model.covariance_type_)),
        "covariance_reason": None if counts else model.covariance_reason_,
        "tails": posterior.describe_tails(model.n_clusters_),
        "subspace": model.subspace_,
        "dimensions": int(model.n_features_in_) if columns is None else len(columns.names),
        "categorical": None if columns is None else [columns.names[index] for index in columns.categorical],
        "converted_from": model.trace_.converted_from if posterior.input == "numbers" else None,
    }


def agreement(truth: IntArray, labels: IntArray) -> dict[str, Any]:
    """NMI and ARI over the points of known class; outliers or noise (-1) count as one cluster."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    known = truth >= 0
    truth, labels = truth[known], np.asarray(labels)[known]
    return {
        "nmi": float(normalized_mutual_info_score(truth, labels)),
        "ari": float(adjusted_rand_score(truth, labels)),
        "true_clusters": len(np.unique(truth)),
    }


def texts(known: Facts) -> dict[str, str]:
    """The facts in words, by name; empty if there is nothing to say."""
    confidence = prior = ""
    if known["confidence"] is not None:
        few = f"; below 0.5 for {counted(known['unsure'], 'point')}" if known["unsure"] else ""
        confidence = f"{known['confidence']:.3f} on average{few}"
    if known["prior_width"] is not None:
        prior = ", ".join(f"{name} {known[f'prior_{name}']:,.3g}" for name in HYPERPARAMETERS)
        learned = known["prior_learned"]
        which = "all" if len(learned) == len(HYPERPARAMETERS) else " and ".join(learned)
        prior += f" ({which} learned)" if learned else ""
    of_search = known["loss"] is None and known["chains"] > 1
    return {
        "sizes": sizes_text(known["sizes"]),
        "outliers": f"{known['outliers']:,}" if known["outliers"] else "",
        "number of clusters": interval_text(known) if known["n_clusters_interval"] is not None else "",
        "groups": groups_text(known) if known["n_clusters"] > 1 else "",
        "confidence": confidence,
        "log posterior": f"{known['log_posterior']:,.1f}"
        + (f", the best of {known['chains']} chains" if of_search else ""),
        "family": family_text(known),
        "clusters differ": subspace_text(known).strip(),
        "prior": prior,
        "search": search_text(known),
        "missing": counted(known["missing"], "value") if known["missing"] else "",
    }


def clusters_text(known: Facts) -> str:
    """The number of clusters, their subspace, and how sure the number is."""
    around = [interval_text(known)] if known["n_clusters_interval"] is not None else []
    if "true_clusters" in known:
        around.append(f"the truth has {known['true_clusters']}")
    groups = known.get("groups", known["n_clusters"])
    joined = f", in {counted(groups, 'group')}" if groups < known["n_clusters"] else ""
    return f"{known['n_clusters']}{subspace_text(known)}{joined}" + (f" ({'; '.join(around)})" if around else "")


def subspace_text(known: Facts) -> str:
    """The subspace in which clusters differ, if there is one."""
    size = known.get("subspace")
    return "" if size is None else f" in a subspace of {size:,} of {counted(known['dimensions'], 'dimension')}"


def interval_text(known: Facts) -> str:
    fewest, most = known["n_clusters_interval"]
    return f"{fewest} to {most} in 95% of draws" if most > fewest else f"{most} in at least 95% of draws"


def sizes_text(counts: Sequence[int]) -> str:
    """The largest first."""
    shown = ", ".join(f"{count:,}" for count in sorted(counts, reverse=True)[:SIZES_SHOWN])
    more = len(counts) - SIZES_SHOWN
    return f"{shown} and {more} smaller" if more > 0 else shown


def groups_text(known: Facts) -> str:
    """The groups that remain when overlapping clusters are joined, why, and the number by confusion alone."""
    others = known.get("groups_by_confusion")
    second = f"; by confusion alone there would be {others}" if others not in (None, known["groups"]) else ""
    reason = f": {known['groups_reason']}" if known.get("groups_reason") else ""
    if known["groups"] == known["n_clusters"]:
        return f"{known['groups']}{reason or ': no two clusters overlap enough to be joined'}{second}"
    return f"{known['groups']} ({sizes_text(known['group_sizes'])}){reason}{second}"


def diagnostics_text(summary: Facts) -> list[tuple[str, str]]:
    """R-hat and effective sample sizes: the worst values of the weights, and of all other quantities."""
    each, words = summary["diagnostics"], {"n_clusters": "clusters", "log_posterior": "log posterior", "alpha": "alpha"}
    kinds = {words[name]: [each[name]] for name in words if name in each}
    kinds["largest weights"] = [each[name] for name in each if name not in words]

    def worst(pick: Any, form: str, *names: str) -> str:
        values = {kind: [one[name] for one in some for name in names] for kind, some in kinds.items()}
        known = {kind: [value for value in some if not math.isnan(value)] for kind, some in values.items()}
        return ", ".join(f"{kind} {format(pick(some), form) if some else 'unknown'}" for kind, some in known.items())

    total = counted(summary["chains"] * summary["draws"], "draw")
    effective = f"{worst(min, ',.0f', 'ess_bulk', 'ess_tail')} of {total}"
    return [("R-hat", worst(max, ".2f", "r_hat")), ("effective", effective)]


def family_text(known: Facts) -> str:
    """The family, its covariances, and why it has these."""
    if known["categorical"] is not None:
        names = ", ".join(known["categorical"])
        return f"mixed, categorical: {names}" if names else "mixed, no column is categorical"
    if known["covariance_type"] is None:
        return str(known["family"])
    reason = f": {known['covariance_reason']}" if known["covariance_reason"] else ""
    tails = f"; {known['tails']}" if known.get("tails") else ""
    return f"{known['family']}, {known['covariance_type']} covariances{reason}{tails}"


def width_text(known: Facts) -> str:
    """The number and kind of the columns."""
    columns = known["dimensions"]
    if known["categorical"] is not None:
        categorical = len(known["categorical"])
        return f"of {columns - categorical:,} numeric and {counted(categorical, 'categorical column')}"
    return f"in {counted(columns, 'dimension')}" if known["covariance_type"] else f"of {counted(columns, 'count')}"


def partition_prior_text(model: Any) -> str:
    """The name and the parameters of the prior over partitions."""
    prior, parameters = model.partition_prior_, []
    for name, value in zip(prior.parameters, prior.values, strict=True):
        parameters.append(f"{name} {float(value):.3g}" + (", learned" if name in prior.learned else ""))
    return f"{prior.name}: {'; '.join(parameters)}"


def search_text(known: Facts) -> str:
    """The length of the chains, and why they ended; for several chains, that of the best one."""
    chains, count = known["chains"], counted(known["iterations"], "iteration")
    several = f"{chains} chains, the best " if chains > 1 else ""
    text = {"flat": f"{several}flat after {count}", "limit": f"{several}not flat after {count}, the limit"}.get(
        known["stopped_by"], f"{chains} chains of {count}" if chains > 1 else count
    )
    if not known["draws"]:
        return text
    return f"{text}, then {counted(known['draws'], 'draw')}{' each' if chains > 1 else ''}"


def sensitivity_text(known: Facts) -> list[str]:
    """The clusters at other widths, kappas and concentrations, and the number that the prior alone expects."""
    runs = known["sensitivity"] or []
    names = {"width": "the prior's width", "kappa": "its kappa", "alpha": "the concentration"}
    lines = []
    for setting in dict.fromkeys(one["setting"] for one in runs):
        some = [one for one in runs if one["setting"] == setting]
        factors = ", ".join(str(Fraction(one["factor"])) for one in some)
        counts = ", ".join(str(one["n_clusters"]) for one in some)
        lines.append(f"clusters at {factors} times {names[setting]}: {counts}")
    if runs:
        low, high = known["prior_clusters"]
        lines.append(f"before seeing the data, the prior expects {low} to {high} clusters (with probability 0.9)")
    return lines
