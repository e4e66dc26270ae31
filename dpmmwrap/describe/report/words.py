"""A report's sentences and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.describe.plotting import counted
from dpmmwrap.describe.profiles import COUNT, LEVEL, Trait
from dpmmwrap.describe.report.certainty import Certainty
from dpmmwrap.describe.report.known import Gap
from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.model.data_prior import learned_names
from dpmmwrap.posterior.diagnostics import interval
from dpmmwrap.sampler.trace import told_length

MANY, SMALL = 20, 10
"""Of more clusters the page also says how many hold half of the rows, and how many hold fewer rows than these."""
SLIGHT = 0.2
"""Differences below this many standard deviations, or binary orders of magnitude, are not worth a word."""


def title(subject: Subject) -> str:
    return f"{counted(subject.n_clusters, 'cluster')} in {counted(subject.n_rows, 'row')}"


def found(subject: Subject, sure: Certainty) -> list[str]:
    """What was found, in a few sentences."""
    said = [f"{clusters_in(subject)}, described by {width_of(subject)}."]
    if subject.n_clusters > 1:
        said.append(sizes(subject))
        if subject.n_clusters > MANY:
            said.append(many_sizes(subject))
    if subject.model.draws_ is not None:
        fewest, most = interval(subject.model.draws_.n_clusters)
        between = f"{fewest} to {counted(most, 'cluster')}" if most > fewest else counted(most, "cluster")
        said.append(f"95% of the draws from the posterior have {between}.")
    if subject.n_clusters > 1:
        said.append(certainty(sure))
        if subject.groups is not None and subject.groups.suggested < subject.n_clusters:
            said.append(f"Clusters that overlap make {counted(subject.groups.suggested, 'group')}.")
    if "nmi" in subject.scores:
        classes = int(subject.scores["true_clusters"])
        known = "1 class" if classes == 1 else f"{classes:,} classes"
        said.append(
            f"The known labels have {known}; the clusters agree with them with an NMI of {subject.scores['nmi']:.3f} "
            f"and an ARI of {subject.scores['ari']:.3f} (1 is the same, 0 is chance)."
        )
    if subject.model.interrupted_:
        said.append("The fit was interrupted: this is the result so far.")
    return said


def clusters_in(subject: Subject) -> str:
    where = f"the {counted(subject.n_rows, 'row')}" + (f" of {subject.source}" if subject.source else "")
    beside = f" and {counted(subject.outliers, 'outlier')}" if subject.outliers else ""
    if subject.n_clusters == 1:
        return f"All is one cluster{beside}: no parts that differ were found in {where}"
    return f"{counted(subject.n_clusters, 'cluster')}{beside} were found in {where}"


def width_of(subject: Subject) -> str:
    columns = subject.model.mixture_.columns
    if columns is not None:
        kinds = [(len(columns.numeric), "numeric column"), (len(columns.categorical), "categorical column")]
        return " and ".join(counted(number, kind) for number, kind in kinds if number)
    return (
        f"{counted(len(subject.names), 'column')} of counts"
        if is_counts(subject)
        else counted(len(subject.names), "feature")
    )


def is_counts(subject: Subject) -> bool:
    return bool(subject.model.mixture_.family == "multinomial")


def sizes(subject: Subject) -> str:
    largest, smallest = int(subject.sizes.max()), int(subject.sizes.min())
    if largest == smallest:
        return f"Each holds {counted(largest, 'row')}."
    return (
        f"The largest holds {counted(largest, 'row')} ({share(largest / subject.n_rows)}), "
        f"the smallest {counted(smallest, 'row')}."
    )


def many_sizes(subject: Subject) -> str:
    """Where the rows are, if there are many clusters."""
    sizes = np.sort(subject.sizes)[::-1]
    half = int(np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)) + 1
    small = int((sizes < SMALL).sum())
    told = f"Half of the rows are in the {counted(half, 'largest cluster')}"
    if not small:
        return f"{told}."
    return f"{told}; {small:,} {'has' if small == 1 else 'have'} fewer than {SMALL} rows."


def gap(found: Gap | None) -> str:
    """A column that is often missing, in a sentence."""
    if found is None:
        return ""
    return f"Often missing: {found.column} (in {share(found.here)} of the rows, elsewhere in {share(found.elsewhere)})."


def certainty(sure: Certainty) -> str:
    """How sure the rows' clusters are, and from what that is known."""
    above = sure.share_above(0.9)
    many = "all rows" if above == 1 else f"{share(above)} of the rows"
    told = f"For {many} the cluster is at least 90% certain"
    unsure = int((sure.probability < 0.5).sum())
    return f"{told}; for {counted(unsure, 'row')} less than 50%." if unsure else f"{told}."


def share(value: float) -> str:
    """A percentage; what is not quite none or all does not look like it."""
    if 0 < value < 0.001:
        return "<0.1%"
    if 0.999 < value < 1:
        return ">99.9%"
    percent = 100 * value
    return f"{percent:.1f}%" if percent < 10 and percent != round(percent) else f"{percent:.0f}%"


def number(value: float, digits: int = 4) -> str:
    """The digits that matter, with a minus sign that is one."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        text = f"{value:.{digits - 1}e}"
    elif size >= 10**digits / 10:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")


def here(trait: Trait) -> str:
    if trait.feature.kind in (LEVEL, COUNT):
        return share(trait.here) if math.isfinite(trait.here) else "–"
    return number(trait.here) + (f" ± {number(trait.spread, 2)}" if trait.spread > 0 else "")


def elsewhere(trait: Trait) -> str:
    if trait.feature.kind in (LEVEL, COUNT):
        return share(trait.elsewhere) if math.isfinite(trait.elsewhere) else "–"
    return number(trait.elsewhere)


def difference(trait: Trait) -> str:
    """By how much a cluster differs from the other rows."""
    if trait.feature.kind == COUNT:
        ratio = 2.0 ** abs(trait.apart)
        times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
        return f"{times} times as {'frequent' if trait.apart > 0 else 'rare'}"
    sign = "+" if trait.apart > 0 else "−"
    return f"{sign}{abs(trait.apart):.1f} SD"


def in_short(traits: list[Trait]) -> str:
    """What sets a cluster apart, in one sentence."""
    told = [trait_in_short(trait) for trait in traits[:3] if abs(trait.apart) >= SLIGHT]
    if not told:
        return "No single feature sets it apart by its mean: it differs in how features vary, or vary together."
    text = "; ".join(told)
    return text[0].upper() + text[1:] + "."


def trait_in_short(trait: Trait) -> str:
    more = trait.apart > 0
    if trait.feature.kind == COUNT:
        share_here = f"{here(trait)} of its counts, elsewhere {elsewhere(trait)}"
        return f"{'much' if more else 'little'} {trait.feature} ({share_here})"
    if trait.feature.kind == LEVEL:
        return f"{'often' if more else 'seldom'} {trait.feature} ({here(trait)}, elsewhere {elsewhere(trait)})"
    return f"{'high' if more else 'low'} {trait.feature} ({number(trait.here)}, elsewhere {elsewhere(trait)})"


def settings(subject: Subject) -> list[tuple[str, str]]:
    """What was fitted, and how."""
    from dpmmwrap import __version__

    model = subject.model
    told = [("family", family(model)), ("prior over partitions", partition_prior(model))]
    if model.prior_width_ is not None:
        told.append(("prior", prior(model)))
    length = told_length(int(model.n_iter_), model.stopped_by_, len(model.traces_))
    if model.draws_ is not None:
        length += f", then {counted(model.draws_.n_draws, 'draw')}{' each' if len(model.traces_) > 1 else ''}"
    told.append(("length", length))
    told.append(("start of new clusters", str(model.init_)))
    told.append(("sampler", str(model.backend_)))
    told.append(("seed", str(model.random_state)))
    told.append(("log posterior", number(float(model.log_posterior_))))
    if model.n_missing_:
        told.append(("missing", counted(int(model.n_missing_), "value")))
    if subject.seconds is not None:
        told.append(("time", f"{subject.seconds:,.1f} s"))
    told.append(("version", f"dpmmwrap {__version__}"))
    return told + changed(model)


def family(model: Any) -> str:
    if model.mixture_.family == "multinomial":
        return "multinomial: rows of counts"
    if model.mixture_.family == "mixed":
        return "mixed: numeric columns with diagonal covariances, and categories"
    kinds = {"full": "full", "diag": "diagonal", "spherical": "spherical"}
    reason = f" ({model.covariance_reason_})" if model.covariance_reason_ else ""
    return f"Gaussian with {kinds[model.covariance_type_]} covariances{reason}"


def partition_prior(model: Any) -> str:
    """Its name and its parameters."""
    prior = model.partition_prior_
    told = []
    for name, value in zip(prior.parameters, prior.values, strict=True):
        told.append(f"{name} {number(float(value))}" + (", learned" if name in prior.learned else ""))
    return f"{prior.name}: {'; '.join(told)}"


def prior(model: Any) -> str:
    """The hyperparameters of the default prior."""
    told = []
    for name in ("width", "strength", "kappa"):
        learned = ", learned" if name in learned_names(model.prior) else ""
        told.append(f"{name} {number(getattr(model, f'prior_{name}_'))}{learned}")
    return "; ".join(told)


SHOWN_ANYWAY = {"family", "alpha", "partition_prior", "random_state", "verbose", "max_iter", "n_draws"}


def changed(model: Any) -> list[tuple[str, str]]:
    """Settings that are not the defaults and are not told elsewhere."""
    defaults = type(model)().get_params()
    found = []
    for name, value in model.get_params(deep=False).items():
        if name in SHOWN_ANYWAY or same(value, defaults[name]) or (name == "backend" and isinstance(value, str)):
            continue
        plain = isinstance(value, (str, int, float, bool)) or value is None
        text = str(value) if plain else " ".join(repr(value).split())
        found.append((name, text if len(text) <= 120 else f"{text[:117]}…"))
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return False
    return type(one) is type(other) and bool(one == other)


def in_python(model: Any) -> str:
    """The fit as a line of Python."""
    defaults = type(model)().get_params()
    given = {k: v for k, v in model.get_params(deep=False).items() if not same(v, defaults[k])}
    return f"DPMM({', '.join(f'{name}={value!r}' for name, value in given.items())}).fit(X)"
