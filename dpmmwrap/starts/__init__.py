"""How the two subclusters of a new cluster are initialised: the Initializer protocol and the named starts."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from numpy.random import Generator

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.numerics.arrays import IntArray, UInt8Array
from dpmmwrap.partitions import PartitionPrior


class SplitCriterion(NamedTuple):
    """The criterion by which the sampler accepts the splits that a start proposes."""

    prior: Prior
    """The prior, which also determines the family."""
    partition_prior: PartitionPrior
    """The prior over partitions."""
    full_ratio: bool = True
    """Whether the Hastings ratio includes the probability of proposing the sublabels."""


@runtime_checkable
class Initializer(Protocol):
    """Proposes the subclusters of newly formed clusters."""

    def bind(self, X: Points, criterion: SplitCriterion) -> None:
        """Called once per fit with the data and the split criterion. With a GPU, this uploads the data."""

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        """A 0/1 sublabel per member for each cluster, given the row numbers of its points."""


Start: TypeAlias = str | Callable[..., Any]
NAMES = ("random", "kmeans", "splitnet")


class NetworkUnavailable(ValueError):
    """torch, which SplitNet needs, is missing or broken."""


def make_initializer(start: Start | Initializer, **options: Any) -> Initializer:
    """Create a start, by name or from a callable, which divides a new cluster into two subclusters.

    Parameters
    ----------
    start : "random", "kmeans", "splitnet", callable or Initializer
        A plain callable maps the points of one cluster (n, D) to n sublabels 0 or 1. An Initializer is returned
        unchanged.
    **options
        Options of the named start, for example `weights` (a file) and `device` of "splitnet".

    Returns
    -------
    Initializer
        For `DPMM(init=...)`.

    Examples
    --------
    Halves at the median of the first feature:

    >>> import numpy as np
    >>> from dpmmwrap import DPMM, make_initializer
    >>> start = make_initializer(lambda points: points[:, 0] > np.median(points[:, 0]))
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + 9 * k for k in range(2)])
    >>> DPMM(init=start, covariance_type="full", n_chains=1, random_state=0).fit(X).n_clusters_
    2
    """
    if isinstance(start, Initializer):
        return start
    if callable(start):
        from dpmmwrap.starts.custom import CallableStart

        return CallableStart(start)
    if start == "random":
        from dpmmwrap.starts.random import RandomStart

        return RandomStart(**options)
    if start == "kmeans":
        from dpmmwrap.starts.kmeans import KMeansStart

        return KMeansStart(**options)
    if start == "splitnet":
        begun = time.perf_counter()
        check_torch()
        from dpmmwrap.starts.splitnet import SplitNetStart

        made = SplitNetStart(**options)
        made.loading_seconds = time.perf_counter() - begun
        return made
    raise ValueError(f"init should be one of {', '.join(NAMES)} or a callable, not {start!r}")


def check_torch() -> None:
    """Raise a one-sentence error if torch cannot be imported, whatever a broken installation raises."""
    try:
        importlib.import_module("torch")
    except Exception as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise NetworkUnavailable(
            f"the start splitnet needs torch, which cannot be imported ({why}); kmeans does not need it"
        ) from error
