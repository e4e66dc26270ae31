"""One place for the facts of a fit: everything that people read says the same."""

import html
import re

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import smallfits
from dpmmwrap.cli import fit_table
from dpmmwrap.describe import facts
from dpmmwrap.describe.report import Subject, render

EXTRAS = {
    "seconds": 1.0, "sensitivity": None, "prior_clusters": None, "skipped": 0,
    "scaled": False, "normalized": False, "logged": [],
}  # fmt: skip


@pytest.mark.parametrize("name", ["flowers", "people", "texts"])
def test_table_notebook_and_page_say_the_same(name: str) -> None:
    model, X = getattr(smallfits, name)()
    found = facts.facts(model)
    table = dict(fit_table.rows(found | EXTRAS | {"components": None}))
    page = re.sub(r"\s+", " ", html.unescape(render(Subject(model, X))))
    notebook = html.unescape(model._repr_html_())
    for words in (facts.family_text(found), facts.search_text(found)):
        assert words in page and words in notebook
    assert table["family"] == facts.family_text(found) and facts.search_text(found) in table["time"]
    assert table["sizes"] == facts.sizes_text(found["sizes"]) and table["sizes"] in notebook


def test_numbers_of_a_fit_with_draws() -> None:
    model, _ = smallfits.flowers()
    groups = model.groups()
    truth = np.arange(90) % 4
    truth[:10] = -1
    found = facts.facts(model, groups, truth)
    assert found["sizes"] == [40, 30, 20] and found["outliers"] == found["empty"] == 0
    assert found["points"] == 90 and found["groups"] == groups.suggested == len(found["group_sizes"])
    assert sum(found["group_sizes"]) == 90
    assert found["confidence"] == pytest.approx(model.confidence_.mean()) and found["draws"] == 20
    # What is not known is not compared.
    known = truth >= 0
    assert found["ari"] == pytest.approx(adjusted_rand_score(truth[known], model.labels_[known]))
    assert found["nmi"] == pytest.approx(normalized_mutual_info_score(truth[known], model.labels_[known]))
    assert found["true_clusters"] == 4


def test_rows_without_values_are_neither_outliers_nor_compared() -> None:
    from dpmmwrap import DPMM

    X = np.array(smallfits.plane().X)
    X[5] = np.nan
    model = DPMM(covariance_type="diag", max_iter=5, init="kmeans", n_chains=1, backend="native", random_state=0).fit(X)
    found = facts.facts(model, truth=np.zeros(len(X), int))
    assert found["empty"] == 1 and found["outliers"] == 0 and sum(found["sizes"]) == len(X) - 1
    # Its label of -1 would be a second cluster.
    assert found["nmi"] == pytest.approx(
        normalized_mutual_info_score(np.zeros(len(X) - 1), np.delete(model.labels_, 5))
    )


def test_words_for_sizes() -> None:
    assert facts.sizes_text([5]) == "5"
    assert facts.sizes_text([1, 2000, 3]) == "2,000, 3, 1"
    assert facts.sizes_text(list(range(1, 12))) == "11, 10, 9, 8, 7, 6, 5, 4 and 3 smaller"


def test_words_for_families() -> None:
    gaussian = {"family": "gaussian", "covariance_type": "full", "covariance_reason": "you asked", "categorical": None}
    assert facts.family_text(gaussian) == "gaussian, full covariances: you asked"
    assert facts.family_text(gaussian | {"covariance_type": None}) == "gaussian"
    assert facts.family_text({"categorical": ["sex", "town"]}) == "mixed, categorical: sex, town"
    assert facts.family_text({"categorical": []}) == "mixed, no column is categorical"
    assert facts.width_text(gaussian | {"dimensions": 2}) == "in 2 dimensions"
    assert facts.width_text({"categorical": None, "covariance_type": None, "dimensions": 9}) == "of 9 counts"
    assert facts.width_text({"categorical": ["sex"], "dimensions": 3}) == "of 2 numeric and 1 categorical column"


@pytest.mark.parametrize(
    ("iterations", "stopped_by", "chains", "draws", "said"),
    [
        (71, "flat", 1, 0, "flat after 71 iterations"),
        (71, "flat", 4, 0, "4 chains, the best flat after 71 iterations"),
        (500, "limit", 1, 0, "not flat after 500 iterations, the limit"),
        (1, "max_iter", 1, 0, "1 iteration"),
        (1000, "max_iter", 2, 0, "2 chains of 1,000 iterations"),
        (12, "interrupt", 1, 0, "12 iterations"),
        (12, "max_iter", 2, 20, "2 chains of 12 iterations, then 20 draws each"),
        (12, "max_iter", 1, 1, "12 iterations, then 1 draw"),
    ],
)
def test_words_for_a_search(iterations: int, stopped_by: str, chains: int, draws: int, said: str) -> None:
    found = {"iterations": iterations, "stopped_by": stopped_by, "chains": chains, "draws": draws}
    assert facts.search_text(found) == said
