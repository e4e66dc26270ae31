"""The data of a chain whose points and labels are on workers, with the interface of `sampler.data`.

Drawn parameters go out and sums come back: O(K D^2) numbers for each worker, for any number of points. Commands that
only change labels wait for the next question, so most iterations take one call.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.backends.dask.calls import LabelFiles, Log
from dpmmwrap.backends.dask.cluster import COPY_EVERY
from dpmmwrap.backends.dask.part import Command
from dpmmwrap.backends.dask.points import RemotePoints, put_together, stacked
from dpmmwrap.families.base import Points, Statistics, put
from dpmmwrap.families.points import FamilyPoints
from dpmmwrap.files import InputError
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.ordered_sums import total_of
from dpmmwrap.numerics.rules import GivenSides, OrElse, Rule
from dpmmwrap.sampler.data import Data, SomeRows, Unions
from dpmmwrap.sampler.partition import weights_prior
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import Best, LabelStore, State, SublabelStore

STARTS = "on Dask init should be splitnet, kmeans or random: another start needs all points of a cluster in one place"


class ParameterTables(NamedTuple):
    """Drawn parameters as they are sent, and as tables for the client's loops."""

    parameters: Any
    tables: Any


class RemoteLabels(NamedTuple):
    """The best labels of a chain, on the workers."""

    chain: int
    name: str = "best_labels"
    offset: int = 0

    def __sub__(self, offset: Any) -> RemoteLabels:
        return self._replace(offset=self.offset + int(offset))


class RemoteMembers:
    """The rows of a cluster: their count, and the numbers of any of them."""

    def __init__(self, data: RemoteData, cluster: int, count: int, sizes: dict[int, int], origin: Any) -> None:
        self.data, self.cluster, self.count, self.sizes, self.origin = data, cluster, count, sizes, origin
        self.edges = np.cumsum([0, *sizes.values()])

    def __len__(self) -> int:
        return int(self.edges[-1])

    def __getitem__(self, ranks: Any) -> IntArray:
        """The row numbers at some positions among the cluster's rows, which are sorted."""
        ranks = np.asarray(ranks, np.int64)
        of_part = np.searchsorted(self.edges, ranks, side="right") - 1
        wanted = {part: ranks[of_part == at] - self.edges[at] for at, part in enumerate(self.sizes)}
        answers = self.data.ask("rows", self.cluster, self.count, wanted)
        rows = np.empty(len(ranks), np.int64)
        for at, part in enumerate(self.sizes):
            rows[of_part == at] = answers[part]
        return rows


class RemoteData(Data):
    """The points of a fit and the labels of one of its chains, on workers."""

    X: RemotePoints

    def __init__(self, X: RemotePoints, chain: int, settings: Settings) -> None:
        prior = settings.prior
        # The family's loops over a single point, for everything that does not concern points.
        super().__init__(prior.points(X[np.zeros(1, np.int64)], settings.n_jobs, missing=X.missing))
        self.X, self.chain, self.n_rows = X, chain, X.shape[0]
        self.settings = settings
        self.waiting: list[Command] = []
        """Commands that will be sent with the next question."""

    def points_of(self, points: Points) -> FamilyPoints:
        """The family's loops over points on the client."""
        family_points: FamilyPoints = self.settings.prior.points(points, 1, missing=self.X.missing)
        return family_points

    # Talking to the workers.

    def tell(self, name: str, *arguments: Any) -> None:
        """Give a command without a reply. It is sent with the next question."""
        self.waiting.append((name, arguments))

    def have(self, name: str, *arguments: Any) -> list[Any]:
        """Give a command. Returns the reply of each part."""
        commands, self.waiting = [*self.waiting, (name, arguments)], []
        return list(self.X.cluster.ask(self.chain, commands).values())

    def ask(self, name: str, *arguments: Any) -> dict[int, Any]:
        """Ask a question. Returns the answer of each part."""
        commands, self.waiting = self.waiting, []
        return self.X.cluster.ask(self.chain, commands, (name, arguments))

    def total(self, parts: Any) -> tuple[Any, ...]:
        """Sums over all parts, in their fixed order."""
        nodes = {node: sums for part in parts for node, sums in part.items()}
        return total_of(self.points.unpacked(nodes))

    def end_iteration(self, iteration: int) -> None:
        """Copy the labels to other workers every few iterations."""
        self.X.cluster.doing = f"iteration {iteration}"
        if iteration % COPY_EVERY == 0:
            self.flush()
            self.X.cluster.copy_labels(self.chain)

    def flush(self) -> None:
        """Send the commands that wait."""
        if self.waiting:
            *self.waiting, last = self.waiting
            self.have(last[0], *last[1])

    # Parameters are sent as they are drawn; each worker makes its tables.

    def draw_parameters(self, state: State, key: Any) -> ParameterTables:
        drawn = self.points.draw_parameters(state.model, weights_prior(state, key), state.known, key)
        return ParameterTables(drawn, self.points.tables(drawn))

    def tables_for_merges(self, tables: ParameterTables) -> ParameterTables:
        return tables

    def draw_clusters(self, state: State, key: Any) -> ParameterTables:
        clusters, count = state.collapsed, state.n_clusters
        drawn = self.points.draw_clusters(state.model, weights_prior(state, key), clusters, count, key)
        return ParameterTables(drawn, self.points.cluster_tables(drawn))

    # Sums over points.

    def sweep(self, state: State, tables: ParameterTables, key: Any, greedy: bool) -> tuple[Statistics, Float64Array]:
        parts = self.have("sweep", tables.parameters, key, greedy)
        return self.points.finish_sweep(self.total(parts), tables.tables)

    def sweep_labels(self, state: State, tables: ParameterTables, key: Any) -> Statistics:
        parts = self.have("sweep_labels", tables.parameters, key)
        return self.points.finish_labels(self.total(parts), tables.tables)

    def add_reverse_proposal_log_prob(
        self, state: State, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Float64Array:
        answers = self.ask("pairs", state.tables.parameters, one, other, margins)
        (total,) = total_of({node: sums for part in answers.values() for node, sums in part.items()})
        return np.asarray(margins + total)

    def members(self, state: LabelStore, clusters: IntArray, count: int | None = None) -> list[Any]:
        count = state.n_clusters if count is None else count
        answers = self.ask("sizes", clusters, count)
        members = []
        for index, cluster in enumerate(clusters.tolist()):
            sizes = {part: int(its_sizes[index]) for part, (its_sizes, _) in answers.items()}
            # The first point of the cluster, as on one machine; for an empty cluster, the first of all points.
            first = next((part for part, size in sizes.items() if size), next(iter(sizes)))
            points = answers[first][1]
            members.append(RemoteMembers(self, cluster, count, sizes, None if points is None else points[index]))
        return members

    def divide(self, state: State, clusters: IntArray, members: Sequence[Any], rules: Sequence[Rule]) -> Statistics:
        if any(isinstance(rule, GivenSides) for rule in rules):
            raise ValueError(STARTS)
        # Without the rules that replace others if a side is empty, which no part can know.
        count, firsts = members[0].count, [rule.rule if isinstance(rule, OrElse) else rule for rule in rules]
        statistics = self._divided(clusters, count, firsts, members)
        sides = statistics.counts.reshape(-1, 2)
        again = np.array(
            [index for index, rule in enumerate(rules) if isinstance(rule, OrElse) and sides[index].min() == 0], int
        )
        if len(again):
            others = [rules[index].otherwise for index in again]
            anew = self._divided(clusters[again], count, others, [members[index] for index in again])
            put(statistics, (2 * again[:, None] + [0, 1]).ravel(), anew)
        return statistics

    def _divided(self, clusters: IntArray, count: int, rules: list[Rule], members: Sequence[Any]) -> Statistics:
        origins = None if members[0].origin is None else np.array([one.origin for one in members])
        parts = self.have("divide", np.asarray(clusters), count, rules, origins)
        return self.points.finish_sides(self.total(parts), origins)

    # Labels.

    def begin_labels(self, state: LabelStore, first: Any, key: Any) -> IntArray:
        if isinstance(first, np.ndarray):
            self.X.give("first labels", first)
            first = "first labels"
        answers = self.have("begin", first, key)
        counts = np.zeros(max(map(len, answers)), np.int64)
        for its_counts in answers:
            counts[: len(its_counts)] += its_counts
        return counts

    def relabel(self, state: SublabelStore, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        self.tell("relabel", to_label, to_sublabel)

    def map_labels(self, state: LabelStore, to_label: IntArray) -> None:
        if not np.array_equal(to_label, np.arange(len(to_label))):
            self.tell("map_labels", to_label)

    def remember(self, state: LabelStore) -> None:
        self.tell("remember")

    def changes(self, state: LabelStore, were: int, are: int) -> IntArray:
        return np.asarray(sum(self.ask("changes", were, are).values()))

    def refuse_to_empty(self, state: State) -> Any:
        """As on one machine, but only with the rows that join or leave a cluster that loses all its rows."""
        parts = list(self.ask("deserted", state.n_clusters).values())
        had, staying = (np.sum([part[which] for part in parts], axis=0) for which in range(2))
        deserted = np.flatnonzero((had > 0) & (staying == 0))
        deserted = deserted[deserted >= state.model.outliers]
        if not len(deserted):
            return []
        moved = list(self.ask("leaving", deserted).values())
        rows, before, now = (np.concatenate([part[which] for part in moved]) for which in range(3))
        refused, empties = [], set(deserted.tolist())
        for row, old, new in zip(rows.tolist(), before.tolist(), now.tolist(), strict=True):
            if old in empties and had[old] == 1:
                refused.append((row, old, new))
            else:
                had[old] -= 1
                had[new] += 1
        if refused:
            self.tell("put", *(np.array(column) for column in list(zip(*refused, strict=True))[:2]))
        return refused

    def table_with(self, state: State, truth: IntArray) -> IntArray:
        self.X.give("truth", truth)
        return np.asarray(sum(self.ask("table", "truth", int(truth.max()) + 1, state.n_clusters).values()))

    def best_of(self, state: State, log_posterior: float) -> Best:
        self.tell("keep_best")
        labels: Any = RemoteLabels(self.chain)
        sublabels = labels._replace(name="best_sublabels")
        return Best(log_posterior, labels, sublabels, state.partition_prior, state.model.prior)

    # Checkpoints: workers write and read the labels, in separate files.

    def saved_labels(self, state: State, path: Path) -> dict[str, Any]:
        self.flush()
        cluster, name = self.X.cluster, f"{path.name}.labels-{state.iteration}-{uuid.uuid4().hex[:8]}"
        answers = cluster.each(lambda part: ("write_labels", self.chain, str(path.parent), name))
        files = list(answers.values())
        done = len(cluster.logs[self.chain])
        self.written = LabelFiles(str(path.parent), files, done, state.n_clusters)
        return {"labels": np.array(files), "sublabels": np.array([done, state.n_clusters])}

    def have_saved(self, path: Path) -> None:
        self.X.cluster.saved[self.chain] = self.written
        current = set(self.written.files)
        for file in path.parent.glob(f"{path.name}.labels-*.npz"):
            if file.name not in current:
                file.unlink(missing_ok=True)

    def restored_labels(self, state: State, arrays: dict[str, Any]) -> tuple[Any, Any]:
        assert self.settings.checkpoint is not None
        done, count = map(int, arrays["sublabels"])
        folder, files = self.settings.checkpoint.parent, [str(file) for file in arrays["labels"]]
        missing = [file for file in files if not (folder / file).exists()]
        if missing:
            raise InputError(f"{folder / missing[0]} should hold labels of the checkpoint, and is not there")
        cluster = self.X.cluster
        cluster.logs[self.chain] = Log(done)
        cluster.saved[self.chain] = saved = LabelFiles(str(folder), files, done, count)
        cluster.each(lambda part: ("read_labels", self.chain, *saved))
        labels = RemoteLabels(self.chain)
        return labels, labels._replace(name="best_sublabels")

    # Single points.

    def take(self, rows: IntArray) -> Points:
        return self.X[rows]

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        self.points_of(self.X[np.array([row])]).add_to_statistics(statistics, k, 0, sign)

    def put_back(self, statistics: Statistics, row: int, stays: int, wanted: int, tables: Any, key: Any) -> None:
        self.points_of(self.X[np.array([row])]).put_back(statistics, 0, stays, wanted, tables, key)

    def some_rows(self, state: State, rows: IntArray) -> SomeRows:
        numbers, inverse = np.unique(rows, return_inverse=True)
        parts = list(self.ask("rows_and_labels", numbers).values())
        points = put_together([part[:2] for part in parts], numbers.shape)
        labels = put_together([part[::2] for part in parts], numbers.shape)
        self.gathered = labels.copy()
        return SomeRows(self.points_of(points).loop_points, labels, inverse.reshape(-1), numbers)

    def labels_at(self, state: State, rows: IntArray) -> IntArray:
        labels: IntArray = put_together(list(self.ask("labels_at", rows).values()), rows.shape)
        return labels

    def unions(self, state: State, pairs: IntArray, one: IntArray, other: IntArray, wanted: Any) -> Unions:
        both = [np.unique([a, b]) for a, b in zip(one[wanted], other[wanted], strict=True)]
        clusters = np.concatenate([np.empty(0, np.int64), *both]).astype(np.int64)
        if not len(clusters):
            points = self.points.loop_points
            return Unions(np.zeros(1, np.int64), clusters, points, np.empty(0, np.int32), pairs[wanted], clusters)
        answers = self.ask("unions", clusters, state.n_clusters)
        pieces = [piece for part in answers.values() for piece in part]
        numbers = np.concatenate([rows for rows, _ in pieces])
        labels = np.repeat(np.tile(clusters, len(answers)), [len(rows) for rows, _ in pieces])
        order = np.argsort(numbers)
        numbers, labels = numbers[order], labels[order].astype(np.int32)
        points = stacked([points for _, points in pieces])[order]
        rows = [np.flatnonzero(np.isin(labels, union)) for union in both]
        starts = np.cumsum([0, *map(len, rows)])
        self.gathered = labels.copy()
        return Unions(
            starts, np.concatenate(rows), self.points_of(points).loop_points, labels,
            np.searchsorted(numbers, pairs[wanted]), numbers,
        )  # fmt: skip

    def put_labels(self, state: State, changed: SomeRows | Unions) -> None:
        which = np.flatnonzero(changed.labels != self.gathered)
        assert changed.numbers is not None
        if len(which):
            self.tell("put", changed.numbers[which], changed.labels[which])

    def digest(self) -> str:
        import hashlib

        words = sorted(word for part in self.X.cluster.ask_points("digests") for word in part)
        return hashlib.blake2b("".join(word for _, word in words).encode(), digest_size=16).hexdigest()
