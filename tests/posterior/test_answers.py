"""Several answers: draws of one mode, and of two or three that are known."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.posterior.answers import answers


def draws_around(centres: list[np.ndarray], shares: list[int], flips: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = []
    for centre, count in zip(centres, shares, strict=True):
        for _ in range(count):
            own = centre.copy()
            rows = rng.choice(len(own), flips, replace=False)
            own[rows] = rng.integers(own.max() + 1, size=flips)
            found.append(own)
    return np.array(found)[rng.permutation(len(found))]


CENTRES = [np.repeat([0, 1], 60), np.tile([0, 1, 2], 40), np.zeros(120, int)]


def test_one_mode_is_one_answer() -> None:
    (one,) = answers(draws_around(CENTRES[1:2], [40], 8))
    assert adjusted_rand_score(CENTRES[1], one.labels) > 0.99
    assert one.share == 1.0 and one.n_clusters == 3


@pytest.mark.parametrize("modes", [2, 3])
def test_each_mode_has_an_answer_with_its_share(modes: int) -> None:
    counts = [30, 14, 6][:modes]
    found = answers(draws_around(CENTRES[:modes], counts, 4))
    assert [one.share for one in found] == [count / sum(counts) for count in counts]
    for one, centre in zip(found, CENTRES, strict=False):
        assert one.n_clusters == centre.max() + 1
        assert (one.labels[:, None] == one.labels)[centre[:, None] == centre].mean() > 0.99
    assert len(answers(draws_around(CENTRES[:modes], counts, 4), most=1)) == 1


def test_draws_that_are_all_the_same() -> None:
    (one,) = answers(np.tile(CENTRES[0], (10, 1)))
    assert one.spread == 0.0 and adjusted_rand_score(CENTRES[0], one.labels) == 1.0


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ValueError, match="most should be at least 1"):
        answers(CENTRES[0][None], most=0)
