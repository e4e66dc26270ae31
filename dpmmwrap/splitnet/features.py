"""Features phi of points, in which the log density of a Gaussian is linear.

In terms of phi, both halves of an EM step are matrix products, for many candidate splits of many clusters at once: the
statistics of a half are sums of phi, and the log odds of a point are phi . weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor


class Features(Protocol):
    """phi of the points of B contexts. All features of padding are zero, even the constant one."""

    def sums(self, group: Tensor) -> Tensor:
        """Sums of phi (B, C, F) over points that belong to a group with these probabilities (B, C, n)."""

    def dot(self, weights: Tensor) -> Tensor:
        """phi . weights of every point (B, C, n), for weights (B, C, F)."""

    def head(self, n: int) -> Features:
        """The features of the first n points."""


@dataclass(frozen=True)
class StoredFeatures:
    """The whole of phi (B, F, n), starting with the constant. The values of a feature are contiguous, which is
    fastest."""

    phi: Tensor

    def sums(self, group: Tensor) -> Tensor:
        return torch.bmm(group, self.phi.transpose(1, 2)).double()

    def dot(self, weights: Tensor) -> Tensor:
        return torch.bmm(weights.to(self.phi.dtype), self.phi)

    def head(self, n: int) -> StoredFeatures:
        return StoredFeatures(self.phi[:, :, :n])


@dataclass(frozen=True)
class OuterFeatures:
    """The upper triangle of (1, z)(1, z)', which is never stored: in many dimensions it would fill the memory.

    Needs one matrix product per candidate instead of one for all of them.
    """

    extended: Tensor
    """(1, z) of every point (B, n, D + 1)."""

    def sums(self, group: Tensor) -> Tensor:
        where = triangle(self.extended.shape[2] - 1, group.device)
        found = []
        for weights in group.unbind(1):
            products = torch.bmm((self.extended * weights[:, :, None]).transpose(1, 2), self.extended)
            found.append(products.flatten(1)[:, where.flat])
        return torch.stack(found, dim=1).double()

    def dot(self, weights: Tensor) -> Tensor:
        matrices = symmetric(weights, self.extended.shape[2] - 1).to(self.extended.dtype)
        found = [(torch.bmm(self.extended, matrix) * self.extended).sum(dim=2) for matrix in matrices.unbind(1)]
        return torch.stack(found, dim=1)

    def head(self, n: int) -> OuterFeatures:
        return OuterFeatures(self.extended[:, :n])


@dataclass(frozen=True)
class Triangle:
    """The positions of the entries of the upper triangle of (1, z)(1, z)', and their weights."""

    flat: Tensor
    """Row and column of each entry, as one number."""
    index: Tensor
    """(D + 1, D + 1): the number of each entry in the triangle."""
    half: Tensor
    """Half the number of times that an entry occurs in the whole matrix."""


@lru_cache(maxsize=32)
def triangle(dim: int, device: torch.device) -> Triangle:
    """The upper triangle in D dimensions, cached because every EM step needs it."""
    # Not an inference tensor, which could not be used outside of inference, for example in tests.
    with torch.inference_mode(False):
        rows, columns = torch.triu_indices(dim + 1, dim + 1, device=device)
        index = torch.empty(dim + 1, dim + 1, dtype=torch.long, device=device)
        index[rows, columns] = index[columns, rows] = torch.arange(len(rows), device=device)
        half = torch.where(rows == columns, 0.5, 1.0).double()
        return Triangle(rows * (dim + 1) + columns, index, half)


def triangle_count(dim: int) -> int:
    """F, the number of entries of the triangle."""
    return (dim + 1) * (dim + 2) // 2


def symmetric(weights: Tensor, dim: int) -> Tensor:
    """The symmetric M (..., D + 1, D + 1) with (1, z)' M (1, z) = phi(z) . weights."""
    where = triangle(dim, weights.device)
    return (weights / (2 * where.half))[..., where.index]


def triangle_features(Z: Tensor, present: Tensor) -> StoredFeatures:
    """1, z, and the upper triangle of z z'."""
    B, n, dim = Z.shape
    phi = Z.new_empty(B, triangle_count(dim), n)
    linear = phi[:, 1 : dim + 1]
    phi[:, 0] = present
    linear.copy_(Z.transpose(1, 2))
    begin = dim + 1
    for i in range(dim):
        torch.mul(linear[:, i : i + 1], linear[:, i:], out=phi[:, begin : begin + dim - i])
        begin += dim - i
    return StoredFeatures(phi)
