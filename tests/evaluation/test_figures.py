"""Pictures of experiments: what is written, and axes that can be read."""

from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.evaluation import figures
from dpmmwrap.evaluation.methods import BLUE, METHODS, OUR_PRIOR

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
                assert not any(tick.label1.get_text() for tick in axis.get_minor_ticks())
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
        saved = figures.save_both(tmp_path / name, "boxes", figures.boxes_figure(rows_of(3)))
        assert saved == tmp_path / name / "boxes.png"
        written.append([(tmp_path / name / f"boxes.{ending}").read_bytes() for ending in ("png", "svg")])
    assert written[0] == written[1]


def colours_in(axes) -> list[tuple[float, ...]]:  # type: ignore[no-untyped-def]
    return [tuple(colour) for colour in axes.collections[0].get_facecolors()]


def test_the_same_points_in_several_colours() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1, 1, 1, 1e6]
    sides = np.arange(50) % 2
    other = np.where(np.arange(50) < 4, 2, 1 - sides)
    figure = figures.scatter_figure(X, {"truth": sides, "one": np.zeros(50, int), "two": other, "none": sides - 1})
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == ["truth", "one", "two"]
    # Feature 4 would be all of it if its unit counted.
    assert "standardised features" in figure.get_supxlabel()
    assert float(figure.get_supxlabel().split("(")[1].split("%")[0]) < 60
    truth, one, two, none = (colours_in(axes) for axes in figure.axes)
    # What is called 0 there is 1 here, and has the same colour; what the truth does not have, another one.
    assert [two[row] == truth[row] for row in range(50)] == [row >= 4 for row in range(50)]
    assert two[0] == two[1] == two[3] and two[0] not in truth
    assert len(set(one)) == 1 and one[0] in truth
    # Outliers are grey.
    assert none[0] != truth[0] and none[1] in truth and len(set(none[0][:3])) == 1


def test_names_of_panels_do_not_run_into_each_other() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4))
    for panels in (2, 4):
        figure = figures.scatter_figure(X, {f"method {number}": np.arange(50) % 3 for number in range(panels)})
        figure.canvas.draw()
        for text in (figure._supxlabel, figure._supylabel):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


def test_sides_have_the_truths_colours() -> None:
    X, sides = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 2
    example = figures.SplitExample("hard", X, {"truth": sides, "2-means": 1 - sides})
    figure = figures.splits_figure([example])
    assert figure.axes[0].get_ylabel() == "hard"
    assert colours_in(figure.axes[0]) == colours_in(figure.axes[1])


def test_methods_have_colours_of_their_own() -> None:
    # Ours and SplitNet are blue; a sampler on Julia has the colour of the built-in one.
    others = {name.split(" (Julia)")[0]: one.colour for name, one in METHODS.items() if one.colour != BLUE}
    assert len(set(others.values())) == len(others) == 10
    assert figures.colour_of("DPGMM (1000)") == METHODS[OUR_PRIOR].colour
