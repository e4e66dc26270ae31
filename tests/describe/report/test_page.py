"""The page as a file: what it says, that it holds together, and that it needs nothing else."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from dpmmwrap.describe.report import Subject, render, write_report


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def text_of(page: str) -> str:
    body = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.mark.parametrize("name", ["flowers", "people", "texts", "line", "plane"])
def test_a_page_of_every_family(name: str, request: pytest.FixtureRequest) -> None:
    fit = request.getfixturevalue(name)
    page = render(Subject(fit.model, fit.X))
    rows, clusters = len(fit.model.labels_), fit.model.n_clusters_
    assert f"<h1>{clusters} cluster{'s' if clusters > 1 else ''} in {rows} rows</h1>" in page
    data = data_of(page)
    assert data["clusters"] == fit.model.labels_.tolist()
    assert page.count("<circle cx=") >= rows
    assert all(len(view["positions"]) == 2 * rows for view in data["views"])
    assert not re.search(r"https?://|//cdn|@import|url\(|<link|<img|src=", page), "nothing is fetched"
    assert "nan" not in text_of(page).lower().split() and "None" not in text_of(page)
    assert all(identifier in page for identifier in ('id="map"', 'id="sizes"', 'id="trace"', 'id="settings"'))
    assert ('id="profiles"' in page) == ('id="uncertain"' in page) == (clusters > 1)
    assert ('id="posterior"' in page) == (fit.model.draws_ is not None)
    # No id twice, and every link within the page leads somewhere.
    found = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(found)) == len(found)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(found)


def test_what_a_page_says(flowers: Any) -> None:
    truth = np.arange(90) % 4
    subject = Subject(flowers.model, flowers.X, source="flowers.csv", notes=["look <here>"], truth=truth, seconds=1.5)
    text = text_of(render(subject))
    assert "3 clusters were found in the 90 rows of flowers.csv, described by 4 features." in text
    assert "The largest holds 40 rows (44%), the smallest 20 rows." in text
    assert "95% of the draws from the posterior have 3" in text
    nmi, ari = (score(truth, flowers.model.labels_) for score in (normalized_mutual_info_score, adjusted_rand_score))
    assert f"have 4 classes. Compared with them, the clusters have an NMI of {nmi:.3f} and an ARI of {ari:.3f}" in text
    assert "What may be wrong Look <here>" in text
    assert "2 chains of 20 draws" in text and "2 chains of 12 iterations, then 20 draws each" in text
    assert "DPMM(covariance_type='diag', init='kmeans', max_iter=12" in text.replace("backend='native', ", "")


def test_names_of_columns_and_rows_are_not_markup(flowers: Any) -> None:
    ids = [f"</script><script>alert({row})</script>" for row in range(90)]
    page = render(Subject(flowers.model, flowers.X, ids=ids))
    assert "<script>alert" not in page and "<b>length" not in page
    assert data_of(page)["ids"] == ids
    assert "High petal <b>length</b>" in html.unescape(page)
    assert "sepal &amp; length" in page


def test_profiles_of_a_mixed_table(people: Any) -> None:
    text = text_of(render(Subject(people.model, people.X)))
    assert re.search(r"(Low|High) age \(\d\d\.\d+, elsewhere \d\d\.\d+\); (often|seldom) town = ", text)
    assert re.search(r"town = (north|south) \d+% \d+% [+−]\d\.\d SD", text)
    assert "5 values" in text


def test_outliers_are_told(plane: Any) -> None:
    text = text_of(render(Subject(plane.model, plane.X)))
    outliers = int((plane.model.labels_ < 0).sum())
    assert outliers and f"clusters and {outliers} outlier" in text


def test_the_command_is_there_in_one_piece(line: Any) -> None:
    page = render(Subject(line.model, line.X, command="dpmmwrap fit 'my data.csv' --out x"))
    assert html.unescape(page).count("dpmmwrap fit 'my data.csv' --out x") == 1


def test_of_many_rows_a_sample_is_drawn_and_that_is_said(line: Any) -> None:
    class Many:
        """The model, as if it had been fitted to many rows."""

        labels_ = np.zeros(50_000, np.int32)

        def __getattr__(self, name: str) -> Any:
            return getattr(line.model, name)

    page = render(Subject(Many(), np.random.default_rng(0).normal(size=(50_000, 1))))
    assert "4,000 of 50,000 rows, a sample" in text_of(page)
    assert len(data_of(page)["ids"]) == 4000
    assert len(page) < 600_000


def test_a_report_is_about_the_data_of_the_fit(line: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which had 40 rows, but X has 10"):
        Subject(line.model, line.X[:10])
    with pytest.raises(ValueError, match="ids should be 40, one per row, not 2"):
        Subject(line.model, line.X, ids=[1, 2])
    write_report(tmp_path / "report.html", Subject(line.model, line.X))
    assert (tmp_path / "report.html").read_text(encoding="utf-8").endswith("</html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_where_column_names_come_from(plane: Any) -> None:
    assert Subject(plane.model, plane.X).names == ("feature 1", "feature 2")
    assert Subject(plane.model, plane.X, given_names=["u", "v"]).names == ("u", "v")


def many_clusters(count: int, groups: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """A mixture of many clusters, as a fitted model: pairs of clusters overlap, if groups are wanted."""
    rng = np.random.default_rng(0)
    truth = np.sort(rng.integers(0, count, 40 * count))
    places = 100 * rng.normal(size=(count, 3))
    if groups:
        places[1::2] = places[::2][: count // 2] + np.array([2.0, 0.0, 0.0])
    X = places[truth] + rng.normal(size=(len(truth), 3))
    from dpmmwrap import DPMM

    model = DPMM(max_iter=1, n_chains=1, init_clusters=truth, init="kmeans", covariance_type="full", random_state=0)
    return model, X, truth


@pytest.mark.filterwarnings("ignore")
def test_a_page_of_many_clusters() -> None:
    model, X, truth = many_clusters(161, groups=True)
    model.fit(X)
    assert model.n_clusters_ > 70
    groups = model.groups()
    page = render(Subject(model, X, groups=groups, truth=truth, classes=[f"kind {k}" for k in range(161)]))
    text, data = text_of(page), data_of(page)
    assert all(len(view["centres"]) == 60 for view in data["views"])
    assert "Numbers mark the 60 largest clusters." in text
    assert re.search(r"Half of the rows are in the \d+ largest clusters", text)
    assert f"The other {model.n_clusters_ - 30} clusters:" in text and "149 others" in text
    assert "a sample with at least 12 of each cluster" in text and re.search(r"kind \d+ \(\d+%\)", text)
    assert page.count('class="cluster"') == model.n_clusters_
    assert 'id="groups"' in page and "shades of one colour" in text
    assert f"Tree of {model.n_clusters_} clusters in {groups.suggested} groups" in page
    assert f"<strong>{groups.suggested}</strong>" in page
    assert len(page) < 2_000_000


@pytest.mark.filterwarnings("ignore")
def test_colours_tell_groups_apart_first() -> None:
    from dpmmwrap.describe.plotting.theme import COLOURS, MORE_COLOURS
    from dpmmwrap.describe.report import maps, page

    model, X, _ = many_clusters(12, groups=True)
    model.fit(X)
    groups = model.groups(method="demp")
    assert groups.suggested < model.n_clusters_ and model.n_clusters_ > len(COLOURS)
    view = maps.maps_of(model, X, np.arange(len(X)), ["a", "b", "c"])[0]
    own = page.colours(Subject(model, X, groups=groups), view)
    assert len(set(own)) == model.n_clusters_
    whole = [colour for colour in own if colour in MORE_COLOURS]
    # One cluster of each group has the colour itself.
    assert len(whole) == groups.suggested
    firsts = [own[int(k)] for k in np.unique(groups.component_groups, return_index=True)[1]]
    assert len(set(firsts)) == groups.suggested
    # Without groups, each cluster has a colour of its own.
    assert set(page.colours(Subject(model, X), view)) <= set(MORE_COLOURS)


def test_known_labels_beside_the_clusters(flowers: Any, tmp_path: Path) -> None:
    truth = np.repeat(["rose", "<i>lily</i>", ""], [40, 30, 20])
    flowers.model.write_report(tmp_path / "page.html", flowers.X, truth=truth)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<i>lily" not in page and 'href="#known"' in page
    assert "Cluster rose <i>lily</i> 0 40 · 1 · 30 2 · ·" in text_of(page)


def test_where_values_are_missing(people: Any, flowers: Any) -> None:
    text = text_of(render(Subject(people.model, people.X)))
    assert "Certainty Missing" in text and "Missing: the share of missing values in its rows." in text
    assert "Missing" not in text_of(render(Subject(flowers.model, flowers.X)))
