"""What the tests of pictures share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def shown(axis: Any) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_ticks()
    return [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()]


@pytest.fixture
def shown_ticks() -> Callable[[Any], list[str]]:
    """What stands at the ticks that lie within the picture."""
    return shown


@pytest.fixture
def assert_tidy() -> Callable[[Any], None]:
    """Ticks are distinct, and no text lies on another or beyond the picture."""

    def check(figure: Any) -> None:
        figure.draw_without_rendering()
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                found = shown(axis)
                assert len(set(found)) == len(found), found
        texts = texts_of(figure)
        boxes = np.array([text.get_window_extent().get_points() for text in texts])
        low, high = boxes[:, 0], boxes[:, 1]
        beyond = ((low < 0) | (high > figure.bbox.max)).any(axis=1)
        assert not beyond.any(), [texts[place].get_text() for place in np.flatnonzero(beyond)]
        apart = ((low[:, None] >= high) | (low >= high[:, None])).any(axis=2) | np.eye(len(boxes), dtype=bool)
        assert apart.all(), [(texts[i].get_text(), texts[j].get_text()) for i, j in np.argwhere(~apart)]

    return check


def texts_of(figure: Any) -> list[Any]:
    """Titles, names of axes, ticks and legends; not the numbers of clusters, which may lie close."""
    found = [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        found += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [
                tick.label1
                for tick in axis.get_major_ticks()
                if low <= tick.get_loc() <= high and axis.get_visible() and tick.label1.get_visible()
            ]
    return [text for text in found if text.get_text() and text.get_visible()]
