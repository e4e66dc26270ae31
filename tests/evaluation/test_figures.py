"""Pictures: drawn of the right things, for any dimension; how they look is for people to judge."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.datasets import Dataset, generate
from dpmmwrap.evaluation import figures
from dpmmwrap.trace import Iteration, Trace

pytest.importorskip("matplotlib")


def a_trace(length: int, nmi: float) -> Trace:
    return Trace([Iteration(30 - i, -1000.0 + i, 0.1, 0, 1, 2, 3, nmi) for i in range(length)])


def draw(data: Dataset, labels: np.ndarray | None = None):  # type: ignore[no-untyped-def]
    labels = data.y if labels is None else labels
    return figures.clusters_figure(data.X, labels, data.means, data.covariances)


def test_two_dimensions_show_the_points_and_an_ellipse_per_cluster() -> None:
    from matplotlib.patches import Ellipse

    data = generate(2, 5, 300, 50, 0)
    axes = draw(data).axes[0]
    ellipses = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == 5
    assert axes.get_xlabel() == "feature 1"
    assert axes.get_title(loc="left") == "5 clusters in 300 points"
    shown = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_allclose(np.sort(shown, axis=0), np.sort(data.X, axis=0), rtol=1e-5)
    turn = np.linspace(0, 2 * np.pi, 20)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    for ellipse, mean, covariance in zip(ellipses, data.means, data.covariances, strict=True):
        # The outline lies at two standard deviations all the way round.
        outline = ellipse.get_patch_transform().transform(circle) - mean
        distances = np.sqrt(np.einsum("ni,ij,nj->n", outline, np.linalg.inv(covariance), outline))
        np.testing.assert_allclose(distances, 2.0, rtol=1e-6)


def test_more_dimensions_are_projected_on_principal_components() -> None:
    data = generate(6, 4, 500, 50, 0)
    axes = draw(data).axes[0]
    assert "principal component 1" in axes.get_xlabel()
    shown = np.asarray(axes.collections[0].get_offsets())
    variances = np.linalg.eigvalsh(np.cov(data.X, rowvar=False))[::-1]
    np.testing.assert_allclose(shown.var(axis=0, ddof=1), variances[:2], rtol=1e-4)


def test_one_dimension_is_a_histogram() -> None:
    data = generate(1, 3, 500, 50, 0)
    axes = draw(data).axes[0]
    assert axes.get_ylabel() == "points"
    assert sum(patch.get_height() for patch in axes.patches) >= 500


def test_many_points_are_thinned_out() -> None:
    data = generate(2, 3, figures.SHOWN + 5000, 50, 0)
    axes = draw(data).axes[0]
    assert len(axes.collections[0].get_offsets()) == figures.SHOWN
    assert "(20,000 shown)" in axes.get_title(loc="left")


def test_outliers_are_marked() -> None:
    data = generate(2, 3, 100, 50, 0)
    labels = data.y.copy()
    labels[:7] = -1
    axes = draw(data, labels).axes[0]
    assert [len(marks.get_offsets()) for marks in axes.collections] == [93, 7]
    assert axes.get_legend() is not None


@pytest.mark.parametrize(("dim", "clusters", "points"), [(1, 1, 2), (2, 1, 2), (3, 1, 2), (2, 100, 400), (20, 3, 30)])
def test_small_and_crowded_data_can_be_drawn(dim: int, clusters: int, points: int, tmp_path: Path) -> None:
    figures.save_figure(tmp_path / "x.png", draw(generate(dim, clusters, points, 50, 0)))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_neighbours_have_different_colours() -> None:
    places = np.array([[float(i), 0.0] for i in range(40)])
    colours = figures.spread_colours(places)
    assert set(colours) == set(figures.COLOURS)
    assert all(one != other for one, other in pairwise(colours))


def test_trace_has_a_panel_per_thing_known() -> None:
    names = [axes.get_ylabel() for axes in figures.trace_figure(a_trace(10, nmi=0.5), true_clusters=20).axes]
    assert names == ["clusters", "log posterior", "NMI with the truth"]
    names = [axes.get_ylabel() for axes in figures.trace_figure(a_trace(10, nmi=float("nan"))).axes]
    assert names == ["clusters", "log posterior"]


@pytest.mark.parametrize("length", [1, 2, 200])
def test_trace_of_any_length(length: int, tmp_path: Path) -> None:
    figures.save_figure(tmp_path / "t.png", figures.trace_figure(a_trace(length, nmi=0.5)))
    assert (tmp_path / "t.png").stat().st_size > 1000


def test_the_settings_of_the_user_stay() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(generate(2, 3, 50, 50, 0))
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_imported_by_drawing_only() -> None:
    script = "import sys, dpmmwrap.evaluation.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
