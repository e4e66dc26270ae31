"""Prior and posterior of K for each prior over partitions: the tables of docs/partitions.md.

python scripts/partitions.py [--draws 1000]
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from dpmmwrap import DPMM, NIG, DirichletProcess, FiniteMixture, PitmanYor

GALAXIES = np.array([
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419, 18552, 18600, 18927, 19052, 19070, 19330, 19343,
    19349, 19440, 19473, 19529, 19541, 19547, 19663, 19846, 19856, 19863, 19914, 19918, 19973, 19989, 20166, 20175,
    20179, 20196, 20215, 20221, 20415, 20629, 20795, 20821, 20846, 20875, 20986, 21137, 21492, 21701, 21814, 21921,
    21960, 22185, 22209, 22242, 22249, 22314, 22374, 22495, 22746, 22747, 22888, 22914, 23206, 23241, 23263, 23484,
    23538, 23542, 23666, 23706, 23711, 24129, 24285, 24289, 24366, 24717, 24990, 25633, 26960, 26995, 32065, 32789,
    34279,
]) / 1000  # fmt: skip
"""Velocities of 82 galaxies in 1000 km/s (Roeder 1990), with the 26.96 of the published analyses (Postman et al. 1986
have 26.69)."""
PRIORS = {
    "Dirichlet process, learned": DirichletProcess(),
    "Pitman-Yor, both learned": PitmanYor(),
    "Pitman-Yor, 1 and 0.3": PitmanYor(1.0, 0.3),
    "finite, gamma 1, rate 1": FiniteMixture(1.0, 1.0),
    "finite, gamma 1, rate 4": FiniteMixture(1.0, 4.0),
}
MOST = 10


def mixture(count: int, weight: float, means: tuple[float, float], deviations: tuple[float, float]) -> np.ndarray:
    """The quantiles of two Gaussians, in numbers given by the weight: points without randomness."""
    from scipy import stats

    sizes = round(weight * count), count - round(weight * count)
    parts = [
        stats.norm(mean, deviation).ppf((np.arange(size) + 0.5) / size)
        for size, mean, deviation in zip(sizes, means, deviations, strict=True)
    ]
    return np.concatenate(parts)


class Case(NamedTuple):
    """Points, and a prior of the clusters if it is not the default."""

    points: np.ndarray
    prior: NIG | None = None


CASES = {
    # Variances as Escobar and West (1995) expect them, and means that are five deviations of a cluster apart.
    "galaxies, given prior of the clusters": Case(GALAXIES, NIG(np.full(1, 20.8), 0.04, np.full(1, 2.0), 4.0)),
    "galaxies, learned prior of the clusters": Case(GALAXIES),
    # By published fits of two Gaussians (see Richardson and Green 1997).
    "acidity-like": Case(mixture(155, 0.60, (4.33, 6.24), (0.37, 0.52))),
    "enzyme-like": Case(mixture(245, 0.62, (0.19, 1.26), (0.08, 0.51))),
}


def shares(probabilities: np.ndarray) -> str:
    """A row of a table: K = 1, ..., MOST - 1, and MOST or more."""
    found = np.zeros(MOST + 1)
    np.add.at(found, np.minimum(np.arange(len(probabilities)), MOST), probabilities)
    return " | ".join(f"{share:.2f}" if share >= 0.005 else "" for share in found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="of each of four chains")
    draws = parser.parse_args().draws
    for name, (points, own) in CASES.items():
        print(
            f"\n{name}, {len(points)} points\n\n| prior | | {' | '.join(map(str, range(1, MOST)))} | {MOST}+ | mean |"
        )
        print("|---|---|" + "---|" * (MOST + 1))
        for called, prior in PRIORS.items():
            before = prior.cluster_probabilities(len(points))
            print(f"| {called} | before | {shares(before)} | {before @ np.arange(len(before)):.1f} |")
            options = {"partition_prior": prior, "prior": own, "n_draws": draws, "thin": 5, "random_state": 0}
            model = DPMM(**options, covariance_type="auto" if own is None else "diag").fit(points[:, None])
            numbers = model.draws_.n_clusters
            learned = ", ".join(f"{value:.2f}" for value in model.partition_prior_.values) if prior.learned else ""
            after = shares(np.bincount(numbers.ravel()) / numbers.size)
            print(f"| {learned} | after | {after} | {numbers.mean():.1f} |", flush=True)


if __name__ == "__main__":
    main()
