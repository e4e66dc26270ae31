import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from dpmmwrap.evaluation.metrics import nmi_of_table


@pytest.mark.parametrize("clusters", [1, 2, 9])
def test_nmi_is_scikit_learns(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    truth = rng.integers(0, 5, 500)
    labels = np.where(rng.random(500) < 0.6, truth % clusters, rng.integers(0, clusters, 500))
    table = contingency_matrix(truth, labels)
    assert nmi_of_table(table) == pytest.approx(normalized_mutual_info_score(truth, labels), abs=1e-12)


def test_two_constant_labelings_agree() -> None:
    assert nmi_of_table(np.array([[7]])) == 1.0
