"""The picture of a tree of components."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpmmwrap.describe import plotting
from dpmmwrap.describe.plotting.theme import INK
from dpmmwrap.posterior.groups import METHODS, Groups, group_components

pytest.importorskip("matplotlib")


def some_groups(components: int, method: str = "demp", seed: int = 0) -> Groups:
    """Of components on a line, some of which overlap."""
    rng = np.random.default_rng(seed)
    centres = components * rng.random(components)
    places = rng.normal(np.repeat(centres, 20), 0.12)[:, None]
    density = np.exp(-(((places - centres) / 0.12) ** 2) / 2)
    return group_components(density / density.sum(axis=1, keepdims=True), method)


def brackets_of(figure: Any) -> list[Any]:
    return [np.asarray(line) for line in figure.axes[0].collections[0].get_segments()]


@pytest.mark.parametrize("method", METHODS)
def test_a_bracket_per_union_and_a_leaf_per_component(method: str) -> None:
    groups = some_groups(15, method)
    assert 1 < groups.suggested < 15
    sizes = np.arange(1000, 1015)
    figure = plotting.groups_figure(groups, sizes)
    axes = figure.axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert sorted(names) == sorted(f"{k} ({sizes[k]:,})" for k in range(15))
    assert len(brackets_of(figure)) == 14
    assert axes.get_title(loc="left") == f"15 clusters in {groups.suggested} groups"
    # Each bracket ends where its step has its height.
    expected = groups.merges[:, 2] if method == "entropy" else -np.log10((1 - groups.merges[:, 2]).clip(1e-6, 1))
    heights = sorted(bracket[1, 0] for bracket in brackets_of(figure))
    np.testing.assert_allclose(heights, expected, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_cut_lies_between_groups(method: str) -> None:
    groups = some_groups(15, method)
    figure = plotting.groups_figure(groups, np.ones(15, int))
    [line] = figure.axes[0].lines
    cut = line.get_xdata()[0]
    heights = np.array([bracket[1, 0] for bracket in brackets_of(figure)])
    assert line.get_linestyle() == "--"
    assert (heights < cut).sum() == 15 - groups.suggested
    if method != "entropy":
        assert cut == pytest.approx(-np.log10({"demp": 0.025}.get(method, 0.01)))
    # Unions on the left have colours, those on the right have none.
    colours = figure.axes[0].collections[0].get_colors()
    black = np.array([tuple(colour[:3]) == pytest.approx([int(INK[1:3], 16) / 255] * 3) for colour in colours])
    np.testing.assert_array_equal(black, heights >= cut)
    named = figure.axes[0].texts[0].get_text()
    assert named == {"demp": "suggested cut: 0.025", "entropy": "suggested cut"}.get(method, "suggested cut: 0.01")


def test_components_of_a_group_are_neighbours_of_one_colour() -> None:
    groups = some_groups(15)
    figure = plotting.groups_figure(groups, np.ones(15, int))
    leaves = [int(text.get_text().split()[0]) for text in figure.axes[0].get_yticklabels()]
    names = groups.component_groups[leaves]
    assert len(np.flatnonzero(np.diff(names))) == groups.suggested - 1
    colours = figure.axes[0].collections[0].get_colors()
    for bracket, colour in zip(brackets_of(figure), colours, strict=True):
        below = bracket[1, 0] < -np.log10(0.025)
        for end in (0, 3):
            if below and bracket[end, 0] == 0.0:
                group = names[round(float(bracket[end, 1]))]
                own = [c for b, c in zip(brackets_of(figure), colours, strict=True)
                       if b[1, 0] < -np.log10(0.025) and names[round(float(b[1, 1]))] == group]  # fmt: skip
                assert all(tuple(c) == tuple(colour) for c in own)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("components", [1, 2, 3, 30, 100, 130])
def test_texts_of_a_tree(components: int, method: str, assert_tidy: Callable[[Any], None]) -> None:
    assert_tidy(plotting.groups_figure(some_groups(components, method), np.full(components, 123_456)))


def test_of_many_components_the_first_unions_are_leaves() -> None:
    groups = some_groups(150)
    sizes = np.arange(150)
    figure = plotting.groups_figure(groups, sizes)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert len(names) == 100
    points = [int(name.split("(")[1].rstrip(")").replace(",", "")) for name in names]
    assert sum(points) == sizes.sum()
    members = [int(name.split()[2]) + 1 if "more" in name else members_of(name) for name in names]
    assert sum(members) == 150


def members_of(name: str) -> int:
    return int(name.split(maxsplit=1)[0]) if "clusters" in name else 1


def test_of_many_components_that_are_apart_a_leaf_is_not_called_one_group() -> None:
    figure = plotting.groups_figure(group_components(np.eye(120)), np.ones(120, int))
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    several = [name for name in names if "clusters" in name]
    assert several and all("groups" in name for name in several)
    assert not any("more" in name for name in names)
    assert sum(map(members_of, names)) == 120


@pytest.mark.parametrize("tau", [np.ones((5, 1)), np.eye(4), np.full((6, 3), 1 / 3)])
@pytest.mark.parametrize("method", METHODS)
def test_trees_without_a_shape(tau: np.ndarray, method: str, assert_tidy: Callable[[Any], None]) -> None:
    assert_tidy(plotting.groups_figure(group_components(tau, method), np.ones(tau.shape[1], int)))


def test_one_cluster_in_one_group() -> None:
    figure = plotting.groups_figure(group_components(np.ones((5, 1))), [5])
    assert figure.axes[0].get_title(loc="left") == "1 cluster in 1 group"
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["0 (5)"]


def test_sizes_of_other_components() -> None:
    with pytest.raises(ValueError, match="sizes should be 4 numbers, one per component, but have the shape \\(3,\\)"):
        plotting.groups_figure(group_components(np.eye(4)), [1, 2, 3])
