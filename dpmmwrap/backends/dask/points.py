"""Points on workers, as the client sees them: their shape, and any few rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.backends.dask import worker
from dpmmwrap.backends.dask.cluster import Cluster
from dpmmwrap.backends.dask.part import Recipe
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.sampler import compiling
from dpmmwrap.sampler.settings import Settings, has_few_numbers

MOST_ROWS = 200_000
"""The largest number of rows to ask for at once."""


class RemotePoints:
    """The points of a fit, in parts on workers."""

    is_remote = True

    def __init__(self, cluster: Cluster, shape: tuple[int, int], dtype: Any, sparse: bool) -> None:
        self.cluster, self.shape, self.dtype, self.is_sparse = cluster, shape, np.dtype(dtype), sparse
        self.missing = False
        self.given: set[str] = set()

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("points on workers are never gathered")

    def __getitem__(self, rows: Any) -> Any:
        """Some rows as an array or a sparse matrix, by an array of row numbers of any shape."""
        wanted: IntArray = np.asarray(rows, np.int64)
        if wanted.size > MOST_ROWS:
            raise TypeError(f"{wanted.size:,} rows are too many to bring from the workers at once")
        return put_together(self.cluster.ask_points("take", wanted.ravel()), wanted.shape)

    def everything(self) -> Any:
        """All rows of small data."""
        assert has_few_numbers(self)
        pieces = [self[np.arange(begin, min(begin + MOST_ROWS, len(self)))] for begin in range(0, len(self), MOST_ROWS)]
        return stacked(pieces)

    @staticmethod
    def in_chunks(labels: IntArray, like: Any) -> Any:
        """Labels as a Dask array with the chunks of another."""
        import dask.array as da

        return da.from_array(labels, chunks=like.chunks)

    def spread(self, steps: Any) -> RemotePoints:
        """Add noise of half a step to columns of few values."""
        self._add_to_recipe(steps=steps)
        self.cluster.ask_points("spread", steps)
        return self

    def _add_to_recipe(self, **more: Any) -> None:
        """Extend the recipe, before parts follow it: one may be lost and loaded again meanwhile."""
        recipe = self.cluster.recipe
        assert recipe is not None
        self.cluster.recipe = recipe._replace(**more)

    def follow(self, recipe: Recipe) -> bool:
        """Make the points from the rows as they arrived; whether all are finite."""
        self.missing = recipe.missing
        return self.cluster.follow(recipe)

    def use_family(self, prior: Any) -> None:
        """Give the parts the loops of a family."""
        self._add_to_recipe(prior=prior)
        self.cluster.ask_points("make_data", prior, self.missing)

    def prepare(self, kinds: tuple[str, ...], draws: bool) -> None:
        """Compile what a fit needs: here for the short chains that choose a model, and on all workers."""
        compiling.prepare(kinds, draws)
        cluster = self.cluster
        cluster.kinds, cluster.draws = kinds, draws
        cluster._run(worker.prepare, (kinds, draws), sorted(set(cluster.owner.values())))

    def give(self, name: str, values: IntArray) -> None:
        """Send labels that the user gave to the workers, once."""
        if name not in self.given:
            self.cluster.give(name, np.asarray(values, np.int32))
            self.given.add(name)

    def data_of_chain(self, number: int, settings: Settings) -> Any:
        from dpmmwrap.backends.dask.data import RemoteData

        return RemoteData(self, number, settings)


def stacked(pieces: list[Any]) -> Any:
    """The rows of several arrays or sparse matrices."""
    if hasattr(pieces[0], "indptr"):
        from scipy.sparse import vstack

        return vstack(pieces, format="csr")
    return np.concatenate(pieces)


def put_together(pieces: Any, shape: tuple[int, ...]) -> Any:
    """Rows from several parts, each with the indices of its rows in the result."""
    parts = [(indices, rows) for indices, rows in pieces if len(indices)] or list(pieces)[:1]
    order = np.concatenate([indices for indices, _ in parts])
    together = stacked([rows for _, rows in parts])
    if hasattr(together, "indptr"):
        return together[np.argsort(order)]
    rows = np.empty_like(together)
    rows[order] = together
    return rows.reshape(*shape, *rows.shape[1:])
