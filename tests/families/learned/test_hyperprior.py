"""The learned prior: every formula against another source, and that wrong ones are found out."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import gammaln, logsumexp

from dpmmwrap.families import prior_named
from dpmmwrap.families.learned import hyperprior as module
from dpmmwrap.families.learned.base import Moments
from dpmmwrap.families.learned.defaults import DataScale
from dpmmwrap.families.learned.hyperprior import NARROW, STRENGTHS, Hyperparameters, Hyperprior, truncated_gamma
from exactness.enumeration import Learning, log_marginal_of_feature, nodes_of

KINDS = ("full", "diag", "spherical")
FREE, KAPPA_FIXED, WIDTH_FIXED, STRENGTH_FIXED = {}, {"kappa": 0.3}, {"width": 0.2}, {"strength": 8.0}


def hyperprior_for(kind: str, X: np.ndarray, **options: Any) -> Hyperprior:
    family: Any = prior_named(kind)
    return Hyperprior(family, X.mean(axis=0), family.pooled(X.var(axis=0)), **options)


def clusters_of(kind: str, dim: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Points of five clusters with unequal variances, and their labels."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 5, 60)
    deviations = rng.uniform(0.5, 1.5, (5, 1 if kind == "spherical" else dim)) * np.linspace(1.0, 3.0, dim)
    return 2.0 + (4 * rng.normal(size=(5, dim)) * deviations)[y] + deviations[y] * rng.normal(size=(60, dim)), y


def begun(hyperprior: Hyperprior, kappa: float = 0.1, width: float = 0.5, strength: float = STRENGTHS[5]) -> Any:
    """A prior to begin with."""
    return hyperprior.make(
        Hyperparameters(
            hyperprior.mean,
            hyperprior.kappa or kappa,
            hyperprior.variances * (hyperprior.width or width),
            hyperprior.strength or strength,
        )
    )


class TestDensity:
    @pytest.mark.parametrize("kind", KINDS)
    def test_as_scipy_has_it(self, kind: str) -> None:
        X, _ = clusters_of(kind)
        hyperprior = hyperprior_for(kind, X)
        location, kappa, widths = X[0], 0.07, hyperprior.variances * np.linspace(0.1, 3.0, len(hyperprior.variances))
        prior = hyperprior.make(Hyperparameters(location, kappa, widths, STRENGTHS[4]))
        deviations = np.sqrt(np.broadcast_to(hyperprior.variances, 3))
        expected = stats.norm(X.mean(axis=0), deviations).logpdf(location).sum()
        # By logarithms: the density times the value.
        expected += stats.chi2(1).logpdf(kappa) + np.log(kappa)
        shares = widths / hyperprior.variances
        expected += (stats.chi2(1).logpdf(shares) + np.log(shares)).sum() - np.log(len(STRENGTHS))
        assert hyperprior.log_density(prior) == pytest.approx(expected, rel=1e-10)

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_fixed_has_none(self, kind: str) -> None:
        X, _ = clusters_of(kind)
        hyperprior = hyperprior_for(kind, X, kappa=0.3, width=0.2, strength=8.0)
        variances = np.broadcast_to(hyperprior.variances, 3)
        expected = stats.norm(X.mean(axis=0), np.sqrt(variances)).logpdf(X[0]).sum()
        prior = begun(hyperprior)
        found = hyperprior.log_density(hyperprior.make(hyperprior.values(prior)._replace(location=X[0])))
        assert found == pytest.approx(expected, rel=1e-10)

    @pytest.mark.parametrize("kind", KINDS)
    def test_it_is_one_in_all(self, kind: str) -> None:
        """Over location, log kappa and log width, of one feature, at one strength."""
        hyperprior = hyperprior_for(kind, np.array([[1.0], [4.0]]), strength=8.0)
        x, z = np.linspace(-8, 8, 81), np.linspace(-30, 6, 361)
        total = 0.0
        for direction in range(3):
            nodes = x if direction == 0 else z
            logs = []
            for node in nodes:
                location = hyperprior.mean + (node * np.sqrt(hyperprior.variances) if direction == 0 else 0.0)
                kappa, share = (np.exp(node) if direction == place else 1.0 for place in (1, 2))
                values = Hyperparameters(location, kappa, share * hyperprior.variances, 8.0)
                logs.append(hyperprior.log_density(hyperprior.make(values)))
            unit = np.sqrt(hyperprior.variances[0]) if direction == 0 else 1.0
            total += logsumexp(logs) + np.log(unit * (nodes[1] - nodes[0]))
        centre = hyperprior.log_density(
            hyperprior.make(Hyperparameters(hyperprior.mean, 1.0, hyperprior.variances, 8.0))
        )
        # The density is a product, so its integral is that of its three cuts.
        assert total - 2 * centre == pytest.approx(0.0, abs=1e-5)

    @pytest.mark.parametrize("kind", KINDS)
    def test_values_are_those_that_it_was_made_of(self, kind: str) -> None:
        X, _ = clusters_of(kind)
        hyperprior = hyperprior_for(kind, X)
        widths = np.linspace(0.3, 2.0, len(hyperprior.variances))
        given = Hyperparameters(X[0], 0.07, widths, STRENGTHS[4])
        found = hyperprior.values(hyperprior.make(given))
        for mine, theirs in zip(found, given, strict=True):
            np.testing.assert_allclose(mine, theirs)
        share = np.exp(np.log(widths / hyperprior.variances).mean())
        assert hyperprior.summary(hyperprior.make(given)) == pytest.approx((0.07, share, STRENGTHS[4]))


class TestFloors:
    @pytest.mark.parametrize("kind", KINDS)
    def test_so_many_clusters_are_narrower_than_cells(self, kind: str) -> None:
        """A diagonal entry of an inverse Wishart matrix of D features is inverse Gamma with nu - D + 1 degrees of
        freedom."""
        X, _ = clusters_of(kind)
        cells = prior_named(kind).pooled(np.array([0.3, 0.5, 2.0]))
        hyperprior = hyperprior_for(kind, X, cells=cells)
        for strength, floors in zip(STRENGTHS, hyperprior.floors, strict=True):
            prior = hyperprior.make(Hyperparameters(hyperprior.mean, 1.0, floors, strength))
            scales = np.diagonal(prior.scale) if kind == "full" else prior.scale
            freedom = float(prior.degrees_of_freedom) - (2 if kind == "full" else 0)
            narrower = stats.invgamma(freedom / 2, scale=scales / 2).cdf(cells)
            np.testing.assert_allclose(narrower, NARROW, rtol=1e-6)

    def test_features_that_depend_on_each_other_have_widths(self) -> None:
        """Narrower clusters are ever more probable, but a covariance can still be inverted."""
        X, y = clusters_of("full")
        X[:, 1], X[:, 2] = X[:, 0], 2 * X[:, 0]
        hyperprior = hyperprior_for("full", X)
        prior = begun(hyperprior)
        found = hyperprior.climb(prior, prior.statistics(X, y))
        assert np.isfinite(log_joint(hyperprior, found, prior.statistics(X, y)))

    def test_so_many_inverse_wishart_draws_are(self) -> None:
        X, _ = clusters_of("full")
        cells = np.array([0.3, 0.5, 2.0])
        hyperprior = hyperprior_for("full", X, cells=cells)
        widths = hyperprior.floors[2]
        prior = hyperprior.make(Hyperparameters(hyperprior.mean, 1.0, widths, STRENGTHS[2]))
        drawn = stats.invwishart(float(prior.degrees_of_freedom), prior.scale).rvs(20_000, random_state=0)
        narrower = (np.diagonal(drawn, axis1=1, axis2=2) < cells).mean(axis=0)
        np.testing.assert_allclose(narrower, NARROW, atol=5 * np.sqrt(NARROW / 20_000))

    def test_there_are_none_without_cells_or_with_a_given_width(self) -> None:
        X, _ = clusters_of("diag")
        cells = np.array([0.3, 0.5, 2.0])
        assert not hyperprior_for("diag", X, cells=cells, width=0.1).floors.any()
        for free in (hyperprior_for("diag", X), hyperprior_for("diag", X, cells=cells).unrestricted()):
            np.testing.assert_allclose(free.floors / X.var(axis=0), module.LEAST_WIDTH)
        assert hyperprior_for("diag", X, cells=cells).floors.all()


class TestMoments:
    """Sums over clusters of what their posteriors draw, and its expectations."""

    @staticmethod
    def batch(kind: str) -> tuple[Any, np.ndarray]:
        X, y = clusters_of(kind)
        prior = begun(hyperprior_for(kind, X))
        if kind == "diag":
            X = X.copy()
            X[::7, 1] = np.nan
        return prior.posterior(prior.statistics(X, y)), np.array([1.0, -0.5, 3.0])

    @pytest.mark.parametrize("kind", KINDS)
    def test_expected_as_drawn(self, kind: str) -> None:
        batch, origin = self.batch(kind)
        rng = np.random.default_rng(0)
        drawn = [flat(batch.drawn_moments(origin, rng)) for _ in range(6000)]
        expected, errors = flat(batch.expected_moments(origin)), np.std(drawn, axis=0) / np.sqrt(6000)
        z = np.abs(np.mean(drawn, axis=0) - expected) / np.maximum(errors, 1e-12)
        assert z.max() < 4.5
        # A hundredth more would not go unnoticed.
        assert (np.abs(np.mean(drawn, axis=0) - 1.01 * expected) / np.maximum(errors, 1e-12)).max() > 4.5

    def test_expected_of_full_covariances_as_scipy_has_them(self) -> None:
        batch, origin = self.batch("full")
        precision, pull, square, logs = np.zeros((3, 3)), np.zeros(3), 0.0, 0.0
        for mean, kappa, scale, freedom in zip(*batch.batch[:4], strict=True):
            # The inverse of an inverse Wishart matrix is a Wishart matrix.
            own = stats.wishart(freedom, np.linalg.inv(scale))
            precision += own.mean()
            pull += own.mean() @ (mean - origin)
            square += (mean - origin) @ own.mean() @ (mean - origin) + 3 / kappa
            # E log |Sigma| is the derivative of the log normaliser by half the degrees of freedom.
            step = 1e-5
            before, after = (log_normaliser(freedom + change, scale) for change in (-step, step))
            logs += (after - before) / step
        found = batch.expected_moments(origin)
        np.testing.assert_allclose(found.precision, precision, rtol=1e-10)
        np.testing.assert_allclose(found.pull, pull, rtol=1e-10)
        assert found.clusters == 5 and found.square == pytest.approx(square, rel=1e-10)
        assert found.log_variance == pytest.approx(logs, rel=1e-6)

    @pytest.mark.parametrize("kind", ["diag", "spherical"])
    def test_expected_of_variances_as_scipy_has_them(self, kind: str) -> None:
        batch, origin = self.batch(kind)
        means, kappas, scales, freedoms = (np.broadcast_to(values, (5, 3)) for values in batch.batch)
        precisions = stats.gamma(freedoms / 2, scale=2 / scales).mean()
        logs = [
            stats.invgamma(freedom / 2, scale=scale / 2).expect(np.log)
            for freedom, scale in zip(freedoms.ravel(), scales.ravel(), strict=True)
        ]
        found = batch.expected_moments(origin)
        np.testing.assert_allclose(found.precision, precisions.sum(axis=0), rtol=1e-10)
        np.testing.assert_allclose(found.pull, (precisions * (means - origin)).sum(axis=0), rtol=1e-10)
        assert found.square == pytest.approx((precisions * (means - origin) ** 2 + 1 / kappas).sum(), rel=1e-10)
        assert found.log_variance == pytest.approx(np.sum(logs), rel=1e-6)


def flat(moments: Moments) -> np.ndarray:
    return np.concatenate([np.ravel(value) for value in moments[1:]])


def log_normaliser(freedom: float, scale: np.ndarray) -> float:
    """Of an inverse Wishart distribution's density, by scipy: at the identity only its scale's trace is beside it."""
    return float(stats.invwishart(freedom, scale).logpdf(np.eye(3)) + 0.5 * np.trace(scale))


class TestClimb:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("restricted", [False, True])
    def test_every_step_is_a_step_up(self, kind: str, restricted: bool) -> None:
        X, y = clusters_of(kind)
        hyperprior = hyperprior_for(kind, X, cells=cells_of(kind) if restricted else None)
        prior = begun(hyperprior, width=3.0, kappa=2.0)
        statistics = prior.statistics(X, y)
        heights = [log_joint(hyperprior, prior, statistics)]
        for _ in range(25):
            prior = hyperprior.climb(prior, statistics, steps=1)
            heights.append(log_joint(hyperprior, prior, statistics))
            number = np.flatnonzero(hyperprior.strengths == hyperprior.values(prior).strength)[0]
            assert (hyperprior.values(prior).widths >= hyperprior.floors[number] * (1 - 1e-9)).all()
        assert np.diff(heights).min() > -1e-9 and heights[-1] > heights[0] + 5

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("fixed", [FREE, KAPPA_FIXED, WIDTH_FIXED, STRENGTH_FIXED])
    def test_the_end_is_a_peak(self, kind: str, fixed: dict[str, float]) -> None:
        X, y = clusters_of(kind)
        hyperprior = hyperprior_for(kind, X, **fixed)
        prior = begun(hyperprior)
        statistics = prior.statistics(X, y)
        found = hyperprior.values(hyperprior.climb(prior, statistics, 500))
        reached = log_joint(hyperprior, hyperprior.make(found), statistics)
        place = int(np.flatnonzero(np.isclose(hyperprior.strengths, found.strength))[0])
        for strength in hyperprior.strengths[max(place - 1, 0) : place + 2]:
            best = peak(hyperprior, found._replace(strength=float(strength)), statistics)
            # On a grid of strengths expectation maximisation may stand still beside the peak.
            assert best < reached + (0.02 if strength == found.strength else 1.0)
        if "kappa" in fixed:
            assert found.kappa == fixed["kappa"]
        if "width" in fixed:
            np.testing.assert_allclose(found.widths, fixed["width"] * hyperprior.variances)
        if "strength" in fixed:
            assert found.strength == pytest.approx(fixed["strength"])

    def test_a_restricted_end_is_a_peak_within_the_restriction(self) -> None:
        """Wide cells: the end is at the floor of some width, where all that is narrower would be more probable."""
        X, y = clusters_of("diag")
        hyperprior = hyperprior_for("diag", X, cells=np.array([6.0, 0.5, 0.5]), strength=8.0)
        prior = hyperprior.make(hyperprior.values(begun(hyperprior))._replace(widths=hyperprior.floors[0] * 3))
        statistics = prior.statistics(X, y)
        found = hyperprior.values(hyperprior.climb(prior, statistics, 500))
        assert found.widths[0] == pytest.approx(hyperprior.floors[0, 0]) and found.widths[1] > hyperprior.floors[0, 1]
        reached = log_joint(hyperprior, hyperprior.make(found), statistics)
        assert peak(hyperprior, found, statistics, hyperprior.floors[0]) < reached + 0.02
        assert peak(hyperprior, found, statistics) > reached + 0.1

    def test_of_many_steps_it_takes_as_many_as_it_needs(self) -> None:
        X, y = clusters_of("full")
        hyperprior = hyperprior_for("full", X)
        prior = begun(hyperprior)
        with patch.object(Hyperprior, "make", autospec=True, side_effect=Hyperprior.make) as made:
            end = hyperprior.climb(prior, prior.statistics(X, y), 500)
            assert made.call_count < 100
            hyperprior.climb(end, prior.statistics(X, y), 500)
        assert hyperprior.climb(prior, prior.statistics(X, y), 0) is prior


def cells_of(kind: str) -> np.ndarray:
    return np.asarray(prior_named(kind).pooled(np.array([0.5, 1.0, 2.0])))


def log_joint(hyperprior: Hyperprior, prior: Any, statistics: Any) -> float:
    """Of a prior and the points, up to a constant."""
    return float(prior.log_marginal_likelihood(statistics).sum()) + hyperprior.log_density(prior)


def peak(hyperprior: Hyperprior, begin: Hyperparameters, statistics: Any, floors: np.ndarray | float = 1e-9) -> float:
    """The highest log joint probability that a numerical search finds at a strength; what is fixed stays."""
    dim, count = hyperprior.dim, len(hyperprior.variances)
    units = np.sqrt(np.broadcast_to(hyperprior.variances, dim))

    def height(x: np.ndarray) -> float:
        location = hyperprior.mean + units * x[:dim]
        kappa = begin.kappa if hyperprior.kappa else float(np.exp(x[dim]))
        widths = begin.widths if hyperprior.width else np.exp(x[dim + 1 :])
        prior = hyperprior.make(Hyperparameters(location, kappa, widths, begin.strength))
        return -log_joint(hyperprior, prior, statistics)

    first = np.concatenate([(begin.location - hyperprior.mean) / units, [np.log(begin.kappa)], np.log(begin.widths)])
    bounds = [(-9, 9)] * dim + [(-15, 9)] + [(low, 15.0) for low in np.log(np.broadcast_to(floors, count))]
    return -float(optimize.minimize(height, first, method="L-BFGS-B", bounds=bounds).fun)


# Draws, against numerical integration for one feature.

THREE = STRENGTHS[[0, 4, 10]]


class Learned(NamedTuple):
    """Of the posterior of hyperparameters."""

    location: float
    log_kappa: float
    log_width: float
    """Means."""
    spread: np.ndarray
    """Deviations of these three."""
    strengths: np.ndarray
    """Probabilities."""


class Few(NamedTuple):
    """Points of one feature in four clusters; of the largest one the data's mean is nearer than the location is."""

    X: np.ndarray
    y: np.ndarray


def few() -> Few:
    values = [[-0.6, -0.3, -0.2, 0.0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.7], [5.0, 5.3], [4.2, 4.8, 4.4], [6.0, 5.7]]
    return Few(np.concatenate(values)[:, None], np.repeat(np.arange(4), [len(own) for own in values]))


def one_feature(kind: str, cells: float | None) -> Hyperprior:
    return hyperprior_for(kind, few().X, cells=None if cells is None else np.array([cells]))


def integrated(hyperprior: Hyperprior) -> Learned:
    """By the closed form of the marginal likelihood of one feature, and nodes in location, kappa and width."""
    X, y = few()
    mean, variance = float(hyperprior.mean[0]), float(hyperprior.variances[0])
    cells = None if hyperprior.cells is None else float(hyperprior.cells[0])
    learning = Learning(mean, variance, THREE, cells, NARROW)
    nodes, logs = [], []
    for strength in THREE:
        own, own_logs = nodes_of(learning, float(strength), fineness=2)
        scale = strength * variance * np.exp(own.log_width)
        for k in range(4):
            own_logs += log_marginal_of_feature(X[y == k, 0], own.location, np.exp(own.log_kappa), scale, strength)
        nodes.append(np.stack([own.location, own.log_kappa, own.log_width + np.log(variance)]))
        logs.append(own_logs)
    shares = np.exp(np.array(logs) - logsumexp(logs))
    values = np.concatenate(nodes, axis=1)
    means = values @ shares.ravel()
    return Learned(*means, np.sqrt((values - means[:, None]) ** 2 @ shares.ravel()), shares.sum(axis=1))


def drawn(hyperprior: Hyperprior, count: int = 5000) -> Learned:
    """By a chain of draws, each given the last; the points stay where they are."""
    X, y = few()
    prior = begun(hyperprior, width=2.0, strength=THREE[1])
    statistics = prior.statistics(X, y)
    rng = np.random.default_rng(1)
    values = np.empty((count, 4))
    for number in range(-50, count):
        prior = hyperprior.draw(prior, statistics, rng)
        if number >= 0:
            location, kappa, widths, strength = hyperprior.values(prior)
            values[number] = location[0], np.log(kappa), np.log(widths[0]), strength
    shares = np.isclose(values[:, 3:], THREE).mean(axis=0)
    return Learned(*values[:, :3].mean(axis=0), values[:, :3].std(axis=0), shares)


class Apart(NamedTuple):
    """How far draws are from integration: of means in deviations, and the total variation distance of the strength."""

    location: float
    kappa: float
    width: float
    strength: float


def apart(kind: str = "diag", cells: float | None = None, draws: int = 5000) -> Apart:
    with patch.object(module, "STRENGTHS", THREE):
        hyperprior = one_feature(kind, cells)
        one, other = drawn(hyperprior, draws), integrated(hyperprior)
    gaps = np.abs(np.array(one[:3]) - np.array(other[:3])) / other.spread
    return Apart(*gaps, 0.5 * float(np.abs(one.strengths - other.strengths).sum()))


class TestDraws:
    CELLS = 0.3
    CLOSE, FAR = 0.08, 0.2

    @pytest.mark.parametrize("kind", KINDS)
    def test_as_integration_has_them(self, kind: str) -> None:
        assert max(apart(kind)) < self.CLOSE

    # sampler/moves/test_hyperparameters.py compares restricted draws with integration, too, and so does a test below.
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    def test_as_integration_has_them_above_cells(self, kind: str) -> None:
        """With a restriction, strength and width change slowly together: more draws."""
        assert max(apart(kind, self.CELLS, 20_000)) < self.CLOSE

    def test_kappa_without_the_location_is_found_out(self) -> None:
        """The means' distances from the data's mean."""
        origins = []

        def location_terms(own: Hyperprior, moments: Moments, kappa: float, origin: np.ndarray) -> Any:
            origins.append(origin)
            return LOCATION_TERMS(own, moments, kappa, origin)

        def wrong(own: Hyperprior, moments: Moments, step: np.ndarray) -> Any:
            return KAPPA_TERMS(own, moments, own.mean - origins[-1])

        with patch.multiple(Hyperprior, _kappa_terms=wrong, _location_terms=location_terms):
            assert apart().kappa > self.FAR

    def test_a_location_without_its_own_prior_is_found_out(self) -> None:
        def wrong(own: Hyperprior, moments: Moments, kappa: float, origin: np.ndarray) -> Any:
            precision, pull = LOCATION_TERMS(own, moments, kappa, origin)
            return precision - 0.9 / own.variances, pull - 0.9 * (own.mean - origin) / own.variances

        with patch.object(Hyperprior, "_location_terms", wrong):
            assert apart().location > self.FAR

    def test_widths_of_twice_the_shape_are_found_out(self) -> None:
        def wrong(own: Hyperprior, moments: Moments) -> Any:
            shapes, rates = WIDTH_TERMS(own, moments)
            return 2 * shapes, rates

        with patch.object(Hyperprior, "_width_terms", wrong):
            assert apart().width > self.FAR

    def test_a_strength_without_its_normaliser_is_found_out(self) -> None:
        with patch.object(module, "gammaln", lambda values: 0.9 * gammaln(values)):
            assert apart().strength > self.FAR

    def test_a_truncation_that_is_ignored_is_found_out(self) -> None:
        """What is below the floor is put onto it."""

        def wrong(shape: Any, rates: Any, floors: Any, rng: Any) -> Any:
            return np.maximum(rng.gamma(shape, 1 / rates), floors)

        with patch.object(module, "truncated_gamma", wrong):
            assert apart(cells=self.CELLS).width > self.FAR

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("fixed", [KAPPA_FIXED, WIDTH_FIXED, STRENGTH_FIXED])
    def test_what_is_fixed_stays(self, kind: str, fixed: dict[str, float]) -> None:
        X, y = clusters_of(kind)
        hyperprior = hyperprior_for(kind, X, **fixed, cells=cells_of(kind))
        prior = begun(hyperprior)
        other = hyperprior.draw(prior, prior.statistics(X, y), np.random.default_rng(0))
        (name,) = fixed
        for field, before, after in zip(
            ("location", "kappa", "width", "strength"), hyperprior.values(prior), hyperprior.values(other), strict=True
        ):
            if field == name:
                np.testing.assert_allclose(before, after)
            elif field != "strength":
                assert not np.isclose(before, after).any(), field

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_three_features_as_the_climb_has_them(self, kind: str) -> None:
        """Of many clusters there is little doubt: draws are about the peak."""
        rng = np.random.default_rng(5)
        widths, y = np.array([0.5, 1.0, 4.0] if kind != "spherical" else [1.0, 1.0, 1.0]), np.repeat(np.arange(400), 6)
        variances = 8 * widths / rng.chisquare(8, (400, 1 if kind == "spherical" else 3))
        X = (np.sqrt(variances / 0.05) * rng.normal(size=(400, 3)))[y]
        X += np.sqrt(variances)[y] * rng.normal(size=X.shape)
        hyperprior = hyperprior_for(kind, X)
        prior = begun(hyperprior)
        statistics = prior.statistics(X, y)
        top = hyperprior.values(hyperprior.climb(prior, statistics, 500))
        found = []
        prior = hyperprior.make(top)
        for _ in range(200):
            prior = hyperprior.draw(prior, statistics, rng)
            found.append([np.log(hyperprior.values(prior).kappa), *np.log(hyperprior.values(prior).widths)])
        np.testing.assert_allclose(np.mean(found, axis=0), np.log([top.kappa, *top.widths]), atol=0.08)
        assert top.kappa == pytest.approx(0.05, rel=0.2)


KAPPA_TERMS, LOCATION_TERMS, WIDTH_TERMS = (
    Hyperprior._kappa_terms, Hyperprior._location_terms, Hyperprior._width_terms,
)  # fmt: skip


class TestTruncatedGamma:
    @pytest.mark.parametrize("shape", [1.0, 3.5, 80.0, 3000.0])
    @pytest.mark.parametrize("tail", [1.0, 0.5, 1e-3, 1e-60, 1e-99])
    def test_near_the_bulk_and_far_out(self, shape: float, tail: float) -> None:
        floor = float(stats.gamma(shape).isf(tail))
        self.compare(shape, floor)

    @pytest.mark.parametrize(("shape", "floor"), [(1.0, 300.0), (3.5, 1000.0), (80.0, 2000.0), (3000.0, 9000.0)])
    def test_where_the_tail_is_not_a_number_any_more(self, shape: float, floor: float) -> None:
        assert stats.gamma(shape).sf(floor) < module.FAR_OUT
        self.compare(shape, floor)

    def compare(self, shape: float, floor: float, count: int = 4000) -> None:
        rate = 2.5
        rng = np.random.default_rng(0)
        found = truncated_gamma(np.array([shape]), np.full(count, rate), np.full(count, floor / rate), rng)
        assert (found >= floor / rate).all()
        # The density above the floor by the logarithm of the scaled survival, numerically integrated.
        beyond = rate * found - floor
        assert stats.kstest(beyond, lambda x: above(x, shape, floor)).pvalue > 1e-4
        # Of another rate it would not be.
        assert stats.kstest(1.15 * beyond, lambda x: above(x, shape, floor)).pvalue < 1e-4

    def test_each_has_a_floor_of_its_own(self) -> None:
        floors, rates = np.array([0.0, 1.0, 1e4]), np.array([1.0, 20.0, 3.0])
        rng = np.random.default_rng(0)
        found = np.array([truncated_gamma(np.array([2.0]), rates, floors, rng) for _ in range(500)])
        assert (found >= floors).all() and np.isfinite(found).all()
        assert found[:, 0].mean() == pytest.approx(2.0, rel=0.15)
        assert (found[:, 2] - 1e4).mean() == pytest.approx(1 / 3, rel=0.15)


def above(x: np.ndarray, shape: float, floor: float) -> np.ndarray:
    """The distribution function of a Gamma variable's excess over a floor, by summation of its density."""
    scale = 1.0 / max(1.0 - (shape - 1) / floor, 0.02) if floor > 0 else 1.0
    nodes = np.linspace(0.0, max(40 * scale, 12 * np.sqrt(shape), float(np.max(x))), 200_001)
    with np.errstate(divide="ignore"):
        logs = (shape - 1) * (np.log1p(nodes / floor) if floor > 0 else np.log(nodes + 1e-300)) - nodes
    density = np.exp(logs - logs.max())
    sums = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(x, nodes, sums / sums[-1])


def test_one_cell_does_not_say_how_sure_the_first_prior_is() -> None:
    """A narrow group within a wide one is one cell; a prior that is sure of its width would never see it."""
    rng = np.random.default_rng(21)
    X = rng.standard_normal((1000, 20)) * np.where(rng.random(1000) < 0.4, 0.5, 1.0)[:, None]
    begin = DataScale(X).start("diag")
    found = begin.hyperprior.values(begin.prior)
    assert begin.n_cells == 1 and found.strength == STRENGTHS[0] and found.kappa <= 1
