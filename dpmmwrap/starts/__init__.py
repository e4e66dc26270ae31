"""How a new cluster's two subclusters begin: the Initializer protocol and the starts by name."""

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
    """By what the sampler will accept the split that a start proposes."""

    prior: Prior
    """The family, with its prior."""
    partition_prior: PartitionPrior
    """How probable a split is before the data are seen."""
    full_ratio: bool = True
    """Whether the Hastings ratio counts the probability of proposing just these sublabels."""


@runtime_checkable
class Initializer(Protocol):
    """Proposes the subclusters of newly formed clusters."""

    def bind(self, X: Points, criterion: SplitCriterion) -> None:
        """Once per fit: see the data, and what splits are accepted by. With a GPU, this uploads the data, once."""

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        """For each cluster (the row numbers of its points), a 0/1 sublabel per member."""


Start: TypeAlias = str | Callable[..., Any]
NAMES = ("random", "kmeans", "splitnet")


class NetworkUnavailable(ValueError):
    """torch, which SplitNet needs, is missing or broken."""


def make_initializer(start: Start | Initializer, **options: Any) -> Initializer:
    """A start by name, or from a callable: how a new cluster's two subclusters begin.

    Parameters
    ----------
    start : "random", "kmeans", "splitnet", callable or Initializer
        A plain callable gets the points of one cluster (n, D) and returns n sublabels 0 or 1; an object that already
        is an Initializer is used as it is.
    **options
        Of the start that is named: `weights`, a file, and `device` of "splitnet", for example.

    Returns
    -------
    Initializer
        For `DPMM(init=...)`.

    Examples
    --------
    Halves by the first feature's median:

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
    """Whatever a broken torch raises when it is imported becomes one sentence."""
    try:
        importlib.import_module("torch")
    except Exception as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise NetworkUnavailable(
            f"the start splitnet needs torch, which cannot be imported ({why}); kmeans does without"
        ) from error
