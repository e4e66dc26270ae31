"""The methods that are compared: how each fits, and what the experiments must know about it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scipy.sparse import issparse

from dpmmwrap.evaluation import rivals
from dpmmwrap.evaluation.fits import Fit, FitSettings, MethodFit
from dpmmwrap.evaluation.samplers import CHANGED, VARIANTS, by_default, subclusters
from dpmmwrap.families.base import Points
from dpmmwrap.files import InputError
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.cells import find_thread_pools

JULIA = " (Julia)"
OURS = "DPMM"
OUR_PRIOR, OWN_PRIOR = "DPGMM (our prior)", "DPGMM (its own prior)"
SILHOUETTE, BIC = "K-means-silhouette", "GMM-BIC"
BLUE = "#0072B2"


@dataclass(frozen=True)
class Method:
    fit: Fit
    colour: str
    about: str = "default settings; a word after a hyphen is a different setting. Sparse counts are multinomial."
    given_k: bool = False
    """Whether it gets the true number of clusters."""
    scaled: bool = False
    """Whether it gets columns of variance one if the settings say so."""
    own_rule: bool = False
    """Whether it always stops by its own rule."""
    random: bool = True
    counts: bool = False
    """Whether it takes rows of counts in a sparse matrix."""


PAPER_METHODS = {
    f"SubC-{word}{ending}": Method(subclusters(start, backend), colour)
    for ending, backend in (("", "native"), (JULIA, "julia"))
    for word, start, colour in (
        ("Random", "random", "#D55E00"), ("K-means", "kmeans", "#E69F00"), ("SplitNet", "splitnet", BLUE),
    )
} | {
    OUR_PRIOR: Method(rivals.given_prior, "#009E73"),
    "moVB": Method(rivals.memoized, "#CC79A7"),
    "EM-GMM": Method(
        rivals.expectation_maximisation, "#882255",
        "scikit-learn's GaussianMixture with full covariances, given the number of classes.", given_k=True,
    ),
    "K-means": Method(
        rivals.kmeans, "#56B4E9", "scikit-learn's, given the number of classes; counts as tf-idf.",
        given_k=True, scaled=True, counts=True,
    ),
}  # fmt: skip
"""The methods of the paper, with the same settings as far as they have them."""
OTHERS = {
    OWN_PRIOR: Method(
        rivals.own_prior, "#44AA99",
        "scikit-learn's BayesianGaussianMixture with its default prior and stopping rule.", scaled=True, own_rule=True,
    ),
    BIC: Method(
        rivals.bayesian_information, "#999933", "scikit-learn's GaussianMixture, full or diagonal, with the best BIC.",
        scaled=True, own_rule=True,
    ),
    SILHOUETTE: Method(
        rivals.kmeans_silhouette, "#AA4499",
        "the number of clusters with the highest mean silhouette; counts as tf-idf.",
        scaled=True, own_rule=True, counts=True,
    ),
    "HDBSCAN": Method(
        rivals.density_tree, "#332288",
        f"scikit-learn's, clusters of at least {rivals.LEAST_CLUSTER} points; noise counts as one cluster.",
        scaled=True, own_rule=True, random=False,
    ),
}  # fmt: skip
OUR_METHODS = {
    # Rows of counts have no covariances, and SplitNet is for numbers.
    name: Method(
        by_default(changed), BLUE, own_rule=True, counts="covariance_type" not in changed and name != "DPMM-splitnet"
    )
    for name, changed in CHANGED.items()
}
METHODS = PAPER_METHODS | OTHERS | OUR_METHODS
SUBC = ("SubC-Random", "SubC-K-means", "SubC-SplitNet")
RIVALS = ("EM-GMM", OWN_PRIOR, BIC, "K-means", SILHOUETTE, "HDBSCAN")
BATTERY_METHODS = (*CHANGED, *RIVALS)
SHORT = {word: tuple(names) for word, names in VARIANTS.items()} | {"rivals": RIVALS, "all": BATTERY_METHODS}
"""Words that stand for several methods of a battery."""


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


def given_k(name: str) -> bool:
    return name in METHODS and METHODS[name].given_k


def with_hint(name: str) -> str:
    """The name of a method in tables and figures."""
    return f"{name}, given K" if given_k(name) else name


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
    if "splitnet" in name.lower():
        from dpmmwrap.splitnet.weights_io import shipped_path

        if settings.weights is None and not shipped_path().is_file():
            return f"{name} is left out: this installation has no SplitNet weights (use --weights FILE)"
    return None


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
        words = generate_counts(30, 2, 200, 0)
        METHODS[name].fit(words.X, words.y, FitSettings(own_rules=True), 0)
    else:
        data = generate(dim, 2, 200, 50.0, 0)
        METHODS[name].fit(data.X, data.y, FitSettings(iterations=20, upper_bound=4, weights=weights), 0)


def run_method(name: str, X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """One fit on one thread, after compiling and loading."""
    # Sparse counts are multinomial; the other methods compile the same code for any dimension.
    counts = bool(issparse(X)) or name == "DPMM-multinomial"
    warm_up(name, X.shape[1] if name.startswith(("SubC", OURS)) and not counts else 2, settings.weights, counts)
    # The pools are looked up each time, as a method may have loaded libraries.
    with find_thread_pools().limit(limits=1):
        return METHODS[name].fit(X, truth, settings, seed)
