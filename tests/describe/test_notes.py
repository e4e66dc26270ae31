"""What a fit says of itself when something may be wrong, and that it is silent otherwise."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM, NIW
from dpmmwrap.cli.families import as_options
from dpmmwrap.describe.notes import doubts_about, no_split
from dpmmwrap.families import prior_named
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.mixture import Mixture
from dpmmwrap.sampler.settings import Result
from dpmmwrap.sampler.trace import Iteration, Trace

POINTS = np.random.default_rng(0).normal(size=(60, 2))


def trace_of(values: Any, clusters: int = 2, splits: int = 1) -> Trace:
    return Trace([Iteration(clusters, float(value), 0.1, splits, 1, 0, 1) for value in values])


def result_of(trace: Trace, labels: Any = None, **more: Any) -> Result:
    labels = np.zeros(60, np.int32) if labels is None else labels
    return Result(labels, np.zeros(60, np.uint8), trace, traces=[trace] * 4, **more)


def mixture_of(labels: Any, prior: Any = None) -> Mixture:
    return Mixture.from_labels(POINTS, labels, prior or NIW(np.zeros(2), 0.1, np.eye(2), 5.0))


TWO = np.repeat([0, 1], 30).astype(np.int32)
FLAT = np.full(100, -1000.0)
RISING = np.linspace(-2000, -1000, 100)


def test_nothing_to_say() -> None:
    assert doubts_about(mixture_of(TWO), result_of(trace_of(FLAT), TWO)) == []


def test_a_search_that_still_rises() -> None:
    doubts = doubts_about(mixture_of(TWO), result_of(trace_of(RISING), TWO))
    assert doubts == [
        "the log posterior was still rising after 100 iterations: a longer search (max_iter) may find more"
    ]
    assert "a longer search (--iterations)" in as_options(doubts[0])
    # Whoever has pressed Ctrl-C knows that.
    assert doubts_about(mixture_of(TWO), result_of(trace_of(RISING), TWO, interrupted=True)) == []


@pytest.mark.parametrize(("clusters", "rows", "said"), [(21, 19, True), (21, 20, False), (20, 19, False)])
def test_counts_cut_into_many_clusters(clusters: int, rows: int, said: bool) -> None:
    labels = np.repeat(np.arange(clusters), rows).astype(np.int32)
    mixture = Mixture.from_labels(np.ones((len(labels), 3)), labels, Dirichlet(np.ones(3)))
    doubts = doubts_about(mixture, result_of(trace_of(FLAT, clusters), labels))
    assert len(doubts) == said
    if said:
        assert doubts[0].startswith("the 21 clusters have 19 rows on average: counts that repeat within a row")


def test_chains_that_disagree() -> None:
    doubts = doubts_about(mixture_of(TWO), result_of(trace_of(FLAT), TWO, agreement=(0.7, 0.5, 0.3)))
    assert len(doubts) == 1
    assert re.match(r"no other of the 4 chains found this clustering \(adjusted Rand .* 0.50 on average\)", doubts[0])
    assert "try more chains (--chains), or draws (--draws)" in as_options(doubts[0])
    assert doubts_about(mixture_of(TWO), result_of(trace_of(FLAT), TWO, agreement=(0.9, 0.5, 0.3))) == []


@pytest.mark.parametrize(("family", "other"), [("full", "diag"), ("diag", "full"), ("spherical", "diag")])
def test_no_split_was_ever_accepted(family: str, other: str) -> None:
    said = no_split(prior_named(family).other)
    assert f"try covariance_type='{other}', init_clusters='many'" in said
    assert f"try --covariance {other}, --init-clusters many" in as_options(said)


def test_one_cluster_is_doubted_only_if_nothing_was_ever_split() -> None:
    one = np.zeros(60, np.int32)
    never = result_of(trace_of(FLAT, clusters=1, splits=0), one)
    assert doubts_about(mixture_of(one), never) == [no_split(NIW.other)]
    assert doubts_about(mixture_of(one, NIG(np.zeros(2), 0.1, np.ones(2), 5.0)), never) == [no_split(NIG.other)]
    assert doubts_about(mixture_of(one), result_of(trace_of(FLAT, clusters=1, splits=1), one)) == []
    short = result_of(trace_of(FLAT[:10], clusters=1, splits=0), one)
    assert doubts_about(mixture_of(one), short) == [], "ten iterations say nothing"


def test_clusters_that_are_smaller_than_their_covariances() -> None:
    labels = np.repeat(np.arange(15), 4).astype(np.int32)
    doubts = doubts_about(mixture_of(labels), result_of(trace_of(FLAT, clusters=15), labels))
    assert doubts == [
        "every cluster has fewer points (the largest 4) than a full covariance has numbers (5): covariance_type='diag' "
        "needs fewer"
    ]


def test_a_fit_warns_of_what_it_notes() -> None:
    clusters = POINTS + np.repeat([[0, 0], [30, 0], [0, 30]], 20, axis=0)
    with pytest.warns(UserWarning, match="no split was ever accepted") as heard:
        model = DPMM(
            covariance_type="full", max_clusters=1, max_iter=25, n_chains=1, init="kmeans", random_state=0
        ).fit(clusters)
    assert [str(one.message) for one in heard] == model.notes_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(max_clusters=None).fit(clusters)
    assert model.n_clusters_ == 3 and model.notes_ == []
