"""The rows of the ledger: data with known classes, drawn here or read from a folder of public sets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ledger_mixtures import CELLS, Drawn, ari, draw_cell, log_densities
from ledger_shapes import SHAPES, draw_curve, draw_grid, draw_integers, draw_shapes, draw_topics

from dpmmwrap.datasets import generate, read_example
from dpmmwrap.evaluation.scores import battery_of
from dpmmwrap.evaluation.sets import SHIPPED, SHIPPED_SETS, read_npz, read_shipped

MOST_ROWS, FEWEST_OF_A_TENTH = 4000, 100
TENTH = "/10"
"""How the name of a set at a tenth of its rows ends."""
KINDS = {
    "real": ("deepdpm_*", "hipc_*", "flowsom_*", "scmix_*", "uci_pendigits*", "uci_satellite", "olive_*", "wine27"),
    "uci": ("uci_*", "other_iris"),
    "counts": ("text_*",),
}
"""As in docs/benchmarks.md; what else is public is of the kind that its name begins with."""


@dataclass(frozen=True)
class Entry:
    """A set of the ledger."""

    name: str
    kind: str
    draw: Callable[[], Drawn]
    spec: str
    """What the data depend on: fits of another spec are not fits to the same data. Whoever changes how data are drawn
    changes this, too."""


GENERATE = ((2, 20, 50), (3, 40, 20), (5, 40, 10), (10, 20, 10))
"""Dimension, clusters and spread of the paper's sets."""
GENERATE_POINTS, GENERATE_SEEDS = 20_000, (1, 2, 3)


def all_entries(data: Path) -> list[Entry]:
    """Every set that is here; those of `data` only where that folder exists."""
    whole = [*bundled(data), *public(data / "public"), *generated()]
    tenths = [small for entry in whole for small in tenth(entry, rows_of(entry, data))]
    cells = [Entry(cell.name, "cells", functools.partial(draw_cell, cell), repr(cell)) for cell in CELLS]
    shapes = [Entry(one.name, "shapes", functools.partial(draw_shapes, one), repr(one)) for one in SHAPES]
    return [*cells, *shapes, *hundreds(), *whole, *tenths]


def generated() -> Iterator[Entry]:
    for dim, clusters, spread in GENERATE:
        for seed in GENERATE_SEEDS:
            made = functools.partial(draw_generate, dim, clusters, spread, seed)
            yield Entry(f"generate_{dim}_{clusters}_{spread}_{seed}", "generate", made, f"{GENERATE_POINTS} points")


def hundreds() -> list[Entry]:
    return [
        Entry("hundred_curve", "hundred", draw_curve, "1"),
        Entry("hundred_grid", "hundred", draw_grid, "1"),
        Entry("integers", "integers", draw_integers, "1"),
        Entry("topics", "counts", draw_topics, "1"),
    ]


def bundled(data: Path) -> Iterator[Entry]:
    yield Entry("example", "bundled", draw_example, "1")
    for name in SHIPPED_SETS:
        yield Entry(name, "bundled", functools.partial(read_bundled, name), "1")
    if (path := data / "mnist_test_pca20.npz").exists():
        yield Entry(
            "mnist_pca20", "bundled", functools.partial(read_public, str(path), 10_000), f"{path.stat().st_size}"
        )


def public(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.glob("*.npz")):
        reading = functools.partial(read_public, str(path), MOST_ROWS)
        yield Entry(path.stem, battery_of(path.stem, KINDS), reading, f"{MOST_ROWS} of {path.stat().st_size}")


def rows_of(entry: Entry, data: Path) -> int:
    """How many rows a set has, as cheaply as can be known."""
    if entry.kind == "generate":
        return GENERATE_POINTS
    path = data / "public" / f"{entry.name}.npz"
    if not path.exists():
        return entry.draw().X.shape[0] if entry.name in SHIPPED_SETS else 10_000
    # Files in a zip archive are read when they are asked for: not X, which may be large.
    with np.load(path, allow_pickle=False) as arrays:
        return min(len(arrays["y"]), MOST_ROWS)


def tenth(entry: Entry, rows: int) -> list[Entry]:
    """The same set at a tenth of its rows, if that leaves enough."""
    if rows < 10 * FEWEST_OF_A_TENTH:
        return []
    return [Entry(entry.name + TENTH, "tenth", functools.partial(draw_tenth, entry.draw), entry.spec)]


def draw_tenth(draw: Callable[[], Drawn]) -> Drawn:
    X, y, _ = draw()
    rows = chosen(X.shape[0], X.shape[0] // 10)
    return Drawn(X[rows], y[rows])


def chosen(total: int, wanted: int) -> Any:
    """Some rows at random, always the same ones, in their order."""
    return np.sort(np.random.default_rng(1).choice(total, wanted, replace=False))


def draw_example() -> Drawn:
    data = read_example()
    return Drawn(data.X, data.y)


def read_bundled(name: str) -> Drawn:
    found = read_shipped(f"{SHIPPED}:{name}")
    return Drawn(found.X, found.y)


def read_public(path: str, most: int) -> Drawn:
    found = read_npz(path)
    if found.total <= most:
        return Drawn(found.X, found.y)
    rows = chosen(found.total, most)
    return Drawn(found.X[rows], found.y[rows])


def draw_generate(dim: int, clusters: int, spread: float, seed: int) -> Drawn:
    data = generate(dim, clusters, GENERATE_POINTS, spread, seed)
    logs = log_densities(data.X.astype(float), data.means, data.covariances, "normal") + np.log(data.weights)
    return Drawn(data.X, data.y, ari(data.y, logs.argmax(axis=1)))
