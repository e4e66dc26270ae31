"""The paper's data sets and the sizes of its experiments, also for the help, which must not import much."""

from __future__ import annotations

from dataclasses import dataclass

PAPER_SETS = ("MNIST", "FMNIST", "CIFAR10", "CIFAR20", "STL-10")


def paper_set(name: str) -> str | None:
    """The paper's data set that the name of a file suggests, if any."""
    plain = name.lower().replace("-", "").replace("_", "")
    # CIFAR-100's 20 superclasses are the paper's CIFAR20; the paper does not use its 100 classes.
    marks = {
        "cifar100": None, "fashion": "FMNIST", "fmnist": "FMNIST", "mnist": "MNIST", "cifar10": "CIFAR10",
        "cifar20": "CIFAR20", "stl10": "STL-10",
    }  # fmt: skip
    return next((data for mark, data in marks.items() if mark in plain), None)


@dataclass(frozen=True)
class Sizes:
    dims: tuple[int, ...] = (2, 3, 5, 10)
    clusters: tuple[int, ...] = (10, 20, 40)
    """As in the paper's two dimensions; for others it does not give the numbers."""
    points: int = 20_000
    datasets: int = 10
    runs: int = 10
    """For each method on each real data set, and for each start on the data sets whose iterations are plotted."""
    iterations: int = 200
    upper_bounds: tuple[int, ...] = (1000, 100)
    """Clusters of DPGMM: the paper's number, and one that takes a tenth of the time."""
    max_points: int = 100_000
    """Larger real data sets are reduced to a random sample."""


SMALL = Sizes(
    clusters=(10, 40), points=2_000, datasets=1, runs=2, iterations=100, upper_bounds=(100,), max_points=1_000
)
"""For a few minutes; DPGMM with 1,000 clusters alone would take longer."""
