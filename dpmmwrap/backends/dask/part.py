"""A part of the data on a worker: some groups of chunks, with the labels of all chains.

All parts execute the same commands. A part that was lost with its worker is loaded again and repeats the commands: then
it is the same as before, bit for bit.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.learned.ties import spread_ties
from dpmmwrap.files import write_npz
from dpmmwrap.model.inputs import canonical, to_float32
from dpmmwrap.numerics.arrays import IntArray, UInt8Array
from dpmmwrap.numerics.chunks import Stretch
from dpmmwrap.numerics.digests import digest
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.numerics.ordered_sums import Nodes, merge_nodes, reduce_groups
from dpmmwrap.numerics.rules import Rule
from dpmmwrap.sampler.data import Data

Command = tuple[str, tuple[Any, ...]]
"""The name of a command, and its arguments."""


class Recipe(NamedTuple):
    """How the points of a fit are made from rows as they arrived."""

    kept: IntArray | None = None
    """The columns that are used; None for all."""
    offset: Any = None
    """What is subtracted from numeric features first; None for counts."""
    steps: Any = None
    """The width of the noise that dithers discrete columns; None for none."""
    prior: Any = None
    """The family; None until it is known."""
    missing: bool = False
    """Whether any part has missing values."""


STORED = {"labels": np.int32, "sublabels": np.uint8, "best_labels": np.int32, "best_sublabels": np.uint8}


@dataclass
class Labels:
    """The labels of one chain."""

    labels: IntArray
    sublabels: UInt8Array
    n_clusters: int = 1
    by_label: LabelOrder | None = None
    before: Any = None
    best_labels: Any = None
    best_sublabels: Any = None
    done: int = 0
    """The number of commands that have been executed."""
    reply: Any = None
    """The reply to the last of them."""

    def stored(self) -> dict[str, Any]:
        """The labels, in as few bytes as possible; to call between commands."""
        arrays = {}
        for name in STORED:
            values = getattr(self, name)
            if values is not None:
                narrow = (
                    kind for kind in (np.uint8, np.uint16, np.int32) if values.max(initial=0) <= np.iinfo(kind).max
                )
                arrays[name] = values.astype(next(narrow))
        return arrays

    @classmethod
    def restored(cls, done: int, n_clusters: int, arrays: dict[str, Any]) -> Labels:
        """The labels as they were when they were stored."""
        wide: Any = {name: np.array(values, STORED[name]) for name, values in arrays.items()}
        return cls(n_clusters=n_clusters, done=done, **wide)


@dataclass
class Part:
    """Some rows, with the labels that each chain gives them."""

    number: int
    stretch: Stretch
    n_jobs: int
    rows: Any = None
    """The rows as they arrived; None after the points were made."""
    pieces: list[tuple[int, Any]] = field(default_factory=list)
    """Pieces of sparse rows, each with the number of its first row."""
    arrived: int = 0
    points: Any = None
    finite: bool = True
    is_spread: bool = False
    data: Data = field(init=False)
    """With the loops of the family, once that is known."""
    chains: dict[int, Labels] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    """Labels that the user gave, by purpose."""

    # Rows in.

    def put_rows(self, begin: int, rows: Any) -> int:
        """Store rows from the position `begin`. Returns their number."""
        if hasattr(rows, "indptr"):
            self.pieces.append((begin, rows))
        else:
            if self.rows is None:
                self.rows = np.empty((self.stretch.n_rows, rows.shape[1]), rows.dtype)
            self.rows[begin : begin + len(rows)] = rows
        self.arrived += rows.shape[0]
        return int(rows.shape[0])

    def complete(self) -> bool:
        """Whether all rows have arrived."""
        if self.pieces and self.arrived == self.stretch.n_rows:
            from scipy.sparse import vstack

            self.rows = vstack([piece for _, piece in sorted(self.pieces, key=lambda one: one[0])], format="csr")
            self.pieces = []
        return self.arrived == self.stretch.n_rows and (self.rows is not None or self.points is not None)

    def follow(self, recipe: Recipe) -> bool:
        """Make the points, once; whether all of them are finite in single precision."""
        rows = self.rows
        if rows is None:
            return self.finite
        if recipe.offset is not None:
            kept = rows if recipe.kept is None else rows[:, recipe.kept]
            self.points = np.ascontiguousarray(to_float32(kept, recipe.offset))
        elif hasattr(rows, "indptr"):
            self.points = canonical(rows).astype(np.float32, copy=False)
        else:
            self.points = np.ascontiguousarray(rows, np.float32)
        self.rows = None
        self.finite = not bool(np.isinf(self.points.data if hasattr(self.points, "indptr") else self.points).any())
        if recipe.steps is not None:
            self.spread(recipe.steps)
        if recipe.prior is not None:
            self.make_data(recipe.prior, recipe.missing)
        return self.finite

    def spread(self, steps: Any) -> None:
        """Dither discrete columns, once."""
        if not self.is_spread:
            self.points, self.is_spread = spread_ties(self.points, steps, self.stretch.first_row), True

    def make_data(self, prior: Any, missing: bool) -> None:
        """With the loops of a family."""
        self.data = Data(prior.points(self.points, self.n_jobs, self.stretch, missing))

    def give(self, name: str, values: Any) -> None:
        """Store labels that the user gave."""
        self.given[name] = values

    def close(self) -> None:
        if hasattr(self, "data"):
            self.data.close()

    # Questions about points.

    def look(self) -> tuple[int, bool, bool]:
        """The number of missing values, whether all others are finite, and whether none is below zero."""
        values = self.rows.data if hasattr(self.rows, "indptr") else self.rows
        missing, finite, positive = 0, True, True
        for begin in range(0, len(values), 1 << 16):
            some = values[begin : begin + (1 << 16)]
            missing += int(np.isnan(some).sum())
            finite &= not bool(np.isinf(some).any())
            positive &= not bool((some < 0).any())
        return missing, finite, positive

    def gaps(self) -> int:
        """The number of missing values of the points."""
        return int(np.isnan(self.points).sum())

    def extremes(self, columns: list[int]) -> tuple[Any, Any]:
        """The least and the greatest value of some columns."""
        values = self.rows[:, columns]
        return np.nanmin(values, axis=0), np.nanmax(values, axis=0)

    def find(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The row numbers that are in this part: their indices in `rows`, and their positions in the part."""
        here = rows - self.stretch.first_row
        indices = np.flatnonzero((here >= 0) & (here < self.stretch.n_rows))
        return indices, here[indices]

    def take(self, rows: IntArray) -> tuple[IntArray, Any]:
        """The points of the row numbers that are in this part, with their indices in `rows`."""
        indices, here = self.find(rows)
        return indices, (self.points if self.rows is None else self.rows)[here]

    def digests(self) -> list[tuple[int, str]]:
        """A word for each group of rows."""
        edges = self.data.chunks.group_rows()
        words = []
        for group in range(len(edges) - 1):
            rows = self.points[edges[group] : edges[group + 1]]
            arrays = (rows.indptr, rows.indices, rows.data) if hasattr(rows, "indptr") else (rows,)
            word = hashlib.blake2b("".join(map(digest, arrays)).encode(), digest_size=16).hexdigest()
            words.append((self.stretch.first_group + group, word))
        return words

    # Labels in files that all machines see.

    def sees(self, path: str) -> bool:
        """Whether this worker sees a file."""
        return Path(path).exists()

    def write_labels(self, chain: int, folder: str, name: str) -> str:
        """Write the labels of a chain. Returns the name of the file."""
        begin = self.stretch.first_row
        file = f"{name}.{begin}-{begin + self.stretch.n_rows}.npz"
        write_npz(Path(folder) / file, self.state_of(chain).stored())
        return file

    def read_labels(self, chain: int, folder: str, files: list[str], done: int, count: int) -> None:
        """Read the labels of a chain from files that any number of workers may have written."""

        def rows_in(name: str) -> list[int]:
            return [int(row) for row in name.removesuffix(".npz").rsplit(".", 1)[1].split("-")]

        begin, end = self.stretch.first_row, self.stretch.first_row + self.stretch.n_rows
        stored: dict[str, list[Any]] = {}
        for name in sorted(files, key=rows_in):
            first, last = rows_in(name)
            if first < end and last > begin:
                with np.load(Path(folder) / name, allow_pickle=False) as arrays:
                    for array in arrays:
                        some = arrays[array][max(begin - first, 0) : end - first]
                        stored.setdefault(array, []).append(some)
        whole = {name: np.concatenate(pieces) for name, pieces in stored.items()}
        self.chains[chain] = Labels.restored(done, count, whole)

    # Commands of a chain, which change labels.

    def state_of(self, chain: int) -> Labels:
        if chain not in self.chains:
            rows = self.stretch.n_rows
            self.chains[chain] = Labels(np.zeros(rows, np.int32), np.zeros(rows, np.uint8))
        return self.chains[chain]

    def command(self, chain: int, first: int, commands: list[Command]) -> Any:
        """Execute commands, the first of which has the number `first`, but not those that were executed before. Returns
        the reply to the last."""
        state = self.state_of(chain)
        for name, arguments in commands[state.done - first :]:
            state.reply = self.handler(f"do_{name}")(state, *arguments)
            state.done += 1
        return state.reply

    def do_begin(self, state: Labels, first: Any, key: Any) -> IntArray:
        given = self.given[first] if isinstance(first, str) else first
        return self.data.begin_labels(state, given, key)

    def do_sweep(self, state: Labels, sent: Any, key: Any, greedy: bool) -> Nodes:
        data, points = self.data, self.data.points
        state.n_clusters = len(sent[0])
        return points.packed(merge_nodes(data.sweep_groups(state, points.tables(sent), key, greedy)))

    def do_sweep_labels(self, state: Labels, sent: Any, key: Any) -> Nodes:
        data, points = self.data, self.data.points
        state.n_clusters = len(sent[0])
        return points.packed(merge_nodes(data.label_groups(state, points.cluster_tables(sent), key)))

    def do_divide(self, state: Labels, clusters: IntArray, count: int, rules: list[Rule], origins: Any) -> Nodes:
        data = self.data
        members = data.members(state, clusters, count)
        sides = [rule(data.rows_of(state, rows)) for rule, rows in zip(rules, members, strict=True)]
        return data.points.packed(merge_nodes(data.points.side_groups(state.sublabels, members, sides, origins)))

    def do_keep_best(self, state: Labels) -> None:
        state.best_labels, state.best_sublabels = state.labels.copy(), state.sublabels.copy()

    def do_put(self, state: Labels, rows: IntArray, labels: IntArray) -> None:
        indices, here = self.find(rows)
        state.labels[here] = labels[indices]
        state.by_label = None

    # Questions about a chain's labels, which change nothing.

    def ask_sizes(self, state: Labels, clusters: IntArray, count: int) -> tuple[IntArray, Any]:
        """The number of points of these clusters, and one point of each, or None."""
        data = self.data
        members = data.members(state, clusters, count)
        return np.array([len(rows) for rows in members], np.int64), data.points.origins_of(members)

    def ask_rows(self, state: Labels, cluster: int, count: int, ranks: dict[int, IntArray]) -> IntArray:
        """The numbers of some rows of a cluster, by their positions among those of this part."""
        (rows,) = self.data.members(state, np.array([cluster]), count)
        return rows[ranks[self.number]].astype(np.int64) + self.stretch.first_row

    def ask_pairs(self, state: Labels, sent: Any, one: IntArray, other: IntArray, margins: Any) -> Nodes:
        state.n_clusters = len(sent[0])
        data, points = self.data, self.data.points
        return merge_nodes(points.pair_groups(data.sort(state), points.tables(sent), one, other, margins))

    def ask_table(self, state: Labels, name: str, values: int, count: int) -> IntArray:
        """The contingency table of the user's labels and the chain's."""
        return table_of(self.given[name], state.labels, values, count)

    def ask_alike(self, state: Labels, other: int, rows: int, columns: int) -> IntArray:
        """The contingency table of the best labels of two chains."""
        return table_of(state.best_labels, self.chains[other].best_labels, rows, columns)

    def ask_best(self, state: Labels) -> tuple[IntArray, UInt8Array]:
        """The best labels and sublabels, for small data."""
        return state.best_labels, state.best_sublabels

    def ask_most(self, state: Labels) -> int:
        """The largest of the best labels."""
        return int(state.best_labels.max())

    def ask_labels_at(self, state: Labels, rows: IntArray) -> tuple[IntArray, IntArray]:
        indices, here = self.find(rows)
        return indices, state.labels[here]

    def ask_rows_and_labels(self, state: Labels, rows: IntArray) -> tuple[IntArray, Any, IntArray]:
        indices, here = self.find(rows)
        return indices, self.points[here], state.labels[here]

    def ask_unions(self, state: Labels, clusters: IntArray, count: int) -> list[tuple[IntArray, Any]]:
        """The row numbers and points of whole clusters."""
        members = self.data.members(state, clusters, count)
        return [(rows.astype(np.int64) + self.stretch.first_row, self.points[rows]) for rows in members]

    def ask_deserted(self, state: Labels, count: int) -> tuple[IntArray, IntArray]:
        """The number of points of each cluster when labels were remembered, and how many of them are still in it."""
        had = np.bincount(state.before, minlength=count)
        return had, np.bincount(state.before[state.before == state.labels], minlength=count)

    def ask_leaving(self, state: Labels, clusters: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Rows that left or joined these clusters since labels were remembered; their labels then and now."""
        touched = np.isin(state.before, clusters) | np.isin(state.labels, clusters)
        rows = np.flatnonzero(touched & (state.before != state.labels))
        return rows + self.stretch.first_row, state.before[rows], state.labels[rows]

    def ask_best_sums(self, state: Labels, count: int, prior: Any, origin: Any) -> Nodes:
        """Sums for the statistics of the best clusters, in double precision."""
        labels, edges = state.best_labels, self.data.chunks.group_rows()
        groups = []
        for begin, end in itertools.pairwise(edges.tolist()):
            rows, some = self.points[begin:end], labels[begin:end]
            groups.append(prior.plain_sums(rows, some, count, origin))
        sums = tuple(np.stack(arrays) for arrays in zip(*groups, strict=True))
        return merge_nodes(reduce_groups(self.stretch.first_group, sums))

    def query(self, chain: int, name: str, arguments: tuple[Any, ...]) -> Any:
        return self.handler(f"ask_{name}")(self.state_of(chain), *arguments)

    def handler(self, name: str) -> Any:
        """A method of this class or, such as `relabel` and `changes`, of the data."""
        return getattr(self, name) if hasattr(self, name) else getattr(self.data, name.partition("_")[2])


def table_of(first: IntArray, second: IntArray, rows: int, columns: int) -> IntArray:
    return np.bincount(first.astype(np.int64) * columns + second, minlength=rows * columns).reshape(rows, columns)
