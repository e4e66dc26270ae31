"""Warnings stand at the caller's line; and what is printed of a result fits on a screen."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from dpmmwrap import DPMM
from dpmmwrap.evaluation.fits import iterations_until_settled

QUICK = {"init": "kmeans", "covariance_type": "full", "backend": "native", "random_state": 0}
X = np.concatenate([np.random.default_rng(0).normal(size=(60, 2)) + 9 * k for k in range(3)])


def test_warnings_point_at_the_callers_line() -> None:
    blob = X[:60]
    calls = (
        lambda model: model.fit(blob),
        lambda model: model.fit_predict(blob),
        lambda model: cross_val_score(model, blob, cv=2),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            call(DPMM(**QUICK, n_chains=1, max_iter=25, alpha=1e-9))
        assert heard and {warning.filename for warning in heard} == {__file__}


@pytest.fixture(scope="module")
def sampled() -> DPMM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DPMM(**QUICK, n_chains=2, max_iter=15, n_draws=10).fit(X)


def test_what_is_printed_of_draws_is_short(sampled: DPMM) -> None:
    assert repr(sampled.draws_).startswith("Draws(2 x 10: ")
    assert repr(sampled.draws_).endswith("with the labels of 180 points)")
    ball = repr(sampled.credible_ball())
    assert len(ball.splitlines()) == 4 and len(ball) < 600 and "% of the draws lie within" in ball


def test_new_points_are_of_the_draws(sampled: DPMM) -> None:
    """Their density is what `score_samples` gives: the mean of both over new points is the same."""
    points, labels = sampled.sample(4000)
    again, _ = sampled.set_params(random_state=1).sample(4000)
    assert sampled.score(points) == pytest.approx(sampled.score(again), abs=0.1)
    assert (sampled.predict(points) == labels).mean() > 0.97
    averaged = sampled.mixture_.averaged
    assert averaged is not None and len(averaged.starts) == 20
    # Only draws have components of their own.
    np.testing.assert_allclose(points.mean(axis=0), sampled.weights_ @ sampled.means_, atol=0.3)


def test_a_search_that_was_flat_is_not_said_to_rise() -> None:
    from dpmmwrap.describe.notes import doubts_about
    from dpmmwrap.sampler.settings import Result
    from dpmmwrap.sampler.trace import Iteration, Trace

    values = [*np.linspace(-900, -100, 64), *[-90.0] * 5]
    trace = Trace([Iteration(3, value, 0.1, 1, 1, 0, 0) for value in values])
    model = DPMM(**QUICK, n_chains=1, max_iter=15).fit(X)
    result = Result(model.labels_, model.sublabels_, trace)
    assert any("still rising" in doubt for doubt in doubts_about(model.mixture_, result, "max_iter"))
    assert not any("still rising" in doubt for doubt in doubts_about(model.mixture_, result, "flat"))
    assert iterations_until_settled(np.array(values)) < 65
