"""One mode or two: against a linear programme that knows nothing but the definition."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.posterior.separation import MOST, TOO_FAR, dip, has_gap, quantiles_of


def dip_by_programme(values: Float64Array) -> float:
    """The best distribution function for each place of the mode, from the definition of the dip.

    Unknown are its values at the places of the numbers, from the left and from the right of the mode, and the distance.
    """
    places, counts = np.unique(values, return_counts=True)
    after = np.cumsum(counts) / len(values)
    before = after - counts / len(values)
    count, best = len(places), np.inf
    for mode in range(count):
        # Convex at the places up to the mode, concave from the mode on: at the mode it may jump.
        sides = [(list(range(mode + 1)), 1.0, 0), (list(range(mode, count)), -1.0, mode + 1)]
        unknown = count + 2
        rows, bounds = [], []

        def at_most(terms: dict[int, float], bound: float, rows=rows, bounds=bounds, unknown=unknown) -> None:
            row = np.zeros(unknown)
            for place, factor in terms.items():
                row[place] += factor
            rows.append(row)
            bounds.append(bound)

        for numbers, sign, first in sides:
            name = {place: first + i for i, place in enumerate(numbers)}
            for one, two, three in zip(numbers, numbers[1:], numbers[2:], strict=False):
                share = (places[two] - places[one]) / (places[three] - places[one])
                at_most({name[two]: sign, name[one]: -sign * (1 - share), name[three]: -sign * share}, 0.0)
            for one, two in pairwise(numbers):
                at_most({name[one]: 1.0, name[two]: -1.0}, 0.0)
            for place in numbers:
                # On the left of the mode what comes before a step counts, on the right what comes after it; both
                # where the function does not jump.
                if place != mode or sign > 0:
                    at_most({name[place]: 1.0, unknown - 1: -1.0}, before[place])
                    at_most({name[place]: -1.0, unknown - 1: -1.0}, -before[place])
                if place != mode or sign < 0:
                    at_most({name[place]: 1.0, unknown - 1: -1.0}, after[place])
                    at_most({name[place]: -1.0, unknown - 1: -1.0}, -after[place])
        at_most({mode: 1.0, mode + 1: -1.0}, 0.0)
        cost = np.zeros(unknown)
        cost[-1] = 1.0
        found = linprog(cost, np.array(rows), bounds, bounds=[(0, 1)] * unknown)
        best = min(best, found.fun)
    return float(best)


@pytest.mark.parametrize("seed", range(6))
def test_the_dip_is_what_its_definition_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(5, 25))
    values = rng.normal(size=count) + 3.0 * (rng.random(count) < 0.4 * (seed % 2))
    np.testing.assert_allclose(dip(values), dip_by_programme(values), atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_numbers_that_come_more_than_once(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 8, 20).astype(float)
    np.testing.assert_allclose(dip(values), dip_by_programme(values), atol=1e-9)


def test_extremes() -> None:
    assert dip(np.ones(9)) == 0.0
    # Two heaps as far apart as can be are a quarter from anything with one mode.
    heaps = np.repeat([0.0, 1.0], 500) + 1e-6 * np.random.default_rng(0).random(1000)
    assert dip(heaps) == pytest.approx(0.25, abs=0.01)
    # No numbers have a smaller one than those that are evenly spaced.
    assert dip(np.arange(100.0)) == 1 / 200


def test_the_threshold_is_that_of_one_uniform_sample_in_four() -> None:
    rng = np.random.default_rng(0)
    share = np.mean([dip(rng.random(200)) * np.sqrt(200) > TOO_FAR for _ in range(400)])
    assert 0.15 < share < 0.35


def test_one_mode_or_two() -> None:
    rng = np.random.default_rng(0)
    assert has_gap(rng.normal(np.repeat([0.0, 3.0], 500)))
    assert not has_gap(rng.normal(size=1000))
    assert not has_gap(rng.exponential(size=1000))
    assert not has_gap(np.array([1.0])) and not has_gap(np.zeros(0))
    # Unevenness that a million points would show, but not two thousand.
    assert not has_gap(rng.normal(np.repeat([0.0, 2.05], 200_000)))


def test_what_is_looked_at() -> None:
    values = np.array([3.0, 1.0, 2.0])
    assert quantiles_of(values).tolist() == [1.0, 2.0, 3.0]
    some = quantiles_of(np.arange(10.0 * MOST))
    assert len(some) == MOST and set(np.diff(some)) <= {9.0, 10.0, 11.0}
