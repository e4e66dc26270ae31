"""The picture of a fit's iterations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpmmwrap.describe import plotting
from dpmmwrap.sampler.trace import Iteration, Trace

pytest.importorskip("matplotlib")


def a_trace(length: int, nmi: float) -> Trace:
    return Trace([Iteration(30 - i, -1000.0 + i, 0.1, 0, 1, 2, 3, nmi) for i in range(length)])


def test_trace_has_a_panel_per_thing_known() -> None:
    names = [axes.get_ylabel() for axes in plotting.trace_figure(a_trace(10, nmi=0.5), true_clusters=20).axes]
    assert names == ["clusters", "log posterior", "NMI with the truth"]
    names = [axes.get_ylabel() for axes in plotting.trace_figure(a_trace(10, nmi=float("nan"))).axes]
    assert names == ["clusters", "log posterior"]


@pytest.mark.parametrize("length", [1, 2, 200])
def test_trace_of_any_length(length: int, tmp_path: Path) -> None:
    plotting.save_figure(tmp_path / "t.png", plotting.trace_figure(a_trace(length, nmi=0.5)))
    assert (tmp_path / "t.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("clusters", "step"),
    [
        ([1, 1, 1], 0.0),
        ([1, 2, 1], 0.3),
        ([3, 3, 3], 1e6),
        ([1, 40, 12], 0.3),
        ([1, 30_000, 5], 1e6),
        ([100, 101, 100], 0.0),
    ],
)
def test_ticks_of_a_trace_are_distinct(
    clusters: list[int], step: float, shown_ticks: Callable[[Any], list[str]], assert_tidy: Callable[[Any], None]
) -> None:
    steps = [
        Iteration(k, -147_419.4 + step * i, 0.1, 0, 0, 0, 0, 0.95 + 1e-7 * step * i) for i, k in enumerate(clusters)
    ]
    for length in (1, 3):
        figure = plotting.trace_figure(Trace(steps[:length]), true_clusters=clusters[-1])
        assert_tidy(figure)
        for axis in (figure.axes[0].yaxis, figure.axes[-1].xaxis):
            numbers = [float(text.replace(",", "")) for text in shown_ticks(axis)]
            assert numbers and all(number.is_integer() for number in numbers)
        assert "0" not in shown_ticks(figure.axes[0].yaxis) or figure.axes[0].get_yscale() == "linear"


def test_one_iteration_is_not_one_iterations() -> None:
    assert plotting.trace_figure(a_trace(1, 0.5)).axes[0].get_title(loc="left") == "1 iteration"


@pytest.mark.parametrize("truth", [1, 20, 29, 1000])
def test_no_line_goes_through_the_truth(truth: int) -> None:
    figure = plotting.trace_figure(a_trace(30, 0.5), true_clusters=truth)
    figure.canvas.draw()
    axes = figure.axes[0]
    [text] = axes.texts
    assert text.get_text() == f"truth: {truth:,}"
    box = text.get_window_extent()
    assert box.x0 >= axes.bbox.x1 and box.x1 <= figure.bbox.x1
    assert abs((box.y0 + box.y1) / 2 - axes.transData.transform((0, truth))[1]) < 4
