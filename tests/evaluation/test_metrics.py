import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from dpmmwrap import DPMM, NIW
from dpmmwrap.datasets import generate
from dpmmwrap.evaluation.fits import iterations_until_settled, log_posterior
from dpmmwrap.numerics.agreement import ari_of_table, nmi_of_table


@pytest.mark.parametrize("clusters", [1, 2, 9])
def test_nmi_is_scikit_learns(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    truth = rng.integers(0, 5, 500)
    labels = np.where(rng.random(500) < 0.6, truth % clusters, rng.integers(0, clusters, 500))
    table = contingency_matrix(truth, labels)
    assert nmi_of_table(table) == pytest.approx(normalized_mutual_info_score(truth, labels), abs=1e-12)


def test_two_constant_labelings_agree() -> None:
    assert nmi_of_table(np.array([[7]])) == 1.0


def test_ari_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 400)
    for labels in (truth, truth // 2, rng.integers(0, 7, 400), np.where(rng.random(400) < 0.3, 0, truth)):
        table = np.zeros((5, 7), int)
        np.add.at(table, (truth, labels), 1)
        assert ari_of_table(table) == pytest.approx(adjusted_rand_score(truth, labels), abs=1e-12)


@pytest.mark.parametrize("table", [[[10]], [[1, 0], [0, 1]], [[1]]])
def test_ari_where_there_is_nothing_to_disagree_about(table: list[list[int]]) -> None:
    assert ari_of_table(np.array(table)) == 1.0


def test_log_posterior_is_the_samplers() -> None:
    data = generate(3, 4, 400, 20, 0)
    prior = NIW.from_data(data.X)
    model = DPMM(prior=prior, max_iter=15, init="kmeans", backend="native", alpha=3.0, random_state=0).fit(data.X)
    assert log_posterior(data.X, model.labels_, 3.0, prior) == pytest.approx(model.log_posterior_, rel=1e-6)
    # Whatever the clusters are called.
    renamed = 10 * model.labels_ + 5
    assert log_posterior(data.X, renamed, 3.0, prior) == pytest.approx(model.log_posterior_, rel=1e-6)
    assert log_posterior(data.X, data.y, 3.0, prior) > log_posterior(data.X, np.zeros(400, int), 3.0, prior)


@pytest.mark.parametrize(
    ("values", "settled"),
    [
        ([-100.0], 1),
        ([-100.0, -100.0], 1),
        ([-200.0, -150.0, -100.5, -100.0], 3),
        # Near the end once, and away again.
        ([-100.0, -150.0, -100.0], 3),
        ([-200.0, -100.0], 2),
        ([50.0, 99.5, 100.0], 2),
        # What the greedy steps at the end bring aside.
        ([-200.0, -150.0, *[-100.0] * 10, *[-80.0] * 5], 3),
    ],
)
def test_iterations_until_settled(values: list[float], settled: int) -> None:
    assert iterations_until_settled(np.array(values)) == settled
