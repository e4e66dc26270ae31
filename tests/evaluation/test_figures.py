"""Pictures of experiments: what is written, and axes that can be read."""

from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.evaluation import figures

pytest.importorskip("matplotlib")


def rows_of(clusters: int) -> list[dict[str, object]]:
    """Two methods on data of two and three clusters, that find so many."""
    measures = {"n_clusters": clusters, "nmi": 0.9, "ari": 0.8, "dim": 2, "cpu_seconds": 1.5, "problem": ""}
    return [{"method": method, "clusters": k, **measures} for method in ("SubC-Random", "K-means") for k in (2, 3)]


def ticks_of(axis) -> list[str]:  # type: ignore[no-untyped-def]
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_ticks()
    return [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]


@pytest.mark.parametrize("clusters", [1, 3, 40])
def test_ticks_are_distinct_and_clusters_whole(clusters: int) -> None:
    trace = {"n_clusters": np.full(5, float(clusters)), "log_posterior": -1e5 + np.linspace(0, 0.3, 5)}
    trace |= {"nmi": np.full(5, 0.5), "ari": np.linspace(0.5, 0.5001, 5)}
    found = [
        figures.boxes_figure(rows_of(clusters)),
        figures.iterations_figure({"SubC-Random": [trace]}, clusters),
        figures.failure_figure(rows_of(clusters)),
        figures.times_figure(rows_of(clusters)),
    ]
    for figure in found:
        figure.canvas.draw()
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                assert len(set(ticks_of(axis))) == len(ticks_of(axis))
    for figure in found[:2]:
        numbers = [float(text.replace(",", "")) for text in ticks_of(figure.axes[0].yaxis)]
        assert numbers and all(number.is_integer() for number in numbers)


def test_one_run_is_not_one_runs() -> None:
    trace = {"n_clusters": np.ones(3), "log_posterior": np.zeros(3), "nmi": np.ones(3), "ari": np.ones(3)}
    title = figures.iterations_figure({"SubC-Random": [trace]}, 1).axes[0].get_title(loc="left")
    assert title.startswith("Median and range of 1 run.")


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert figures.save_both(tmp_path / name, "boxes", figures.boxes_figure(rows_of(3))) == "boxes.png"
        written.append([(tmp_path / name / f"boxes.{ending}").read_bytes() for ending in ("png", "svg")])
    assert written[0] == written[1]


def test_the_same_points_in_several_colours() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4))
    sides = np.arange(50) % 2
    figure = figures.scatter_figure(X, {"truth": sides, "one": np.zeros(50, int), "two": 1 - sides})
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == ["truth", "one", "two"]
    assert "principal component 1" in figure.axes[2].get_xlabel()
    example = figures.SplitExample("hard", X, {"truth": sides, "2-means": 1 - sides})
    assert figures.splits_figure([example]).axes[0].get_ylabel() == "hard"
