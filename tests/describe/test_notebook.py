"""A fitted model in a notebook: axes in, axes out; facts; a report."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError

import smallfits
from dpmmwrap import DPMM

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def test_axes_in_axes_out() -> None:
    from matplotlib import pyplot

    model, X = smallfits.flowers()
    figure, panels = pyplot.subplots(2, 2)
    found = [
        model.plot(X, ax=panels[0, 0]),
        model.plot_trace(ax=panels[0, 1]),
        model.plot_profile(X, ax=panels[1, 0]),
        model.plot_posterior(ax=panels[1, 1]),
    ]
    assert found == [*panels.ravel()]
    assert all(axes.has_data() and axes.get_title(loc="center") for axes in found)
    assert pyplot.get_fignums() == [figure.number], "no other figure was made"
    figure.canvas.draw()


def test_without_axes_a_figure_is_made_that_a_notebook_shows() -> None:
    from matplotlib import pyplot

    model, X = smallfits.flowers()
    before = dict(matplotlib.rcParams)
    for draw in (lambda: model.plot(X), model.plot_trace, lambda: model.plot_profile(X), model.plot_posterior):
        axes = draw()
        assert pyplot.gcf() is axes.figure
        axes.figure.canvas.draw()
    assert dict(matplotlib.rcParams) == before, "the user's settings are as they were"


def test_what_a_backend_sets_up_with_the_first_figure_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    new_figure = pyplot.figure

    def first_figure(**options: object) -> object:
        # As the backend of notebooks does when it is loaded; without it later figures are not shown.
        matplotlib.interactive(True)
        return new_figure(**options)

    monkeypatch.setattr(pyplot, "figure", first_figure)
    try:
        smallfits.line().model.plot_trace()
        assert matplotlib.is_interactive()
    finally:
        matplotlib.interactive(False)


@pytest.mark.parametrize("name", ["people", "texts", "line", "plane"])
def test_pictures_of_every_family(name: str) -> None:
    model, X = getattr(smallfits, name)()
    assert model.plot(X).get_title(loc="left").endswith("points")
    assert "apart" in model.plot_profile(X).get_title(loc="left")
    assert model.plot_trace("log_posterior").get_ylabel() == "log posterior"


def test_names_of_a_data_frame_are_on_the_axes() -> None:
    frame = pd.DataFrame(smallfits.plane().X, columns=["width", "height"])
    model = smallfits.fitted(frame, n_chains=1, covariance_type="diag").model
    axes = model.plot(frame)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("width", "height")
    assert [text.get_text() for text in model.plot_profile(frame).get_yticklabels()] == ["width", "height"]
    # The model knows them, too; and they can be given.
    with pytest.warns(UserWarning, match="feature names"):
        assert model.plot(frame.to_numpy()).get_xlabel() == "width"
    other = smallfits.plane()
    assert other.model.plot(other.X, names=["u", "v"]).get_ylabel() == "v"
    people = smallfits.people()
    told = [text.get_text() for text in people.model.plot_profile(people.X).get_yticklabels()]
    assert told == ["age", "town = north", "town = south"]


def test_the_data_of_the_fit_have_its_labels_and_others_are_predicted() -> None:
    model, X = smallfits.plane()
    shown = model.plot(X).collections[-1 if (model.labels_ < 0).any() else 0]
    assert (model.labels_ < 0).any() and len(shown.get_offsets()) == (model.labels_ < 0).sum()
    # As many other rows, far from any cluster but one: all of one colour.
    other = np.tile(X[10], (len(X), 1)).astype(np.float32)
    colours = model.plot(other).collections[0].get_facecolors()
    assert len(np.unique(colours, axis=0)) == 1


def test_a_profile_says_the_means() -> None:
    model, X = smallfits.flowers()
    axes = model.plot_profile(X, n_features=2)
    assert len(axes.get_yticklabels()) == 2
    written = {text.get_text() for text in axes.texts}
    for name in (label.get_text() for label in axes.get_yticklabels()):
        means = X[name].groupby(model.labels_).mean()
        assert {f"{mean:.3g}" for mean in means} <= written


def test_what_cannot_be_drawn_is_said() -> None:
    model, X = smallfits.plane()
    with pytest.raises(ValueError, match="this needs draws from the posterior"):
        model.plot_posterior()
    with pytest.raises(ValueError, match=r"what should be one of n_clusters, log_posterior, .*, not 'speed'"):
        model.plot_trace("speed")
    with pytest.raises(ValueError, match="n_features should be at least 1, not 0"):
        model.plot_profile(X, n_features=0)
    for ask in (lambda: DPMM().plot(X), DPMM().plot_trace, lambda: DPMM().plot_profile(X), DPMM().plot_posterior):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(ValueError, match="3 features"):
        model.plot(np.zeros((5, 3)))


def test_the_facts_stand_above_scikit_learns_own() -> None:
    model, _ = smallfits.flowers()
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        facts = page[: page.index("</table>")]
        assert "3 clusters in 90 rows" in facts and "40, 30, 20" in facts and "in 95% of draws" in facts
        assert "sk-container" in page[page.index("</table>") :]
    assert model._repr_mimebundle_()["text/plain"].startswith("DPMM(")
    assert "<table><caption" not in DPMM()._repr_html_() and "sk-container" in DPMM()._repr_html_()
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_") and "text/html" not in model._repr_mimebundle_()


def test_facts_of_one_cluster() -> None:
    assert "1 cluster in 40 rows" in smallfits.line().model._repr_html_()


def test_a_report_from_python(tmp_path: Path) -> None:
    model, X = smallfits.flowers()
    model.write_report(tmp_path / "r.html", X)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "3 clusters in 90 rows" in page
    # A data frame's index names the rows.
    assert '"plant 0"' in page and re.search(r"DPMM\(.*random_state=0", page)


def test_single_columns_where_a_fit_left_some_out() -> None:
    own = smallfits.plane().X
    X = np.column_stack([np.full(len(own), 4.0), own, 2 * own[:, 1], np.full(len(own), np.nan)])
    X[5] = np.nan
    names = ["same", "width", "height", "twice", "empty"]
    model = DPMM(init="kmeans", max_iter=5, n_chains=1, covariance_type="full", random_state=0).fit(X)
    axes = model.plot(X, names=names, columns=["twice", "width"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("twice", "width")
    drawn = np.concatenate([dots.get_offsets() for dots in axes.collections if len(dots.get_offsets()) > 1])
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(np.delete(X[:, 3], 5)), rtol=1e-5)
    assert model.plot(X, columns=[0]).has_data() and model.plot(X).has_data()
    with pytest.raises(ValueError, match="a column of width, empty had no value"):
        model.plot(X, names=names, columns=["width", "empty"])
    assert model.plot_density([3], X).has_data()
