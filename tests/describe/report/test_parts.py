"""The parts of a report: which rows are drawn and where, how sure rows are, lines along iterations, words."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import smallfits
from dpmmwrap import DPMM
from dpmmwrap.describe import wording
from dpmmwrap.describe.profiles import Feature, Trait
from dpmmwrap.describe.report import Subject, certainty, known, maps, words
from dpmmwrap.describe.report.charts import chart_of, ticks
from dpmmwrap.describe.report.maps import STEPS, data_columns
from dpmmwrap.model.preparation import Preparation


def points_of(fit: Any) -> Any:
    return fit.model.mixture_._points(fit.model._rows(fit.X))


# Maps


def test_all_rows_are_drawn_where_they_are_few() -> None:
    assert maps.drawn_rows(np.zeros(100, int), np.array([5]), 2).tolist() == list(range(100))


def test_a_sample_has_what_is_wanted_and_some_of_each_cluster() -> None:
    labels = np.zeros(100_000, int)
    labels[17], labels[50:53], labels[60_000:60_100] = -1, 1, 2
    rows = maps.drawn_rows(labels, np.array([99_999, 123]), 3)
    assert len(rows) == maps.SHOWN == len(set(rows.tolist()))
    assert (np.diff(rows) > 0).all()
    assert {17, 50, 51, 52, 123, 99_999} <= set(rows.tolist())
    assert (labels[rows] == 2).sum() >= maps.OF_EACH
    np.testing.assert_array_equal(rows, maps.drawn_rows(labels, np.array([99_999, 123]), 3))


def test_of_wide_rows_and_of_many_clusters_fewer_are_drawn() -> None:
    assert len(maps.drawn_rows(np.zeros(10_000, int), np.array([], int), 20_000)) == 1000
    assert len(maps.drawn_rows(np.arange(30_000), np.array([], int), 2)) == maps.SHOWN


def test_two_features_are_shown_as_they_are(plane: Any) -> None:
    [view] = maps.maps_of(plane.model, points_of(plane), np.arange(200), ["width", "height"])
    assert view.across.startswith("width, from −") and view.up.startswith("height, from −")
    x, y = plane.X.T
    assert np.corrcoef(view.positions[:, 0], x)[0, 1] == pytest.approx(1, abs=1e-4)
    assert np.corrcoef(view.positions[:, 1], y)[0, 1] == pytest.approx(-1, abs=1e-4), "up is up"
    assert view.positions.min() >= 0 and (view.positions.max(axis=0) <= (maps.WIDTH, maps.HEIGHT)).all()
    assert [number for number, _, _ in view.centres] == list(range(plane.model.n_clusters_))


def test_units_do_not_matter(flowers: Any) -> None:
    model, points = flowers.model, points_of(flowers)
    rows = np.arange(90)
    plain, apart = maps.maps_of(model, points, rows, list("abcd"))[:2]
    scaled = maps.maps_of(model, points * [1, 1e6, 1, 1e-3], rows, list("abcd"))[0]
    assert np.abs(plain.positions - scaled.positions).max() <= 1
    assert "principal component 1" in plain.across and "standardised" in plain.across
    assert "first discriminant" in apart.across
    # The directions that part the clusters do so better than the components.
    assert spread_of(apart, model.labels_) > spread_of(plain, model.labels_)


def spread_of(view: maps.Map, labels: np.ndarray) -> float:
    """Variance between clusters, by that within."""
    places = view.positions.astype(float)
    means = np.array([places[labels == k].mean(axis=0) for k in labels])
    return float(((means - places.mean(axis=0)) ** 2).sum() / ((places - means) ** 2).sum())


def test_families_that_are_no_points(texts: Any, people: Any, line: Any) -> None:
    for fit, told in ((texts, "square roots of the proportions"), (people, "standardised columns and categories")):
        points = points_of(fit)
        views = maps.maps_of(fit.model, points, np.arange(points.shape[0]), ["x"] * points.shape[1])
        assert told in views[0].across
    [view] = maps.maps_of(line.model, points_of(line), np.arange(40), ["x"])
    assert view.across.startswith("x, from") and "random" in view.up


def test_one_sparse_column_and_a_single_row() -> None:
    counts = scipy.sparse.csr_matrix(np.arange(12)[:, None] + 1)
    model = DPMM(family="multinomial", n_chains=1, max_iter=5, random_state=0).fit(counts)
    [view] = maps.maps_of(model, counts, np.arange(12), ["x"])
    assert view.positions.shape == (12, 2)
    rows = np.random.default_rng(0).normal(size=(20, 3))
    stream = DPMM(n_chains=1, covariance_type="full", random_state=0).partial_fit(rows).partial_fit(rows[:1] + 0.1)
    [view] = maps.maps_of(stream, rows[:1], np.arange(1), ["x", "y", "z"])
    assert view.positions.shape == (1, 2)


def test_umap_where_it_is_installed(flowers: Any) -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed")
    views = maps.maps_of(flowers.model, points_of(flowers), np.arange(90), list("abcd"))
    assert views[-1].name == "UMAP"


# Certainty


def test_certainty_without_draws_is_the_largest_probability(plane: Any) -> None:
    found = certainty.certainty_of(plane.model, points_of(plane))
    np.testing.assert_allclose(found.probability, plane.model.predict_proba(plane.X).max(axis=1), rtol=1e-6)
    assert not found.from_draws
    assert sum(count for _, count in found.classes()) == 200
    listed = [one.probability for one in found.doubtful]
    assert listed == sorted(listed) and listed[0] == found.probability.min() and max(listed) < certainty.SURE
    first = found.doubtful[0]
    assert first.cluster == plane.model.labels_[first.row]
    assert first.candidates[0][1] == pytest.approx(first.probability)
    assert sum(chance for _, chance in first.candidates) == pytest.approx(1, abs=0.02)


def test_certainty_with_draws_is_the_models_own(flowers: Any) -> None:
    found = certainty.certainty_of(flowers.model, points_of(flowers))
    assert found.from_draws
    np.testing.assert_array_equal(found.probability, flowers.model.confidence_)


def test_of_many_rows_some_are_looked_at(plane: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certainty, "LOOKED_AT", 50)
    found = certainty.certainty_of(plane.model, points_of(plane))
    assert len(found.rows) == 50
    known = found.of_rows(np.arange(200))
    assert np.isfinite(known).sum() == 50 and np.isfinite(known[found.rows]).all()


# Lines


@pytest.mark.parametrize(
    "values", [[1.0], [3, 3, 3], [1, 2, 5, 4], list(range(1, 2000)), [-1e6, -2e5], [0.1, 0.1000001]]
)
@pytest.mark.parametrize("whole", [True, False])
def test_ticks_are_distinct_and_within(values: list[float], whole: bool) -> None:
    chart = chart_of("Clusters", [np.array(values)], whole=whole)
    assert chart is not None
    texts = [tick.text for tick in chart.up]
    assert texts and len(set(texts)) == len(texts) <= 6
    assert all(0 <= tick.position <= chart.height for tick in chart.up)
    assert len({tick.text for tick in chart.along}) == len(chart.along)
    for pair in chart.lines[0].points.split():
        x, y = map(float, pair.split(","))
        assert chart.left <= x <= chart.right and 0 <= y <= chart.bottom
    assert len(chart.lines[0].points.split()) <= 300
    if whole:
        assert all(float(text.replace(",", "").replace("−", "-")).is_integer() for text in texts)


def test_what_is_not_a_number_is_not_drawn() -> None:
    assert chart_of("NMI", [np.full(5, np.nan)]) is None
    chart = chart_of("NMI", [np.array([np.nan, 1.0, 2.0])])
    assert chart is not None and len(chart.lines[0].points.split()) == 2


def test_ticks_are_round() -> None:
    assert ticks(0.5, 9.5, True) == [2, 4, 6, 8]
    assert ticks(0.5, 2.5, True) == [1, 2]
    np.testing.assert_allclose(ticks(-1.05, 1.05, False), [-1, 0, 1])


def test_long_numbers_have_room() -> None:
    narrow, wide = (chart_of("Log posterior", [np.array([0.0, low])]) for low in (-9.0, -12_345_678.0))
    assert narrow is not None and wide is not None
    assert wide.left > narrow.left + 50


def test_columns_in_which_clusters_differ_come_first(flowers: Any, people: Any, plane: Any) -> None:
    subject = Subject(flowers.model, flowers.X)
    found = data_columns(subject, np.arange(len(flowers.X)))
    # Clusters differ in the first three of four columns.
    assert {column.name for column in found[:3]} == set(flowers.X.columns[:3]) and len(found) == 4
    for column in found:
        values = flowers.X[column.name]
        scaled = (values - values.min()) / (values.max() - values.min()) * STEPS
        np.testing.assert_allclose(column.positions, scaled, atol=0.5)
        assert column.title == f"{column.name}, from {values.min():.4g} to {values.max():.4g}"
    # Two features are the map, and one column makes none.
    assert not data_columns(Subject(plane.model, plane.X), np.arange(200))
    assert not data_columns(Subject(people.model, people.X), np.arange(120))


def test_columns_of_a_table_with_gaps_in_their_units() -> None:
    rng = np.random.default_rng(0)
    far = np.repeat([0.0, 9.0], 40)
    frame = pd.DataFrame(
        {"income": rng.normal(size=80) + far, "age": rng.normal(size=80), "sex": rng.choice(["f", "m"], 80)}
    )
    frame.loc[3, "age"] = np.nan
    model = smallfits.fitted(frame, family="mixed", n_chains=1).model
    raw = np.column_stack([np.exp(frame["income"]), frame["age"]])
    preparation = Preparation.learn(raw, False, 0, ("income", "age"), np.array([0]))
    income, age = data_columns(Subject(model, frame, preparation=preparation), np.arange(80))
    assert income.name == "income" and income.title.endswith(", its logarithm")
    assert f"to {raw[:, 0].max():.4g}" in income.title and age.positions[3] is None


# Words


def test_numbers_and_shares() -> None:
    assert [wording.number(value) for value in (0.0, -1.5, 12345.6, 3.14159, 1e9, 1e-6, math.nan)] == [
        *("0", "−1.5", "12,346", "3.142", "1.000e+09", "1.000e−06", "–")
    ]
    assert wording.number(12.345, 2) == "12" and wording.number(0.98765, 2) == "0.99"
    shares = [wording.share(value) for value in (0, 0.0001, 0.034, 0.05, 0.5, 0.998, 0.99999, 1)]
    assert shares == ["0%", "<0.1%", "3.4%", "5%", "50%", "99.8%", ">99.9%", "100%"]


def test_traits_in_words() -> None:
    age = Trait(Feature("age", "numeric"), 62.8, 34.8, 6.2, 2.04)
    assert words.here(age) == "62.8 ± 6.2" and words.difference(age) == "+2.0 SD"
    town = Trait(Feature("town", "level", "east"), 0.1, 0.43, math.nan, -0.8)
    assert words.here(town) == "10%" and words.difference(town) == "−0.8 SD"
    word = Trait(Feature("goal", "count"), 0.04, 0.01, math.nan, 2.0)
    assert words.difference(word) == "4.0 times as frequent"
    assert words.in_short([age, town, word]) == (
        "High age (62.8, elsewhere 34.8); seldom town = east (10%, elsewhere 43%); "
        "much goal (4% of its counts, elsewhere 1%)."
    )
    assert words.in_short([age._replace(apart=0.1)]).startswith("No single feature has an unusual mean")


def test_large_tables_of_known_labels_are_taken_together() -> None:
    labels = np.repeat(np.arange(60, dtype=np.int32), 3)
    labels[-1] = -1
    truth = np.arange(180) % 20
    found = known.known_table(labels, truth, [f"c{k}" for k in range(20)], 60)
    assert (len(found.classes), found.other_classes, found.other_clusters) == (12, 8, 20)
    assert [line.cluster for line in found.lines][-3:] == [39, None, -1]
    assert sum(rows for line in found.lines for rows, _ in line.cells) == 180
    assert found.lines[0].cells[0] == (1, 0.333) and found.lines[0].commonest == "c0"


def test_gaps_of_clusters() -> None:
    X = np.ones((40, 3))
    X[:8, 0] = X[20, 1] = np.nan
    X[:, 2] = np.nan
    labels = np.repeat([0, 1], 20)
    found = known.missing_shares(X, labels, 2, ["a", "b", "c"])
    assert found is not None
    np.testing.assert_allclose(found.shares, [0.2, 0.025])
    assert found.gaps == {0: known.Gap("a", 0.4, 0.0)}
    assert words.gap(found.gaps[0]) == "Often missing: a (in 40% of the rows, elsewhere in 0%)."
    assert known.missing_shares(np.ones((40, 3)), labels, 2, ["a", "b", "c"]) is None
