"""The exact moves against all partitions of seven points, for every family; and that a broken one is found out.

`scripts/posterior.py` does the same at length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.labels import refuse_to_empty
from dpmmwrap.partitions import FiniteMixture, PitmanYor
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.moves import split_merge
from dpmmwrap.sampler.state import next_key
from exactness import enumeration
from exactness.broken import BREAKAGES, WRONG_PRIORS
from exactness.running import (
    ALONE,
    Apart,
    Seen,
    apart,
    few_of_each,
    one_move,
    problem_of,
    run,
    standard_errors,
    start,
    uneven_cluster_seeds,
)
from exactness.sets import ALIKE, FAMILIES, families

LIMIT = 6.0
"""Monte Carlo standard errors, of the worst of some thirty quantities, each from 25 batches."""
DRAWS, THIN = 2000, {"points": 8, "pairs": 2}
"""One move of single points changes two of seven."""
LEARNED = (2.0, 1.0)


def distance(family: str, moves: str | None, alpha: Any = 1.0, draws: int = DRAWS, **changes: Any) -> Apart:
    """Of draws by some moves, or by all, from the exact posterior."""
    X, prior = families()[family]
    options, expected_options = dict(changes), {}
    if "outlier_weight" in changes:
        options["outlier_prior"] = prior.outliers(X)
        expected_options["outliers"] = (changes["outlier_weight"], options["outlier_prior"])
    if "max_clusters" in changes:
        expected_options["max_clusters"] = changes["max_clusters"]
    expected = enumeration.posterior(X, prior, alpha, **expected_options)
    problem = problem_of(X, prior, alpha, **options)
    with few_of_each():
        seen = run(
            problem,
            draws,
            None if moves is None else ALONE[moves],
            cluster_seeds=uneven_cluster_seeds(7),
            thin=THIN.get(moves or "", 1),
        )
    return apart(seen, expected)


# The slow ones share their loops with the others, and all moves together are tried with every family.
@pytest.mark.parametrize("moves", list(ALONE))
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in FAMILIES]
)
def test_each_move_samples_the_posterior(family: str, moves: str) -> None:
    found = distance(family, moves)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_all_moves_sample_it_together(family: str) -> None:
    found = distance(family, None, draws=1200)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize("alpha", [10.0, LEARNED])
def test_any_concentration(alpha: Any) -> None:
    found = distance("full", None, alpha)
    assert found.z < LIMIT and found.clusters < 0.07 and found.alpha < 0.1


@pytest.mark.parametrize(
    ("family", "alpha", "changes"),
    [
        ("full", 1.0, {"outlier_weight": 0.2}),
        ("full", LEARNED, {"max_clusters": 2}),
        ("mixed", 1.0, {"outlier_weight": 0.2}),
        ("counts", LEARNED, {"max_clusters": 3, "outlier_weight": 0.2}),
    ],
)
def test_outliers_and_no_more_than_so_many_clusters(family: str, alpha: Any, changes: dict[str, Any]) -> None:
    found = distance(family, None, alpha, **changes)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize(
    ("broken", "moves"),
    [
        ("log q left out", "pairs"),
        ("log q left out", None),
        ("clusters may empty", "sweep and points"),
        ("clusters may empty", None),
        ("pairs by labels", "pairs"),
        ("pairs by labels", None),
        ("points by their cluster's size", "points"),
        ("twice the concentration", "points"),
    ],
)
def test_a_broken_move_is_found_out(broken: str, moves: str | None) -> None:
    with BREAKAGES[broken]():
        found = distance("full", moves, draws=2 * DRAWS if moves is None else DRAWS)
    assert found.z > 1.2 * LIMIT and found.clusters > 0.08


def test_a_wrong_update_of_the_concentration_is_found_out() -> None:
    with BREAKAGES["one Gamma for alpha"]():
        found = distance("full", None, LEARNED)
    assert found.z > LIMIT and found.alpha > 0.2


PITMAN_YOR, FINITE = PitmanYor(1.0, 0.4), FiniteMixture(1.0, 2.0)


@pytest.mark.parametrize("moves", [*ALONE, None])
@pytest.mark.parametrize("process", [PITMAN_YOR, FINITE], ids=str)
def test_each_move_samples_the_posterior_of_other_priors(process: Any, moves: str | None) -> None:
    found = distance("full", moves, process)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize(
    ("family", "process"),
    [
        ("full", PitmanYor(-0.3, 0.6)),
        ("full", FiniteMixture(0.3, 4.0)),
        ("diag", PITMAN_YOR),
        ("diag, missing values", FINITE),
        ("spherical", PITMAN_YOR),
        ("counts", FINITE),
        ("sparse counts", PITMAN_YOR),
        ("mixed", FINITE),
    ],
)
def test_all_moves_with_other_priors(family: str, process: Any) -> None:
    found = distance(family, None, process, draws=1200)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize("changes", [{}, {"outlier_weight": 0.2}, {"max_clusters": 3}])
def test_a_concentration_and_a_discount_that_are_learned(changes: dict[str, Any]) -> None:
    found = distance("full", None, PitmanYor(), **changes)
    assert found.z < LIMIT and found.clusters < 0.07 and found.alpha < 0.15 and found.discount < 0.04


@pytest.mark.parametrize("changes", [{"outlier_weight": 0.2}, {"max_clusters": 3}])
def test_a_finite_mixture_with_outliers_and_a_limit(changes: dict[str, Any]) -> None:
    found = distance("full", None, FiniteMixture(0.5, 2.0), **changes)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize(
    ("wrong", "process", "moves"),
    [
        ("half the discount of sizes", PitmanYor(1.0, 0.8), "points"),
        ("half the discount of sizes", PitmanYor(1.0, 0.8), "pairs"),
        ("the discount counts for one cluster too few", PitmanYor(0.2, 0.8), "points"),
        ("the discount counts for one cluster too few", PitmanYor(0.2, 0.8), "pairs"),
        ("any discount", PitmanYor(1.0, "auto"), None),
        ("gamma of sizes left out", FiniteMixture(3.0, 2.0), None),
        ("V of other points", FINITE, "points"),
        ("V of other points", FINITE, "pairs"),
    ],
)
def test_a_wrong_prior_is_found_out(wrong: str, process: Any, moves: str | None) -> None:
    with WRONG_PRIORS[wrong]():
        found = distance("full", moves, process)
    assert found.z > 1.2 * LIMIT


def test_enumeration_itself() -> None:
    """Without data that say anything: the Chinese restaurant's own numbers."""
    prior = NIW(np.zeros(1), 1.0, np.eye(1), 3.0)
    nothing = np.zeros((4, 0))
    uninformed = type(
        "Flat", (), {"statistics": staticmethod(prior.statistics), "log_marginal_likelihood": lambda *_: [0.0]}
    )()
    found = enumeration.posterior(nothing, uninformed, 2.0)
    stirling = np.array([0, 6, 11, 6, 1])
    weights = stirling * 2.0 ** np.arange(5)
    np.testing.assert_allclose(found.clusters, weights / weights.sum())
    np.testing.assert_allclose(found.together[0, 1], 1 / 3)
    # A priori the concentration's mean stays as it is, however many points there are.
    learned = enumeration.posterior(nothing, uninformed, (3.0, 2.0))
    assert learned.alpha == pytest.approx(1.5)
    outside = enumeration.posterior(nothing, uninformed, 2.0, outliers=(0.3, uninformed)).outside
    np.testing.assert_allclose(outside, (0.3 - 0.3**4) / (1 - 0.3**4))


def test_monte_carlo_errors_are_those_of_a_known_chain() -> None:
    """An autoregressive chain: the variance of its mean is (1 + r) / (1 - r) times that of independent draws."""
    rng, values = np.random.default_rng(0), np.zeros((20_000, 40))
    for step in range(1, len(values)):
        values[step] = 0.8 * values[step - 1] + 0.6 * rng.normal(size=40)
    expected = np.sqrt(1.8 / 0.2 / len(values))
    assert np.sqrt(np.mean(standard_errors(values) ** 2)) == pytest.approx(expected, rel=0.1)
    labels = np.array([[0, 0, 1], [-1, 2, 0], [-1, -1, -1]])
    np.testing.assert_array_equal(Seen(labels, np.ones(3)).n_clusters, [2, 2, 0])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_partition_stays_consistent(family: str) -> None:
    """Labels, counts and clusters belong together after every move, whatever was born and died."""
    X, prior = families()[family]
    broad = prior.outliers(X)
    problem = problem_of(X, prior, 3.0, outlier_weight=0.1, outlier_prior=broad)
    state, rng = start(problem), np.random.Generator(np.random.SFC64(0))
    kinds = set()
    for _ in range(40):
        for name in ("sweep", "points", "pairs"):
            state = one_move(name, next_key(rng), state, problem)
            count = state.n_clusters
            statistics = prior.statistics(X, state.labels, count)
            np.testing.assert_array_equal(state.counts, statistics.counts)
            assert (state.counts[1:] > 0).all()
            expected = prior.log_marginal_likelihood(statistics)
            expected[:1] = broad.log_marginal_likelihood(type(statistics)(*(array[:1] for array in statistics)))
            np.testing.assert_allclose(problem.data.log_marginals(state), expected, atol=1e-6)
            kinds.add(count)
    assert len(kinds) > 2


def test_a_sample_is_what_the_labels_say() -> None:
    X, prior = families()["full"]
    problem = problem_of(X, prior, (2.0, 1.0))
    labels = np.array([0, 1, 1, 0, 2, 2, 2], np.int32)
    found = sampling.look(start(problem, labels), problem)
    assert found.n_clusters == 3 and found.partition_prior.alpha == 2.0
    np.testing.assert_allclose(found.weights, np.array([2, 2, 3]) / 7)
    joint = prior.log_marginal_likelihood(prior.statistics(X, labels, 3)).sum()
    # 1 1 2 ways to seat each table's guests; Gamma(2) / Gamma(9).
    joint += 3 * np.log(2.0) + np.log(2) - np.log(40320) + stats.gamma(2.0, scale=1.0).logpdf(2.0)
    assert found.log_posterior == pytest.approx(joint)


def test_pairs_that_share_a_cluster_with_an_earlier_one_are_passed_over() -> None:
    labels = np.array([0, 1, 1, 2, 2, 3, 3, 4])
    pairs = np.array([[0, 3], [1, 2], [4, 5], [6, 5], [7, 1], [7, 7]])
    chosen = split_merge.disjoint_pairs(pairs, labels, np.bincount(labels).astype(float), 0, 100)
    # 2 has cluster 2, which the first has; 4 has cluster 1, which the second has.
    np.testing.assert_array_equal(chosen, [0, 1, 3, 5])
    # The same pairs are taken when those before have merged or split.
    merged = np.array([0, 1, 1, 0, 0, 3, 2, 4])
    again = split_merge.disjoint_pairs(pairs, merged, np.bincount(merged).astype(float), 0, 100)
    np.testing.assert_array_equal(again, chosen)
    # Outliers take no part; unions that are too large keep their clusters to themselves.
    few = split_merge.disjoint_pairs(pairs, labels, np.bincount(labels).astype(float), 1, 1)
    np.testing.assert_array_equal(few, [5])


def test_the_points_of_pairs_are_collected_in_order() -> None:
    labels = np.array([2, 0, 1, 2, 0, 3, 2], np.int32)
    one, other, wanted = np.array([2, 0, 1]), np.array([2, 3, 1]), np.array([True, True, False])
    starts, rows = exact.collect_unions(labels, np.bincount(labels).astype(float), one, other, wanted)
    np.testing.assert_array_equal(starts, [0, 3, 6])
    np.testing.assert_array_equal(rows, [0, 3, 6, 1, 4, 5])


@pytest.mark.parametrize("why", ["all are outliers", "too large"])
def test_a_round_without_any_pair(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, prior = families()["full"]
    options = {"outlier_weight": 0.5, "outlier_prior": prior} if why == "all are outliers" else {}
    problem = problem_of(X, prior, **options)
    labels = np.full(7, -1, np.int32) if options else np.zeros(7, np.int32)
    if why == "too large":
        monkeypatch.setattr(split_merge, "LARGEST_UNION", 5)
    found, info = split_merge.SplitMerge(4).step(np.uint64(1), start(problem, labels), problem)
    assert info == split_merge.SplitMergeInfo()
    np.testing.assert_array_equal(found.labels, np.zeros(7))


def test_the_last_point_of_a_cluster_stays() -> None:
    """Against the rule itself, one step after the other, over random steps."""
    rng = np.random.default_rng(0)
    some_refused = 0
    for _ in range(300):
        count = int(rng.integers(1, 5))
        before = np.append(np.arange(count), rng.integers(0, count, rng.integers(0, 4))).astype(np.int32)
        wanted = rng.integers(0, count, len(before)).astype(np.int32)
        fixed = int(rng.integers(0, 2)) if count > 1 else 0
        expected, refused = before.copy(), []
        for row, label in enumerate(wanted):
            last = (expected == before[row]).sum() == 1 and label != before[row] and before[row] >= fixed
            if last:
                refused.append([row, label])
            else:
                expected[row] = label
        labels = wanted.copy()
        found = refuse_to_empty(before, labels, count, fixed)
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(found, np.array(refused).reshape(-1, 2))
        some_refused += bool(refused)
    assert some_refused > 50
