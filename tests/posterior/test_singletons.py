"""Rows that are in no cluster in most draws."""

import numpy as np

from dpmmwrap.posterior.singletons import join_singletons


def test_a_row_between_clusters_goes_to_the_likelier_one() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1, 0]], 10, axis=0)
    draws[6:, 6] = 1
    draws[9, 6] = 2
    apart = np.array([0, 0, 0, 1, 1, 1, 2], np.int32)
    labels, rows = join_singletons(draws, apart)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 0] and rows == 1


def test_a_row_that_is_alone_stays_alone() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1, 2]], 10, axis=0)
    draws[:4, 6] = 0
    labels, rows = join_singletons(draws, np.array([1, 1, 1, 2, 2, 2, 0], np.int32))
    assert labels.tolist() == [1, 1, 1, 2, 2, 2, 0] and rows == 0


def test_outliers_and_gaps_in_the_numbers() -> None:
    draws = np.repeat([[-1, 0, 0, 1, 1, 1]], 4, axis=0)
    labels, rows = join_singletons(draws, np.array([-1, 1, 1, 2, 2, 0], np.int32))
    assert labels.tolist() == [-1, 0, 0, 1, 1, 1] and rows == 1


def test_nothing_but_singletons_is_left_as_it_is() -> None:
    single = np.arange(3, dtype=np.int32)
    labels, rows = join_singletons(np.zeros((5, 3), np.int32), single)
    assert labels is single and rows == 0
