"""The battery: methods with their default settings, over many data sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpmmwrap.evaluation.baselines import BIC, OWN_PRIOR, SILHOUETTE
from dpmmwrap.evaluation.experiments import TABLE, Comparison, Plan, all_runs, usable
from dpmmwrap.evaluation.samplers import DEFAULTS, FAMILIES, FIRST_CLUSTERS, STARTS
from dpmmwrap.evaluation.sets import BatterySet, Sets

OURS = "DPMM"
RIVALS = ("EM-GMM", OWN_PRIOR, BIC, "K-means", SILHOUETTE, "HDBSCAN")
BATTERY_METHODS = (*DEFAULTS, *RIVALS)
SHORT = {
    "families": tuple(FAMILIES),
    "starts": tuple(STARTS),
    "first-clusters": tuple(FIRST_CLUSTERS),
    "rivals": RIVALS,
    "all": BATTERY_METHODS,
}
"""Words that stand for several methods."""
OF_COUNTS = (OURS, "DPMM-multinomial", "DPMM-random", "DPMM-kmeans", *FIRST_CLUSTERS, "K-means", SILHOUETTE)
"""Methods that take rows of counts in a sparse matrix."""


def plan_battery(choice: Comparison, data: Sets) -> Plan:
    """Every method on every set that it applies to, one set after the other."""
    methods = None if choice.methods is None else expanded(choice.methods)
    settings = replace(choice.settings, scale=True, own_rules=True)
    choice = replace(choice, methods=methods, settings=settings)
    names, notes = usable(choice, (OURS, *RIVALS), BATTERY_METHODS)
    runs = [
        run
        for entry in data.sets
        for run in all_runs("battery", TABLE, entry, [name for name in names if applies(name, entry)], choice, {})
    ]
    idle = [name for name in names if not any(run.method == name for run in runs)]
    return Plan(runs, [*data.notes, *notes, *(f"{name} is left out: it suits none of these sets" for name in idle)])


def expanded(names: Iterable[str]) -> tuple[str, ...]:
    """Methods by their names, or by words that stand for several."""
    return tuple(full for name in names for full in SHORT.get(name.lower(), (name,)))


def applies(name: str, entry: BatterySet) -> bool:
    """Whether a method applies to a set: some take no sparse matrix, and the multinomial takes only counts."""
    if entry.sparse:
        return name in OF_COUNTS
    return name != "DPMM-multinomial" or entry.counts
