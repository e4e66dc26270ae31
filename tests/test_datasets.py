"""Generated data sets: what was asked for, reproducibly, and from the distributions that are written down."""

import numpy as np
import pytest
from scipy import stats

from dpmmwrap.datasets import EXAMPLE, generate, read_example


def test_shapes_and_types() -> None:
    data = generate(dim=3, clusters=4, points=500, spread=20, seed=0)
    assert data.X.shape == (500, 3)
    assert data.X.dtype == np.float32
    assert data.y.shape == (500,)
    assert data.y.dtype == np.int32
    assert data.weights.shape == (4,)
    assert data.means.shape == (4, 3)
    assert data.covariances.shape == (4, 3, 3)
    assert data.weights.sum() == pytest.approx(1)
    assert (np.linalg.eigvalsh(data.covariances) > 0).all()
    assert list(data.arrays()) == ["X", "y", "weights", "means", "covariances"]


def test_one_dimension_and_one_cluster() -> None:
    data = generate(dim=1, clusters=1, points=5, spread=1, seed=0)
    assert data.X.shape == (5, 1)
    assert data.covariances.shape == (1, 1, 1)


def test_seeds() -> None:
    first, again, other = (generate(2, 5, 100, 50, seed) for seed in (1, 1, 2))
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, again.arrays()[name])
    assert not np.array_equal(first.X, other.X)


def test_points_follow_their_components() -> None:
    data = generate(dim=2, clusters=3, points=60_000, spread=50, seed=3)
    np.testing.assert_allclose(np.bincount(data.y) / 60_000, data.weights, atol=0.01)
    for k in range(3):
        factor = np.linalg.cholesky(data.covariances[k])
        white = np.linalg.solve(factor, (data.X[data.y == k] - data.means[k]).T)
        # Standard normal in both directions, and uncorrelated: the whole covariance is right.
        assert stats.kstest(white[0], "norm").pvalue > 1e-4
        assert stats.kstest(white[1], "norm").pvalue > 1e-4
        assert abs(np.corrcoef(white)[0, 1]) < 0.03


def test_labels_are_in_no_order() -> None:
    y = generate(dim=2, clusters=2, points=1000, spread=50, seed=0).y
    assert 300 < np.count_nonzero(np.diff(y)) < 700


def test_mixtures_follow_their_distributions() -> None:
    draws = generate(dim=2, clusters=4000, points=10, spread=30, seed=5)
    assert stats.kstest(draws.means.ravel(), stats.norm(scale=np.sqrt(30)).cdf).pvalue > 1e-4
    # A diagonal block of size one of IW(D+2, I) is IW(D+2-(D-1), 1) = inverse gamma(3/2, 1/2).
    assert stats.kstest(draws.covariances[:, 0, 0], stats.invgamma(1.5, scale=0.5).cdf).pvalue > 1e-4
    # A coordinate of Dir(5, …, 5) is Beta(5, 5·(K-1)).
    assert stats.kstest(draws.weights, stats.beta(5, 5 * 3999).cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    "wrong", [{"dim": 0}, {"clusters": 0}, {"points": 0}, {"spread": 0.0}, {"spread": float("nan")}]
)
def test_what_cannot_be_drawn(wrong: dict[str, float]) -> None:
    arguments = {"dim": 2, "clusters": 3, "points": 10, "spread": 1.0, "seed": 0} | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        generate(**arguments)  # type: ignore[arg-type]


def test_the_example_is_what_its_command_makes() -> None:
    data = read_example()
    made = generate(dim=2, clusters=20, points=10_000, spread=50, seed=0)
    assert data.y is not None
    assert len(np.unique(data.y)) == 20
    assert EXAMPLE.stat().st_size < 200_000
    np.testing.assert_allclose(data.X, made.X, rtol=1e-4, atol=1e-4)
