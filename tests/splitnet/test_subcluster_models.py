"""Sides of a split are judged by the family's own marginal likelihood, whatever the frame they are seen in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from scipy.stats import multivariate_normal, norm
from sklearn.mixture import GaussianMixture

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.row_loops import label_members_by_feature
from dpmmwrap.numerics.rules import Rows
from dpmmwrap.splitnet import refine
from dpmmwrap.splitnet.context import SplitContext
from dpmmwrap.splitnet.features import OuterFeatures, triangle_features
from dpmmwrap.splitnet.full_subclusters import FullSubclusters
from dpmmwrap.splitnet.subcluster_models import label_members, make_subcluster_model
from dpmmwrap.splitnet.synthesis import draw_test_sets

FAMILIES = ("full", "diag", "spherical")
LOG_ALPHA = float(np.log(10.0))


def prior_of(family: str, dim: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(dim)
    if family == "full":
        factor = rng.standard_normal((dim, dim))
        return NIW(mean, 0.3, factor @ factor.T + np.eye(dim), dim + 4.5)
    if family == "diag":
        return NIG(mean, 0.3, rng.random(dim) + 1, 4.5)
    return SphericalNIG(mean, 0.3, np.array([2.3]), 4.5)


def context_of(prior: Any, X: np.ndarray, size: int | None = None, missing: bool = False) -> SplitContext:
    """A context in double precision."""
    points = torch.from_numpy(np.asarray(X, dtype=np.float64))[None]
    present = torch.ones(points.shape[:2], dtype=torch.bool)
    observed = ~points.isnan() if missing else None
    model = make_subcluster_model(prior, points, present, observed)
    if isinstance(model, FullSubclusters):
        Z = model.frame(points)
    else:
        Z = ((points - model.centre) * model.factors).nan_to_num()
    return SplitContext(model, Z, present, torch.tensor([len(X) if size is None else size]), observed)


def group_of(context: SplitContext, labels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(labels)[None, None].to(context.Z.dtype)


def log_hastings(prior: Any, X: np.ndarray, labels: np.ndarray, alpha: float) -> float:
    """By the family itself."""
    sides, whole = prior.statistics(X, labels.astype(np.int64), 2), prior.statistics(X)
    marginals = prior.log_marginal_likelihood(sides).sum() - prior.log_marginal_likelihood(whole).sum()
    return float(np.log(alpha) + gammaln(sides.counts).sum() - gammaln(len(X)) + marginals)


@pytest.mark.parametrize("dim", [1, 3, 30])
@pytest.mark.parametrize(
    ("family", "missing"),
    [("full", False), ("diag", False), ("diag", True), ("spherical", False), ("spherical", True)],
)
def test_the_ratio_is_the_familys_own(family: str, missing: bool, dim: int) -> None:
    """Exactly, where the context is all of the cluster: the frame's Jacobian cancels."""
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((200, dim)) @ rng.standard_normal((dim, dim)) * 5 + 30
    labels = rng.random(200) < 0.3
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    prior = prior_of(family, dim)
    context = context_of(prior, X, missing=missing)
    sides = refine.maximise(context, group_of(context, labels))
    found = float(refine.scaled_log_hastings(context, sides, LOG_ALPHA))
    assert found == pytest.approx(log_hastings(prior, X, labels, 10.0), rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_fewer_points_than_dimensions_are_judged_all_the_same(family: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((12, 40))
    X[:5] += 4
    labels = np.arange(12) < 5
    prior = prior_of(family, 40)
    context = context_of(prior, X)
    sides = refine.maximise(context, group_of(context, labels))
    found = float(refine.scaled_log_hastings(context, sides, LOG_ALPHA))
    assert found == pytest.approx(log_hastings(prior, X, labels, 10.0), rel=1e-6)
    assert refine.log_odds(context, sides).isfinite().all()


def test_a_larger_cluster_counts_its_context_more_often() -> None:
    _, X, labels = draw_test_sets(np.random.default_rng(10), 2, "easy", 1, n=600)
    prior = NIW.reference(2)
    ratios = []
    for size in (600, 6000):
        context = context_of(prior, X[0], size)
        sides = refine.maximise(context, group_of(context, labels[0]))
        ratios.append(float(refine.scaled_log_hastings(context, sides, LOG_ALPHA)))
    assert 8 < ratios[1] / ratios[0] < 13


def test_the_log_odds_are_those_of_two_gaussians() -> None:
    """They differ by what the prior adds to the sides."""
    rng = np.random.default_rng(14)
    X = rng.standard_normal((2000, 3))
    group = X[:, 0] > 0.5
    prior = NIW(np.zeros(3), 0.01, 0.001 * np.eye(3), 3.0)
    context = context_of(prior, X)
    found = refine.log_odds(context, refine.maximise(context, group_of(context, group)))[0, 0].numpy()
    density = [
        np.log(len(part)) + multivariate_normal(part.mean(axis=0), np.cov(part.T, bias=True)).logpdf(X)
        for part in (X[group], X[~group])
    ]
    np.testing.assert_allclose(found, density[0] - density[1], atol=0.02 * np.abs(found).max())


@pytest.mark.parametrize(("tied", "missing"), [(False, False), (False, True), (True, False), (True, True)])
def test_the_log_odds_are_those_of_two_gaussians_along_the_axes(tied: bool, missing: bool) -> None:
    rng = np.random.default_rng(15)
    X = rng.standard_normal((2000, 3)) * [1, 2, 5] + 100
    group = X[:, 0] > 100.5
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    made, scale = (SphericalNIG, np.array([0.001])) if tied else (NIG, np.full(3, 0.001))
    prior = made(np.full(3, 100.0), 0.01, scale, 1.0)
    context = context_of(prior, X, missing=missing)
    found = refine.log_odds(context, refine.maximise(context, group_of(context, group)))[0, 0].numpy()
    density = []
    for part in (X[group], X[~group]):
        means, variances = np.nanmean(part, axis=0), np.nanvar(part, axis=0)
        if tied:
            observed = ~np.isnan(part)
            variances[:] = (variances * observed.sum(axis=0)).sum() / observed.sum()
        density.append(np.log(len(part)) + np.nansum(norm(means, np.sqrt(variances)).logpdf(X), axis=1))
    np.testing.assert_allclose(found, density[0] - density[1], atol=0.01 * np.abs(found).max())


@pytest.mark.parametrize("dim", [4, 30])
@pytest.mark.parametrize(("family", "missing"), [("full", False), ("diag", True), ("spherical", False)])
def test_labels_are_the_signs_of_the_log_odds(family: str, missing: bool, dim: int) -> None:
    """In the data's own coordinates, for any member; on a GPU as on a CPU."""
    rng = np.random.default_rng(16)
    X = (rng.standard_normal((900, dim)) * 3 + 50).astype(np.float32)
    group = rng.random(900) < 0.4
    X[group] += 1.5
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    context = context_of(prior_of(family, dim), X, missing=missing)
    sides = refine.maximise(context, group_of(context, group))
    expected = refine.log_odds(context, sides)[0, 0].numpy()
    labeller = context.model.labeller(context.model.log_odds(sides.sums, context.strength)[:, 0])
    rows = rng.permutation(900)[:500]
    sure = np.abs(expected[rows]) > 1e-3
    for found in (labeller.rule(0)(Rows(X, rows)), label_members(labeller, torch.from_numpy(X), 0, rows)):
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found[sure], (expected[rows] > 0)[sure])


def test_a_point_without_any_value_gets_a_label() -> None:
    X = np.full((2, 3), np.nan, np.float32)
    parts = (np.zeros(3), 0.5, np.ones(3), np.ones(3), np.ones(3))
    assert label_members_by_feature(X, np.arange(2), *parts).tolist() == [1, 1]


def test_features_need_not_be_stored() -> None:
    rng = np.random.default_rng(17)
    Z = torch.from_numpy(rng.standard_normal((2, 50, 6)))
    present = torch.ones(2, 50, dtype=torch.bool)
    stored = triangle_features(Z, present)
    outer = OuterFeatures(torch.cat([torch.ones(2, 50, 1, dtype=Z.dtype), Z], dim=2))
    group, weights = torch.from_numpy(rng.random((2, 3, 50))), torch.from_numpy(rng.standard_normal((2, 3, 28)))
    torch.testing.assert_close(outer.sums(group), stored.sums(group))
    torch.testing.assert_close(outer.dot(weights), stored.dot(weights))


def test_with_the_entropy_the_ratio_is_that_of_the_mixture() -> None:
    """Gain of the expected log joint plus entropy: a bound below on the mixture's log likelihood that EM closes."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((900, 2))
    X[:300, 0] += 2.2
    padded = np.concatenate([X, np.zeros((100, 2))])
    prior = NIW(np.zeros(2), 1.0, 0.5 * np.eye(2), 5.0)
    whole = context_of(prior, X)
    context = SplitContext(
        whole.model,
        torch.cat([whole.Z, torch.zeros(1, 100, 2, dtype=whole.Z.dtype)], dim=1),
        torch.arange(1000)[None] < 900,
        torch.tensor([900]),
    )
    sides = refine.maximise(context, group_of(context, (padded[:, 0] > 2) & (np.arange(1000) < 900)))
    sides, entropy = refine.refine_and_weigh(context, sides, 200)
    ratio = float(refine.scaled_log_hastings(context, sides, LOG_ALPHA, torch.ones(1)) + entropy)
    fitted = [
        GaussianMixture(k, tol=1e-6, max_iter=1000, random_state=0, reg_covar=1e-9).fit(X).score(X) for k in (1, 2)
    ]
    # The prior and log Gamma take a few nats for each parameter.
    assert 10 < 900 * (fitted[1] - fitted[0]) - ratio < 40
    assert 100 < float(entropy) < 900 * np.log(2)
    cut = float(refine.scaled_log_hastings(context, sides, LOG_ALPHA))
    assert ratio > 0 > cut
    assert float(refine.refine_and_weigh(context, sides, 0)[1]) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_em_steps_raise_the_ratio(family: str) -> None:
    rng = np.random.default_rng(11)
    X = rng.standard_normal((800, 2))
    X[:200] = 0.3 * X[:200] + [2.5, 0.0]
    context = context_of(prior_of(family, 2), X)
    group = rng.random(800)
    group[:150] = 0.9
    sides = refine.maximise(context, group_of(context, group))
    ratios = []
    for _ in range(6):
        ratios.append(float(refine.scaled_log_hastings(context, sides, LOG_ALPHA)))
        sides = refine.refine(context, sides, 5)
    assert ratios[-1] > ratios[0]
    assert abs(float(sides.counts[0, 0, 1]) - 200) < 40


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_known_of_the_first_points_counts_for_all(family: str) -> None:
    rng = np.random.default_rng(13)
    X = rng.standard_normal((900, 3))
    labels = rng.random(900) < 0.3
    context, first = context_of(prior_of(family, 3), X), context_of(prior_of(family, 3), X[:300])
    group = group_of(context, labels)
    some, few = refine.maximise(context, group[:, :, :300]), refine.maximise(first, group[:, :, :300])
    torch.testing.assert_close(some.counts, 3 * few.counts)
    assert float(some.counts.sum()) == pytest.approx(900)
    everyone = refine.maximise(context, group)
    torch.testing.assert_close(some.sums, everyone.sums, atol=0.15 * 900, rtol=0)


def test_the_first_em_steps_look_at_some_points_and_the_last_at_all() -> None:
    rng = np.random.default_rng(14)
    X = rng.standard_normal((1200, 2))
    X[:400] = 0.3 * X[:400] + [2.5, 0.0]
    rng.shuffle(X)
    context = context_of(prior_of("full", 2), X)
    begun = refine.maximise(context, group_of(context, X[:, 0] > 1.5))

    def step(sides: refine.Sides, points: int) -> refine.Sides:
        return refine.maximise(context, refine.log_odds(context, sides, points).sigmoid())

    assert refine.early_points(1200) == 300
    torch.testing.assert_close(refine.refine(context, begun, 1).sums, step(begun, 1200).sums)
    three = step(step(step(begun, 300), 300), 1200)
    torch.testing.assert_close(refine.refine(context, begun, 3).sums, three.sums)
    torch.testing.assert_close(refine.refine_and_weigh(context, begun, 3)[0].sums, three.sums)
    assert float(three.counts[0, 0, 1]) == pytest.approx(400, abs=60)


def test_normalised_ratios_do_not_favour_a_handful_of_points() -> None:
    rng = np.random.default_rng(18)
    context = context_of(prior_of("diag", 2), rng.standard_normal((500, 2)) * 3)
    few, half = np.arange(500) < 4, rng.random(500) < 0.5
    sides = refine.maximise(context, torch.cat([group_of(context, few), group_of(context, half)], dim=1))
    ratios = refine.scaled_log_hastings(context, sides, LOG_ALPHA)
    normalised = refine.normalised_log_ratio(context, sides, ratios)
    assert ratios[0, 0] > ratios[0, 1]
    assert normalised[0, 0] < normalised[0, 1]


def test_correlated_features_are_more_than_one_diagonal_cluster() -> None:
    rng = np.random.default_rng(19)
    plain = rng.standard_normal((400, 4)) * [1, 2, 3, 4]
    tilted = plain.copy()
    tilted[:, 0] += 0.3 * plain[:, 1]
    for family, X, fits in (
        ("full", tilted, True), ("diag", plain, True), ("diag", tilted, False),
        ("spherical", plain, False), ("spherical", plain / [1, 2, 3, 4], True),
    ):  # fmt: skip
        context = context_of(prior_of(family, 4), X)
        assert bool(context.model.fits_second_moments(context.Z, context.counts)) == fits


def test_other_families_are_refused() -> None:
    class Other:
        family = "multinomial"

    X = torch.zeros(1, 4, 2)
    with pytest.raises(ValueError, match="is for Gaussian clusters, not for the family multinomial"):
        make_subcluster_model(Other(), X, torch.ones(1, 4, dtype=torch.bool), None)  # type: ignore[arg-type]
