"""Numeric and categorical columns together: both are tested alone elsewhere; here, that they add up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.metrics import homogeneity_score

from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.tables import Columns, TablePoints
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior.mixture_file import load

NUMERIC = NIG(np.array([0.5, -1.0]), 0.7, np.array([1.0, 3.0]), 3.5)
CATEGORICAL = CategoricalDirichlet(np.array([3]), np.array([0.5, 1.0, 2.0]))
PRIOR = Mixed(NUMERIC, CATEGORICAL)


def some_points(rows: int, missing: float = 0.0, seed: int = 0) -> TablePoints:
    rng = np.random.default_rng(seed)
    numeric, codes = rng.normal(size=(rows, 2)).astype(np.float32), rng.integers(0, 3, (rows, 1)).astype(np.int32)
    numeric[rng.random(numeric.shape) < missing] = np.nan
    codes[rng.random(codes.shape) < missing] = -1
    return TablePoints(numeric, codes)


def sequential_log_marginal(X: TablePoints) -> float:
    """One observed value after the other, by scipy's Student t and the share of its level."""
    total = 0.0
    for j, column in enumerate(X.numeric.T.astype(float)):
        mean, strength, scale, freedom = NUMERIC.mean[j], 0.7, NUMERIC.scale[j], 3.5
        for x in column[~np.isnan(column)]:
            total += stats.t(freedom, mean, np.sqrt(scale * (strength + 1) / (strength * freedom))).logpdf(x)
            scale += strength / (strength + 1) * (x - mean) ** 2
            mean, strength, freedom = (strength * mean + x) / (strength + 1), strength + 1, freedom + 1
    concentration = CATEGORICAL.concentration.copy()
    for code in X.codes[X.codes >= 0]:
        total += np.log(concentration[code] / concentration.sum())
        concentration[code] += 1
    return float(total)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_log_marginal_is_the_product_of_scipys_predictives(missing: float) -> None:
    X = some_points(14, missing)
    statistics = PRIOR.statistics(X, np.repeat([0, 1], [5, 9]))
    expected = [sequential_log_marginal(X[:5]), sequential_log_marginal(X[5:])]
    assert PRIOR.log_marginal_likelihood(statistics) == pytest.approx(expected)


def test_a_missing_value_is_as_if_it_were_left_out() -> None:
    """In the predictive, too: of a row without any value nothing is known, and its log density is 0."""
    posterior = PRIOR.posterior(PRIOR.statistics(some_points(20)))
    whole = TablePoints(np.array([[0.3, 1.2]] * 4), np.array([[1]] * 4))
    gappy = TablePoints(
        np.array([[0.3, 1.2], [np.nan, 1.2], [0.3, np.nan], [np.nan, np.nan]]), np.array([[-1], [1], [-1], [-1]])
    )
    numeric = posterior.numeric.log_predictive(whole.numeric)[0, 0]
    level = posterior.categorical.log_predictive(whole.codes)[0, 0]
    assert posterior.log_predictive(whole)[0, 0] == pytest.approx(numeric + level)
    second = NIG(NUMERIC.mean[1:], 0.7, NUMERIC.scale[1:], 3.5)
    second = second.posterior(second.statistics(some_points(20).numeric[:, 1:]))
    alone = second.log_predictive(np.array([[1.2]]))[0, 0]
    np.testing.assert_allclose(posterior.log_predictive(gappy)[0], [numeric, alone + level, numeric - alone, 0.0])


def test_two_levels_are_as_far_apart_as_two_random_numbers() -> None:
    X = some_points(3000, 0.1)
    embedded = PRIOR.embedder(X)(X)
    assert embedded.shape == (3000, 5) and np.isfinite(embedded).all()
    np.testing.assert_allclose(embedded[:, :2].var(axis=0), 0.9, atol=0.06)  # a tenth is missing, and lies at the mean
    levels = embedded[:, 2:]
    np.testing.assert_array_equal(levels.sum(axis=1), X.codes[:, 0] >= 0)
    one, other = (levels[X.codes[:, 0] == code][0] for code in (0, 1))
    assert ((one - other) ** 2).sum() == 2


def table(rows: int) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    return pandas.DataFrame(
        {"size": rng.normal(size=rows), "kind": rng.choice(["a", "b", "c"], rows), "age": rng.normal(size=rows)}
    )


def mixture_of(frame: pandas.DataFrame) -> Mixture:
    columns = Columns.learn({name: frame[name].to_numpy() for name in frame}, None)
    points = columns.points(frame)
    prior = Mixed(
        NIG(np.zeros(len(columns.numeric)), 0.1, np.ones(len(columns.numeric)), 3.0),
        CategoricalDirichlet.from_levels(columns.levels),
    )
    return Mixture.from_labels(points, np.arange(len(frame)) % 2, prior, columns=columns)


def test_a_mixture_of_a_table_is_saved_with_its_columns(tmp_path: Path) -> None:
    frame = table(40)
    mixture = mixture_of(frame)
    mixture.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.family == "mixed" and loaded.dim == 3 and loaded.columns is not None
    assert loaded.columns.names == ("size", "kind", "age")
    np.testing.assert_array_equal(loaded.score_samples(frame), mixture.score_samples(frame))
    # Columns go by their names, and words by their levels.
    np.testing.assert_array_equal(loaded.predict(frame[["kind", "age", "size"]]), mixture.predict(frame))


def test_a_level_that_was_never_seen_counts_as_missing(tmp_path: Path) -> None:
    mixture, frame = mixture_of(table(40)), table(5)
    mixture.save(tmp_path / "model.npz")
    strange, gappy = frame.assign(kind="d"), frame.assign(kind=None)
    for model in (mixture, load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(model.score_samples(strange), model.score_samples(gappy))
        assert (model.score_samples(strange) > model.score_samples(frame)).all()


@pytest.mark.parametrize("kept", [["kind"], ["size", "age"]], ids=["only categorical", "only numeric"])
def test_a_table_may_have_columns_of_one_sort_only(kept: list[str], tmp_path: Path) -> None:
    from dpmmwrap import DPMM

    frame = pandas.concat([table(60), table(60) + {"size": 9, "kind": "d", "age": 9}])[kept]
    model = DPMM(family="mixed", backend="native", max_iter=30, random_state=0).fit(frame)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").score_samples(frame), model.score_samples(frame))
    drawn, _ = model.sample(7)
    assert drawn.shape == (7, len(kept))
    if kept != ["kind"]:
        assert homogeneity_score(np.repeat([0, 1], 60), model.labels_) == pytest.approx(1)


def test_new_rows_are_rows_of_the_table() -> None:
    frame = table(400)
    drawn, labels = mixture_of(frame).sample(3000, np.random.default_rng(1))
    assert drawn.shape == (3000, 3) and set(labels) == {0, 1}
    shares = np.array([(frame["kind"] == word).mean() for word in "abc"])
    seen = [(drawn[:, 1] == word).sum() for word in "abc"]
    assert sum(seen) == 3000 and stats.chisquare(seen, 3000 * shares / shares.sum()).pvalue > 1e-4
    assert drawn[:, 0].astype(float).mean() == pytest.approx(frame["size"].mean(), abs=0.1)


def test_numbers_far_from_the_origin_keep_their_digits() -> None:
    from dpmmwrap import DPMM

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    time = 1_700_000_000 + 60 * y + rng.normal(size=300)
    model = DPMM(family="mixed", backend="native", max_iter=30, random_state=0).fit({"time": time, "b": y.astype(str)})
    assert homogeneity_score(y, model.labels_) == pytest.approx(1)
    assert homogeneity_score(y, model.predict({"time": time, "b": np.full(300, "")})) == pytest.approx(1)
