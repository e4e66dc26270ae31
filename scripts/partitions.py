"""p(K) before and after the data, for each prior over partitions: the tables of docs/partitions.md.

python scripts/partitions.py [--draws 1000]
"""

from __future__ import annotations

import argparse

import numpy as np

from dpmmwrap import DPMM, DirichletProcess, FiniteMixture, PitmanYor

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
    "Dirichlet process, concentration learned": DirichletProcess(),
    "Dirichlet process, 1": DirichletProcess(1.0),
    "Pitman-Yor, both learned": PitmanYor(),
    "Pitman-Yor, 1 and 0.3": PitmanYor(1.0, 0.3),
    "finite, gamma 1, rate 1": FiniteMixture(1.0, 1.0),
    "finite, gamma 1, rate 4": FiniteMixture(1.0, 4.0),
}
MOST = 10


def mixture(count: int, weight: float, means: tuple[float, float], deviations: tuple[float, float]) -> np.ndarray:
    """Points of two Gaussians, as many of each as the weight says, at their quantiles: no chance in it."""
    from scipy import stats

    sizes = round(weight * count), count - round(weight * count)
    parts = [
        stats.norm(mean, deviation).ppf((np.arange(size) + 0.5) / size)
        for size, mean, deviation in zip(sizes, means, deviations, strict=True)
    ]
    return np.concatenate(parts)


def data_sets() -> dict[str, np.ndarray]:
    """Galaxies, and points like acidity and enzyme by published fits of two Gaussians."""
    return {
        "galaxies": GALAXIES,
        "acidity-like": mixture(155, 0.60, (4.33, 6.24), (0.37, 0.52)),
        "enzyme-like": mixture(245, 0.62, (0.19, 1.26), (0.08, 0.51)),
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
    for name, points in data_sets().items():
        print(f"\n{name}, {len(points)} points\n\n| prior | | {' | '.join(map(str, range(1, MOST)))} | {MOST}+ |")
        print("|---|---|" + "---|" * MOST)
        for called, prior in PRIORS.items():
            print(f"| {called} | before | {shares(prior.cluster_probabilities(len(points)))} |")
            model = DPMM(partition_prior=prior, n_draws=draws, thin=5, random_state=0).fit(points[:, None])
            numbers = model.draws_.n_clusters
            learned = " ".join(f"{value:.2f}" for value in model.partition_prior_.values) if prior.learned else ""
            print(f"| {learned} | after | {shares(np.bincount(numbers.ravel()) / numbers.size)} |", flush=True)


if __name__ == "__main__":
    main()
