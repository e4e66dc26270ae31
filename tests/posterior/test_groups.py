"""Groups of components: by hand, against a plain recomputation at each step, and as trees that scipy takes."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import dendrogram, fcluster, is_monotonic, is_valid_linkage
from scipy.stats import norm

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.posterior import merging
from dpmmwrap.posterior.groups import METHODS, Groups, elbow, group_components

BY_HAND = np.array([[0.6, 0.4, 0.0], [0.6, 0.4, 0.0], [0.2, 0.8, 0.0], [0.0, 0.1, 0.9], [0.0, 0.0, 1.0]])
"""Three components of totals 1.4, 1.7 and 1.9; the points are taken for the first, first, second, third and third."""


def some_tau(seed: int, points: int = 300, components: int = 12, sharpness: float = 6.0) -> Float64Array:
    """Probabilities of components on a line, as confused as it takes for points to change sides in unions."""
    rng = np.random.default_rng(seed)
    centres, places = rng.random(components), rng.random((points, 1))
    density = rng.random(components) * np.exp(-((sharpness * (places - centres)) ** 2)) + 1e-6 * rng.random(components)
    return np.asarray(density / density.sum(axis=1, keepdims=True))


def confusion(tau: Float64Array, weights: Float64Array) -> Float64Array:
    """Hennig's symmetric probabilities of misclassification, from their definition."""
    best = tau.argmax(axis=1)
    count = tau.shape[1]
    found = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            taken = sum(weights[n] * tau[n, j] for n in range(len(tau)) if best[n] == i)
            found[i, j] = taken / (weights @ tau[:, j])
    return np.maximum(found, found.T)


def entropy(tau: Float64Array, weights: Float64Array) -> float:
    return float(-(weights @ (tau * np.log(np.where(tau > 0, tau, 1.0))).sum(axis=1)) / weights.sum())


def drops(tau: Float64Array, weights: Float64Array) -> Float64Array:
    """What each union takes from the entropy, as a difference of two entropies."""
    count = tau.shape[1]
    found = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            union = np.column_stack([np.delete(tau, [i, j], axis=1), tau[:, i] + tau[:, j]])
            found[i, j] = found[j, i] = entropy(tau, weights) - entropy(union, weights)
    return found


def from_scratch(
    tau: Float64Array, method: str, weights: Float64Array
) -> tuple[list[float], list[set[frozenset[int]]]]:
    """The criterion of each step and the groups after it, all computed anew every time."""
    sets = [frozenset([k]) for k in range(tau.shape[1])]
    values, partitions = [], []
    while len(sets) > 1:
        scores = (confusion if method == "demp" else drops)(tau, weights)
        np.fill_diagonal(scores, -1.0)
        i, j = sorted(divmod(int(scores.argmax()), len(scores)))
        values.append(float(scores[i, j]))
        tau = np.delete(np.where(np.arange(len(sets)) == i, tau[:, [i]] + tau[:, [j]], tau), j, axis=1)
        sets[i] |= sets[j]
        del sets[j]
        partitions.append(set(sets))
    return values, partitions


def partition_of(names: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(names == name).tolist()) for name in set(names.tolist())}


def test_confusion_by_hand() -> None:
    groups = group_components(BY_HAND, "demp")
    # Of the second's 1.7, 0.8 lie where the first is taken: more than 0.2 of the first's 1.4.
    # Then 0.1 of the union's 3.1 lie at the fourth point, and nothing of the third elsewhere.
    np.testing.assert_allclose(groups.criterion, [0.8 / 1.7, 0.1 / 3.1])
    np.testing.assert_allclose(groups.merges, [[0, 1, 1 - 0.8 / 1.7, 2], [2, 3, 1 - 0.1 / 3.1, 3]])
    assert groups.suggested == 1 and groups.threshold == 0.025
    assert group_components(BY_HAND, "demp", cut=0.1).component_groups.tolist() == [0, 0, 1]
    assert groups.cut(0.5).tolist() == [0, 1, 2]
    assert groups.cut(0.1).tolist() == [0, 0, 1]
    assert groups.cut(0.0).tolist() == [0, 0, 0]
    # Above, not at.
    assert groups.cut(groups.criterion[0]).tolist() == [0, 1, 2]


def test_entropy_by_hand() -> None:
    groups = group_components(BY_HAND, "entropy")
    two, third = 2 * entropy(np.array([[0.6, 0.4]]), np.ones(1)), entropy(np.array([[0.2, 0.8]]), np.ones(1))
    fourth = entropy(np.array([[0.1, 0.9]]), np.ones(1))
    np.testing.assert_allclose(groups.criterion, [(two + third) / 5, fourth / 5])
    np.testing.assert_allclose(groups.merges[:, 2], [(two + third) / (two + third + fourth), 1.0])
    assert group_components(BY_HAND, "entropy", cut=0.1).component_groups.tolist() == [0, 0, 1]


@pytest.mark.parametrize("method", ["demp", "entropy"])
@pytest.mark.parametrize("seed", range(4))
def test_steps_are_those_computed_from_scratch(method: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tau = some_tau(seed)
    values, partitions = from_scratch(tau, method, np.ones(len(tau)))
    # What is left out of the entropy costs as little as is said.
    np.testing.assert_allclose(group_components(tau, method).criterion, values, rtol=0, atol=2e-6)
    monkeypatch.setattr(merging, "NEGLIGIBLE", 0.0)
    groups = group_components(tau, method)
    np.testing.assert_allclose(groups.criterion, values, rtol=0, atol=1e-12)
    for left, expected in zip(range(tau.shape[1] - 1, 0, -1), partitions, strict=True):
        assert partition_of(groups.labels_at(left)) == expected


def test_points_change_to_unions() -> None:
    """The check above would miss an arg max that is never updated if no point ever changed."""
    tau = some_tau(0)
    groups = group_components(tau, "demp")
    names = groups.labels_at(4)
    union = np.array([tau[:, names == k].sum(axis=1) for k in range(4)])
    assert (union.argmax(axis=0) != names[tau.argmax(axis=1)]).any()


@pytest.mark.parametrize("method", METHODS)
def test_three_overlapping_and_one_apart(method: str) -> None:
    rng = np.random.default_rng(0)
    centres = np.array([0.0, 20.0, 1.5, 3.0])
    X = rng.normal(centres[rng.integers(0, 4, 4000)])
    density = norm.pdf(X[:, None], centres)
    tau = density / density.sum(axis=1, keepdims=True)
    groups = group_components(tau, method)
    assert groups.component_groups.tolist() == [0, 1, 0, 0]
    assert groups.suggested == 2
    # Neighbours first: 0 and 2, or 2 and 3.
    assert groups.labels_at(3).tolist() in ([0, 1, 0, 2], [0, 1, 2, 2])
    if method != "entropy":
        found = norm.cdf(-0.75)
        # Two alone are confused as often as the tail says; a third takes from that.
        assert 0.5 * found < groups.criterion[0] < found + 0.02


@pytest.mark.parametrize("method", METHODS)
def test_each_cut_refines_the_one_above(method: str) -> None:
    groups = group_components(some_tau(1), method)
    assert groups.labels_at(groups.n_components).tolist() == list(range(groups.n_components))
    for left in range(1, groups.n_components):
        coarse, fine = groups.labels_at(left), groups.labels_at(left + 1)
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == left + 1
        # Groups are numbered by their first component.
        assert [int(np.flatnonzero(fine == k)[0]) for k in range(left + 1)] == sorted(
            int(np.flatnonzero(fine == k)[0]) for k in range(left + 1)
        )
        assert coarse.max() == left - 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tau", [some_tau(0), some_tau(2, sharpness=50.0), np.eye(5), np.full((7, 4), 0.25), BY_HAND])
def test_scipy_takes_the_tree(method: str, tau: Float64Array) -> None:
    groups = group_components(tau, method)
    assert is_valid_linkage(groups.merges) and is_monotonic(groups.merges)
    leaves = dendrogram(groups.merges, no_plot=True)["leaves"]
    assert sorted(leaves) == list(range(tau.shape[1]))
    for left in range(1, groups.n_components + 1):
        if left in (1, groups.n_components) or np.diff(groups.merges[:, 2])[groups.n_components - left - 1] > 0:
            assert partition_of(fcluster(groups.merges, left, "maxclust")) == partition_of(groups.labels_at(left))


@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_overlap_stays_apart(method: str) -> None:
    groups = group_components(np.repeat(np.eye(6), 20, axis=0), method)
    assert groups.suggested == 6
    assert groups.of_points(np.array([3, -1, 0])).tolist() == [3, -1, 0]


@pytest.mark.parametrize("method", METHODS)
def test_one_component_is_one_group(method: str) -> None:
    groups = group_components(np.ones((10, 1)), method)
    assert groups.merges.shape == (0, 4) and groups.criterion.shape == (0,)
    assert groups.suggested == 1
    assert groups.component_groups.tolist() == groups.cut(0.5).tolist() == [0]


def test_a_component_without_points() -> None:
    tau = np.column_stack([BY_HAND, np.zeros(5)])
    groups = group_components(tau)
    np.testing.assert_allclose(groups.criterion, [0.8 / 1.7, 0.1 / 3.1, 0.0])
    assert groups.component_groups.tolist() == [0, 0, 0, 1]


def test_points_without_their_outlier_component() -> None:
    # The last column was that of an outlier component.
    groups = group_components(BY_HAND[:, :2])
    np.testing.assert_allclose(groups.criterion, [0.8 / 1.7])


def test_points_go_to_the_groups_of_their_components() -> None:
    groups = group_components(BY_HAND, cut=0.1)
    labels = np.array([0, 1, 2, -1, 1, 2])
    assert groups.of_points(labels).tolist() == [0, 0, 1, -1, 0, 1]
    assert groups.of_points(labels, 1).tolist() == [0, 0, 0, -1, 0, 0]
    assert groups.of_points(np.empty(0, np.int32)).tolist() == []
    with pytest.raises(ValueError, match="labels should be from -1 to 2, not from 0 to 3"):
        groups.of_points(np.array([0, 3]))


def of_normals(X: Float64Array, centres: list[float], widths: list[float]) -> Float64Array:
    density = norm.pdf(X[:, None], centres, widths)
    return np.asarray(density / density.sum(axis=1, keepdims=True))


def test_two_clusters_that_overlap_stay_apart_and_pieces_of_one_do_not() -> None:
    """Confused about as often, but the points of two clusters lie in two heaps."""
    rng = np.random.default_rng(0)
    two = rng.normal(np.repeat([0.0, 3.0], 500))
    flat = 6.0 * rng.beta(1.5, 1.5, 1000)
    pieces = np.concatenate([two, flat + 50.0])
    tau = of_normals(pieces, [0.0, 3.0, 51.5, 54.5], [1.0, 1.0, 0.9, 0.9])
    assert group_components(tau, "demp").component_groups.tolist() == [0, 0, 1, 1]
    groups = group_components(tau)
    assert groups.component_groups.tolist() == [0, 1, 2, 2]
    assert groups.threshold == 0.01
    # The rest of the tree: those with two modes, and what is not confused at all.
    assert groups.criterion[0] > 0.01 >= groups.criterion[1:].max()
    assert groups.labels_at(2).tolist() == [0, 0, 1, 1]
    # In a sample, too, however large.
    many = np.tile(tau, (30, 1))
    assert group_components(many).component_groups.tolist() == [0, 1, 2, 2]


def test_heavy_tails_are_one_mode() -> None:
    """A narrow and a wide component about the same centre."""
    X = np.random.default_rng(0).standard_t(2, size=2000)
    assert group_components(of_normals(X, [0.0, 0.0], [0.8, 4.0])).suggested == 1


def test_where_a_stick_breaks() -> None:
    # Flat up to four groups, then steep; as many points in each union.
    entropies = np.array([9.0, 7.0, 5.0, 3.0, 1.0, 0.9, 0.8, 0.7])
    assert elbow(entropies, np.full(7, 10.0)) == 4
    # Against numpy's own lines, with unions of different sizes.
    for seed in range(8):
        rng = np.random.default_rng(seed)
        entropies, points = np.sort(rng.random(12) ** 3)[::-1], rng.random(11)
        x, y = np.append(0.0, np.cumsum(points[::-1])), entropies[::-1]
        errors = [
            sum(np.polyfit(x[part], y[part], 1, full=True)[1].sum() for part in (slice(k + 1), slice(k, 12)))
            for k in range(1, 11)
        ]
        assert elbow(entropies, points) == int(np.argmin(errors)) + 2
    assert [elbow(np.zeros(k), np.zeros(k - 1)) for k in (1, 2, 3)] == [1, 2, 2]


def test_the_tree_is_there_whatever_the_cut() -> None:
    tau = some_tau(1)
    found: list[Groups] = [group_components(tau, "demp", cut=cut) for cut in (0.0, 0.05, 0.2, 1.0)]
    assert [groups.suggested for groups in found] == sorted(groups.suggested for groups in found)
    assert found[0].suggested == 1 and found[-1].suggested == tau.shape[1]
    for groups in found:
        np.testing.assert_array_equal(groups.merges, found[0].merges)


def test_probabilities_of_single_precision() -> None:
    tau = some_tau(1)
    np.testing.assert_allclose(
        group_components(tau.astype(np.float32)).criterion, group_components(tau).criterion, rtol=1e-4
    )


def test_what_is_given_stays() -> None:
    tau = some_tau(1)
    before = tau.copy()
    group_components(tau)
    np.testing.assert_array_equal(tau, before)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tau": BY_HAND, "method": "ward"}, "method should be one of separation, dip, demp, entropy, not 'ward'"),
        ({"tau": BY_HAND, "cut": -0.1}, "cut should be a number of at least 0"),
        ({"tau": BY_HAND, "cut": float("nan")}, "cut should be a number of at least 0"),
        ({"tau": np.ones(3)}, "tau should be an array of points by components"),
        ({"tau": np.ones((0, 3))}, "not of shape \\(0, 3\\)"),
        ({"tau": 2 * BY_HAND}, "tau should be probabilities"),
        ({"tau": -BY_HAND}, "tau should be probabilities"),
        ({"tau": np.nan * BY_HAND}, "tau should be probabilities"),
    ],
)
def test_what_cannot_be_grouped(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        group_components(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_groups should be from 1 to 3"):
        group_components(BY_HAND).labels_at(4)


def test_in_one_line() -> None:
    """However many clusters there are."""
    merges = np.column_stack([np.arange(160), np.arange(160), np.ones(160), np.ones(160)])
    shown = repr(Groups(merges, np.ones(160), "dip", 40, reason="for a test"))
    assert shown == "Groups(161 clusters in 40 groups by 'dip'; for a test)"
