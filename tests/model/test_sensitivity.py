"""How many clusters there are with other priors."""

import numpy as np
import pytest

from dpmmwrap import DPMM, NIW, DataPrior
from dpmmwrap.model.short_chains import FACTORS, SETTINGS, AtSetting

QUICK = {"init": "kmeans", "max_iter": 40, "n_chains": 1, "backend": "native", "random_state": 0}


def clear(rows: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 2)) + 20 * np.eye(2)[np.arange(rows) % 2]


def test_clear_clusters_do_not_depend_on_it() -> None:
    # Two clusters may as well be of exactly one width, and a quarter of that is then far too narrow.
    model = DPMM(**QUICK, covariance_type="diag", prior=DataPrior(strength=10.0)).fit(clear())
    found = model.sensitivity()
    assert [one.factor for one in found] == len(SETTINGS) * [0.25, 0.5, 1, 2, 4] == len(SETTINGS) * list(FACTORS)
    assert all(isinstance(one, AtSetting) and one.n_clusters == 2 for one in found)
    assert found == model.sensitivity(), "nothing in it is left to chance"


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_a_prior_that_is_sure_of_itself_decides(covariance_type: str) -> None:
    X = np.random.default_rng(0).normal(size=(400, 2)) + np.repeat([[0, 0], [3, 0]], 200, axis=0)
    model = DPMM(**QUICK, covariance_type=covariance_type, prior=DataPrior(width=0.8, strength=1000.0)).fit(X)
    assert (model.prior_width_, model.prior_strength_) == pytest.approx((0.8, 1000.0))
    found = [one.n_clusters for one in model.sensitivity() if one.setting == "width"]
    assert found[0] > found[2] >= found[-1], found


def test_the_fitted_model_stays_as_it_is() -> None:
    model = DPMM(**QUICK).fit(clear())
    before = (model.labels_.copy(), model.prior_width_, model.covariance_type_)
    model.sensitivity()
    np.testing.assert_array_equal(model.labels_, before[0])
    assert (model.prior_width_, model.covariance_type_) == before[1:]


def test_outliers_and_columns_that_were_left_out() -> None:
    X = np.column_stack([clear(), np.ones(200)])
    X[0, :2] = 500.0
    model = DPMM(**QUICK, outlier_weight=0.02).fit(X)
    assert model.labels_[0] == -1
    assert [one.n_clusters for one in model.sensitivity()] == [2] * 15, "the outlier is no cluster"


def test_mixed_tables() -> None:
    X = clear()
    rows = np.column_stack([X.astype(object), np.array(["a", "b"])[np.arange(200) % 2]])
    model = DPMM(**QUICK, family="mixed").fit(rows)
    assert [one.n_clusters for one in model.sensitivity()] == [2] * 15


def test_other_priors_are_not_asked_about() -> None:
    own = DPMM(**QUICK, prior=NIW(np.zeros(2), 0.1, np.eye(2), 5.0)).fit(clear())
    assert own.prior_width_ is None and own.prior_strength_ is None
    with pytest.raises(ValueError, match="sensitivity needs the default prior of numeric columns"):
        own.sensitivity()
    counts = np.random.default_rng(0).multinomial(20, np.ones(5) / 5, size=50)
    with pytest.raises(ValueError, match="this model has another"):
        DPMM(**(QUICK | {"max_iter": 5}), family="multinomial").fit(counts).sensitivity()


def test_the_learned_prior_of_draws_is_their_median() -> None:
    model = DPMM(**(QUICK | {"max_iter": 15}), covariance_type="diag", n_draws=9, thin=1, alpha=1.0).fit(clear())
    assert model.prior_width_ == np.median(model.draws_.prior_width)
    assert model.prior_strength_ == np.median(model.draws_.prior_strength)
