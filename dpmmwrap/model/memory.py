"""What a model keeps of the rows that it has seen: all that `partial_fit` needs to add others."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse

from dpmmwrap.families import prior_from_fields, prior_named
from dpmmwrap.families.base import Points, Prior, Statistics, concatenate, nothing_like
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.families.learned.hyperprior import hyperprior_arrays, hyperprior_from
from dpmmwrap.families.screening import log_joint
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.files import read_arrays
from dpmmwrap.numerics.arrays import Float64Array, IntArray

if TYPE_CHECKING:
    from dpmmwrap.partitions import PartitionPrior

PREFIX = "kept_"
KINDS = ("birth", "merge", "split", "death")


class Event(NamedTuple):
    """A change of the clusters in a batch."""

    batch: int
    """From 1."""
    kind: str
    """"birth", "merge", "split" or "death"."""
    cluster: int
    """The id of the cluster that is born, is absorbed, splits off, or dies."""
    other: int = -1
    """The id of the cluster that absorbed it, or that it split from; -1 for none."""


class Pieces(NamedTuple):
    """The pieces (`streams.pieces`), apart from their statistics."""

    labels: IntArray
    """The cluster of each."""
    sides: IntArray
    """The subcluster."""
    ids: IntArray
    """Numbers that last, from 0."""
    rows: Points = None
    """A row of each; the other rows are near it."""


class Window(NamedTuple):
    """Rows that are free, as the family stores them, in the order in which they came."""

    points: Points
    labels: IntArray
    numbers: IntArray
    """Their places among all rows, from 0."""
    certainty: Float64Array
    """How probable the cluster of each was, when that was last computed."""
    weights: Float64Array | None = None

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    def part(self, some: slice | IntArray) -> Window:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[some]
        return Window(self.points[some], self.labels[some], self.numbers[some], self.certainty[some], weights)

    def without(self, gone: IntArray) -> Window | None:
        """The other rows; None if there are none."""
        stays = np.setdiff1d(np.arange(self.n_rows), gone)
        return self.part(stays) if len(stays) else None


@dataclass(frozen=True)
class Memory:
    """The clusters of a fit by the statistics of their rows; labels are the mixture's.

    Rows that have left the window are kept as pieces, several for each cluster. The rows of a piece stay together.
    """

    statistics: Statistics
    """Of the pieces; a cluster may have none."""
    prior: Prior
    """Of the points, which are rows minus the offset."""
    partition: PartitionPrior | str
    """The prior over partitions, or its text in a file: predictions need neither it nor its imports."""
    hyperprior: LearnedPrior | None = None
    offset: Float64Array = field(default_factory=lambda: np.zeros(1))
    steps: Float64Array | None = None
    """Steps of the columns of few values, to which noise is added; None for none."""
    pieces: Pieces = field(default_factory=lambda: Pieces(*np.empty((3, 0), np.int64)))
    ids: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """The lasting id of each cluster."""
    aliases: IntArray = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Pieces that were joined to others, with the ids of these; `of_cluster` for forgotten pieces."""
    next_id: int = 0
    next_piece: int = 0
    next_row: int = 0
    """How many rows have come, those without values among them."""
    batches: int = 1
    searched: float = 0.0
    """The rows seen when the clusters were last searched at length."""
    digests: tuple[str, ...] = ()
    """Of the batches."""
    history: tuple[Event, ...] = ()
    window: Window | None = None
    clock: float = float("nan")
    """The time of the last batch, where there is one."""

    @classmethod
    def begin(
        cls, statistics: Statistics, prior: Prior, partition_prior: PartitionPrior, rows: Points = None, **known: Any
    ) -> Memory:
        """After a first batch, with whole clusters as pieces. Clusters are called by their numbers; `rows` has one of
        each."""
        numbers = np.arange(len(statistics.counts))
        pieces = Pieces(numbers, np.zeros_like(numbers), numbers, rows)
        seen = float(statistics.counts.sum())
        memory = cls(statistics, prior, partition_prior, pieces=pieces, next_piece=len(numbers), searched=seen, **known)
        return memory.called(numbers)

    def called(self, ids: IntArray) -> Memory:
        """After a first batch, with these ids."""
        events = tuple(Event(1, "birth", int(name)) for name in ids)
        return replace(self, ids=ids, next_id=int(ids.max(initial=-1)) + 1, history=events)

    @property
    def partition_prior(self) -> PartitionPrior:
        return partition_from(self.partition) if isinstance(self.partition, str) else self.partition

    @property
    def n_clusters(self) -> int:
        return len(self.ids)

    def current(self, ids: Any) -> IntArray:
        """The ids of the clusters that rows of these `row_ids_` are in now; of a cluster that has died its own."""
        clusters = np.arange(self.next_id)
        for event in reversed(self.history):
            if event.kind == "merge":
                clusters[event.cluster] = clusters[event.other]
        pieces = np.full(self.next_piece, -1, np.int64)
        pieces[self.pieces.ids] = self.ids[self.pieces.labels]
        for one, other in reversed(self.aliases.tolist()):
            pieces[one] = pieces[other] if other >= 0 else of_cluster(clusters[of_cluster(other)])
        ids = np.asarray(ids, dtype=np.int64)
        if ids.max(initial=-1) >= self.next_piece or ids.min(initial=0) <= of_cluster(self.next_id):
            raise ValueError("ids should be the row_ids_ of earlier batches of this model")
        found = np.where(ids >= 0, np.append(pieces, -1)[np.maximum(ids, -1)], -1)
        free = ids < -1
        found[free] = clusters[of_cluster(ids[free])]
        return np.where(found < -1, of_cluster(found), found)

    def log_new(self, counts: Float64Array) -> float:
        """log weight of a cluster that was not seen before, for the next row."""
        clusters = int(np.count_nonzero(counts))
        return float(self.partition_prior.log_new(float(counts.sum()) + 1.0, clusters + 1)[clusters])

    def log_densities(self, whole: Statistics, points: Points) -> Float64Array:
        """log of weight times predictive density of rows, of each cluster and, last, of one that is not there yet."""
        every = self.prior.posterior(concatenate([whole, nothing_like(whole, 1)]))
        sizes = np.log(np.maximum(whole.counts + self.partition_prior.shift, 1e-300))
        return log_joint(every, points, np.append(sizes, self.log_new(whole.counts)))

    # Files.

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file."""
        found: dict[str, Any] = {
            f"statistics_{name}": getattr(self.statistics, name) for name in self.statistics._fields
        }
        found |= {f"prior_{name}": getattr(self.prior, name) for name in self.prior.FIELDS}
        found |= {f"hyperprior_{name}": a for name, a in hyperprior_arrays(self.hyperprior).items()}
        found |= {"offset": self.offset, "ids": self.ids, "clock": np.array([self.clock, self.searched])}
        found |= {"pieces": np.array(self.pieces[:3]), "aliases": self.aliases}
        found |= {} if self.pieces.rows is None else points_arrays(self.pieces.rows, "rows")
        found |= {} if self.steps is None else {"steps": self.steps}
        found["numbers"] = np.array([self.next_id, self.batches, self.next_piece, self.next_row])
        found["digests"] = np.array(self.digests, dtype=str)
        found["events"] = np.array([(e.batch, KINDS.index(e.kind), e.cluster, e.other) for e in self.history]).reshape(
            -1, 4
        )
        found["partition_prior"] = np.array(partition_text(self.partition_prior))
        if self.window is not None:
            window = self.window
            found |= {f"window_{name}": getattr(window, name) for name in WINDOW} | points_arrays(
                window.points, "window"
            )
            found |= {} if window.weights is None else {"window_weights": window.weights}
        return {PREFIX + name: np.asarray(array) for name, array in found.items()}

    @classmethod
    def read(cls, path: str | Path, family: str) -> Memory | None:
        """From a file that holds `arrays`, or None from one that does not."""
        if not read_arrays(path, required=(), optional=(f"{PREFIX}numbers",)):
            return None
        prior = prior_named(family)
        names = [f"prior_{name}" for name in prior.FIELDS]
        required = (
            *names,
            "offset",
            "ids",
            "clock",
            "numbers",
            "digests",
            "events",
            "partition_prior",
            "pieces",
            "aliases",
        )
        statistics: Any = prior.STATISTICS
        fields_of = [f"statistics_{name}" for name in statistics._fields]
        optional = (*HYPERPRIOR, *(f"window_{name}" for name in WINDOW), "window_weights", *POINTS, "steps")
        found = read_arrays(
            path,
            required=[PREFIX + name for name in (*required, *fields_of)],
            optional=[PREFIX + name for name in optional],
        )
        arrays = {name.removeprefix(PREFIX): array for name, array in found.items()}
        own = prior_from_fields(family, [plain(arrays[name]) for name in names])
        kept = statistics(*(arrays[name] for name in fields_of))
        if len(kept.counts) != arrays["pieces"].shape[1] or not all(np.isfinite(array).all() for array in kept):
            raise ValueError("what it keeps of its rows does not belong together")
        next_id, batches, next_piece, next_row = (int(number) for number in arrays["numbers"])
        clock, searched = arrays["clock"].tolist()
        labels, sides, own_ids = arrays["pieces"]
        pieces, window = Pieces(labels, sides, own_ids, points_from(arrays, "rows")), None
        if "window_labels" in arrays:
            of_rows: Any = {name: arrays[f"window_{name}"] for name in WINDOW}
            window = Window(points_from(arrays, "window"), **of_rows, weights=arrays.get("window_weights"))
        return cls(
            kept, own, str(arrays["partition_prior"]), hyperprior_from(own, arrays, "hyperprior_"),
            arrays["offset"], arrays.get("steps"), pieces, arrays["ids"],
            arrays["aliases"], next_id, next_piece, next_row, batches, searched,
            tuple(str(word) for word in arrays["digests"]),
            tuple(Event(int(batch), KINDS[kind], int(one), int(other)) for batch, kind, one, other in arrays["events"]),
            window, clock,
        )  # fmt: skip


HYPERPRIOR = tuple(f"hyperprior_{name}" for name in ("mean", "variances", "fixed", "cells"))
WINDOW = ("labels", "numbers", "certainty")
PARTS = ("points", "codes", "indices", "indptr", "shape")
POINTS = tuple(f"{of}_{part}" for of in ("rows", "window") for part in PARTS)


def of_cluster(number: Any) -> Any:
    """The id of rows that are free, or are forgotten, by that of their cluster; and the other way round."""
    return -2 - number


def plain(array: Any) -> Any:
    """A number as one, and an array as it is."""
    return array.item() if array.ndim == 0 else array


def points_arrays(points: Points, name: str) -> dict[str, Any]:
    """Rows as plain arrays with a name in front."""
    if isinstance(points, TablePoints):
        found = {"points": points.numeric, "codes": points.codes}
    elif scipy.sparse.issparse(points):
        found = {"points": points.data, "indices": points.indices, "indptr": points.indptr, "shape": points.shape}
    else:
        found = {"points": points}
    return {f"{name}_{part}": array for part, array in found.items()}


def points_from(arrays: dict[str, Any], name: str) -> Points:
    """The inverse; None where there are none."""
    parts: list[Any] = [arrays.get(f"{name}_{part}") for part in PARTS]
    points, codes, indices, indptr, shape = parts
    if codes is not None:
        return TablePoints(points, codes)
    return points if shape is None else scipy.sparse.csr_matrix((points, indices, indptr), tuple(shape))


def partition_text(prior: PartitionPrior) -> str:
    """A prior over partitions, as it stands, in a line."""
    values = {one.name: getattr(prior, one.name) for one in fields(prior)}  # type: ignore[arg-type]
    return json.dumps({"name": prior.name, **values})


def partition_from(text: str) -> PartitionPrior:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
    }
    from dpmmwrap.partitions import BY_NAME

    kind: Any = BY_NAME[values.pop("name")]
    made: PartitionPrior = kind(**values)
    return made


def digest_of(prior: Prior, points: Points, weights: Float64Array | None = None) -> str:
    """A word that no other batch has."""
    found: str = prior.points(points, 1, weights=weights).digest()
    return found


def joined_points(parts: list[Points]) -> Points:
    """Rows of several pieces, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], TablePoints):
        return TablePoints(
            np.concatenate([part.numeric for part in parts]), np.concatenate([part.codes for part in parts])
        )
    if any(map(scipy.sparse.issparse, parts)):
        return scipy.sparse.vstack(parts, format="csr")
    return np.concatenate(parts)
