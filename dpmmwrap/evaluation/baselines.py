"""The methods that are compared, with one interface: from points, truth, settings and a seed to a `MethodFit`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from scipy.sparse import issparse

from dpmmwrap.evaluation import rivals, samplers
from dpmmwrap.evaluation.fits import FitSettings, Method, MethodFit
from dpmmwrap.evaluation.samplers import DEFAULTS, FAMILIES, FIRST_CLUSTERS, by_default, subclusters
from dpmmwrap.families.base import Points
from dpmmwrap.files import InputError
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.cells import find_thread_pools

WARM_UP_POINTS, WARM_UP_WORDS = 200, 30

JULIA = " (Julia)"
SUBC = ("SubC-Random", "SubC-K-means", "SubC-SplitNet")
STARTS = ("random", "kmeans", "splitnet")
OUR_PRIOR, OWN_PRIOR = "DPGMM (our prior)", "DPGMM (its own prior)"
SILHOUETTE, BIC = "K-means-silhouette", "GMM-BIC"
GIVEN_K = ("EM-GMM", "K-means")
"""Methods that get the true number of clusters."""
SCALED = (OWN_PRIOR, "K-means", SILHOUETTE, BIC, "HDBSCAN")
"""Methods that get columns of variance one if the settings say so."""
OWN_RULES = (*DEFAULTS, OWN_PRIOR, SILHOUETTE, BIC, "HDBSCAN")
"""Methods that always stop by their own rule."""
SEEDLESS = ("HDBSCAN",)
"""Methods without randomness."""
PAPER_METHODS: dict[str, Method] = {
    **{name: subclusters(start, "native") for name, start in zip(SUBC, STARTS, strict=True)},
    **{name + JULIA: subclusters(start, "julia") for name, start in zip(SUBC, STARTS, strict=True)},
    OUR_PRIOR: rivals.given_prior,
    "moVB": rivals.memoized,
    "EM-GMM": rivals.expectation_maximisation,
    "K-means": rivals.kmeans,
}
"""The methods of the paper, with the same settings as far as they have them."""
METHODS: dict[str, Method] = {
    **PAPER_METHODS,
    OWN_PRIOR: rivals.own_prior,
    BIC: rivals.bayesian_information,
    SILHOUETTE: rivals.kmeans_silhouette,
    "HDBSCAN": rivals.density_tree,
    **{name: by_default(changed) for name, changed in DEFAULTS.items()},
}
OURS = "DPMM"
RIVALS = ("EM-GMM", OWN_PRIOR, BIC, "K-means", SILHOUETTE, "HDBSCAN")
BATTERY_METHODS = (*DEFAULTS, *RIVALS)
SHORT = {
    "families": tuple(FAMILIES),
    "starts": tuple(samplers.STARTS),
    "first-clusters": tuple(FIRST_CLUSTERS),
    "rivals": RIVALS,
    "all": BATTERY_METHODS,
}
"""Words that stand for several methods of a battery."""
OF_COUNTS = (OURS, "DPMM-multinomial", "DPMM-random", "DPMM-kmeans", *FIRST_CLUSTERS, "K-means", SILHOUETTE)
"""Methods that take rows of counts in a sparse matrix."""


def find_methods(names: Sequence[str], among: Sequence[str] = tuple(METHODS)) -> list[str]:
    """The methods of these names, in upper or lower case; InputError for an unknown one.

    A name may stand for all methods that add something in brackets to it.
    """
    methods: list[str] = []
    for name in names:
        short = [known for known in among if known.split(" (")[0].lower() == name.lower()]
        full = [known for known in among if known.lower() == name.lower()]
        if not (full or short):
            raise InputError(f"a method should be one of {', '.join(among)}, not {name!r}")
        methods += full or short
    return list(dict.fromkeys(methods))


def with_hint(name: str) -> str:
    """The name of a method in tables and figures."""
    return f"{name}, given K" if name in GIVEN_K else name


def missing(name: str, settings: FitSettings) -> str | None:
    """Why a method cannot run here, in one sentence; None if it can."""
    if name.endswith(JULIA):
        from dpmmwrap.backends.julia import setup as julia_setup

        problem = julia_setup.find().missing
        if problem is not None:
            return f"The samplers on Julia are left out: {problem}"
    # A mere folder of that name is a "namespace package" without an origin.
    package = importlib.util.find_spec("bnpy") if name == "moVB" else None
    if name == "moVB" and (package is None or package.origin is None):
        return "moVB is left out: bnpy is not installed (pip install bnpy)"
    network = name.startswith("SubC-SplitNet") or name == "DPMM-splitnet"
    if network and settings.weights is None and weights_file() is None:
        return f"{name} is left out: this installation has no SplitNet weights (use --weights FILE)"
    return None


def weights_file() -> Path | None:
    """SplitNet's shipped weights, if there are any."""
    from dpmmwrap.splitnet.weights_io import shipped_path

    return shipped_path() if shipped_path().is_file() else None


def prepare(names: Sequence[str]) -> None:
    """Start Julia if a method needs it. This must precede torch, or Julia may load the wrong libraries."""
    if any(name.endswith(JULIA) for name in names):
        from dpmmwrap.backends import Julia

        Julia().start()


@cache
def warm_up(name: str, dim: int, weights: str | None, counts: bool) -> None:
    """Compile and load what a method needs, so that its first run is as fast as the others."""
    from dpmmwrap.datasets import generate, generate_counts

    if counts:
        words = generate_counts(WARM_UP_WORDS, 2, WARM_UP_POINTS, 0)
        METHODS[name](words.X, words.y, FitSettings(own_rules=True), 0)
    else:
        data = generate(dim, 2, WARM_UP_POINTS, 50.0, 0)
        METHODS[name](data.X, data.y, FitSettings(iterations=20, upper_bound=4, weights=weights), 0)


def run_method(name: str, X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """One fit on one thread, after compiling and loading."""
    # Sparse counts are multinomial; the other methods compile the same code for any dimension.
    counts = bool(issparse(X)) or name == "DPMM-multinomial"
    warm_up(name, X.shape[1] if name.startswith(("SubC", "DPMM")) and not counts else 2, settings.weights, counts)
    # The pools are looked up each time, as a method may have loaded libraries.
    with find_thread_pools().limit(limits=1):
        return METHODS[name](X, truth, settings, seed)
