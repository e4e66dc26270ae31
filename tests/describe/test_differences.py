"""In what two clusterings differ."""

import numpy as np

from dpmmwrap import DPMM


def test_splits_of_both_and_what_sets_parts_apart() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal([9.0 * k, 0.0], size=(60, 2)) for k in range(4)])
    model = DPMM(n_chains=1, random_state=0, init="kmeans", covariance_type="full").fit(X)
    place = np.repeat(np.arange(4), 60)
    one, two = np.array([0, 0, 1, 2])[place], np.array([0, 1, 2, 2])[place]
    found = model.explain_difference(one, two, X, names=["length", "width"])
    assert [(split.divided_by, split.cluster, split.rows) for split in found.splits] == [
        ("second", 0, 120),
        ("first", 2, 120),
    ]
    assert [part.rows for part in found.splits[0].parts] == [60, 60]
    told = str(found)
    assert "cluster 0 of the first (120 rows) is divided by the second" in told
    assert "length" in found.splits[0].parts[0].description and "width" not in found.splits[0].parts[0].description
    assert str(model.explain_difference(one, one, X)) == "both have the same clusters, except for a few rows"
