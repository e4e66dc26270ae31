"""SplitNet's start: what it finds, what it costs, what it refuses."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from dpmmwrap.datasets import generate
from dpmmwrap.families.gaussian import NIW, Statistics
from dpmmwrap.splitnet import proposals, refine
from dpmmwrap.splitnet.bipartitions import log_hastings
from dpmmwrap.splitnet.frame import frame_of
from dpmmwrap.splitnet.labelling import label_members
from dpmmwrap.splitnet.network import SplitNet, architecture
from dpmmwrap.splitnet.proposals import axis_proposals, looks_gaussian, peel_proposals, shell_proposals
from dpmmwrap.splitnet.weights_io import save_weights, shipped_dims, shipped_path
from dpmmwrap.starts import Initializer, make_initializer
from dpmmwrap.starts.splitnet import SplitNetStart, label_uploaded


def pair(rng: np.random.Generator, n: int, dim: int, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussians, `gap` deviations apart, stretched and shifted together."""
    y = (rng.random(n) < 0.4).astype(int)
    X = rng.standard_normal((n, dim))
    X[:, 0] += gap * y
    return (X @ rng.standard_normal((dim, dim)) * 100 + 1000).astype(np.float32), y


def split(start: Initializer, X: np.ndarray, seed: int = 0) -> np.ndarray:
    start.bind(X)
    return start([np.arange(len(X))], np.random.default_rng(seed))[0]


@pytest.mark.parametrize("dim", [1, 2, 4, 10, 32])
def test_it_finds_two_gaussians_in_any_dimension(dim: int) -> None:
    X, y = pair(np.random.default_rng(dim), 5000, dim, gap=8.0)
    assert adjusted_rand_score(y, split(make_initializer("splitnet"), X)) > 0.95


def test_it_finds_what_halving_cannot() -> None:
    """A narrow Gaussian inside a wide one, both around the same mean."""
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.3).astype(int)
    X = (rng.standard_normal((4000, 2)) * np.where(y[:, None], 0.05, 1.0)).astype(np.float32)
    assert adjusted_rand_score(y, split(make_initializer("splitnet"), X)) > 0.9
    assert adjusted_rand_score(y, split(make_initializer("kmeans"), X)) < 0.1


def test_it_peels_a_group_off_a_crowd_so_that_the_split_pays() -> None:
    rng = np.random.default_rng(1)
    means = rng.normal(scale=7, size=(30, 2))
    X = (means[rng.integers(30, size=20_000)] + 0.7 * rng.standard_normal((20_000, 2))).astype(np.float32)
    X[:1500] = (0.2 * rng.standard_normal((1500, 2)) + [3, 3]).astype(np.float32)
    prior = NIW.from_data(X)

    def ratio(labels: np.ndarray) -> float:
        sides = Statistics.of(X, labels, 2)
        return float(log_hastings(prior, sides[:1], sides[1:], 10.0)[0])

    assert min(ratio(split(make_initializer("splitnet"), X, seed)) for seed in range(5)) > 0
    assert ratio(split(make_initializer("kmeans"), X)) < 0


def test_many_clusters_in_one_call_are_split_each_on_its_own() -> None:
    rng = np.random.default_rng(2)
    sets = [pair(rng, n, 2, gap=10.0) for n in (50, 3000, 400, 1200, 1001, 90)]
    X, y = (np.concatenate(parts) for parts in zip(*sets, strict=True))
    order = rng.permutation(len(X))
    cluster = np.repeat(np.arange(6), [len(part) for part, _ in sets])[order]
    members = [np.flatnonzero(cluster == k) for k in range(6)]
    start = make_initializer("splitnet")
    start.bind(X[order])
    for rows, labels in zip(members, start(members, rng), strict=True):
        assert labels.dtype == np.uint8
        assert adjusted_rand_score(y[order][rows], labels) > 0.9


def test_tiny_clusters_begin_at_random() -> None:
    X = np.random.default_rng(3).standard_normal((200, 5)).astype(np.float32)
    start = make_initializer("splitnet")
    start.bind(X)
    members = [np.arange(n) for n in (0, 1, 3, 5)] * 20
    found = start(members, np.random.default_rng(0))
    assert [len(labels) for labels in found] == [0, 1, 3, 5] * 20
    assert 0.3 < np.concatenate(found).mean() < 0.7


@pytest.mark.parametrize("kind", ["equal", "constant feature", "line", "two values", "huge", "few"])
def test_degenerate_clusters_still_get_sublabels(kind: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((500, 3)).astype(np.float32)
    if kind == "equal":
        X[:] = 1.5
    elif kind == "constant feature":
        X[:, 1] = 7
    elif kind == "line":
        X[:] = X[:, :1]
    elif kind == "two values":
        X[:] = np.where(rng.random((500, 1)) < 0.5, 0, 1)
    elif kind == "huge":
        X *= np.float32(1e15)
    elif kind == "few":
        X = X[:4]
    labels = split(make_initializer("splitnet"), X)
    assert len(labels) == len(X)
    assert set(np.unique(labels)) <= {0, 1}


def test_the_same_generator_gives_the_same_start_and_another_a_different_one() -> None:
    X = np.random.default_rng(5).standard_normal((5000, 2)).astype(np.float32)
    start = make_initializer("splitnet")
    assert (split(start, X, 1) == split(start, X, 1)).all()
    assert (split(start, X, 1) != split(start, X, 2)).any()


def test_one_gaussian_is_halved() -> None:
    """A small group would die out at once, and ask for another start in every iteration."""
    X = np.random.default_rng(6).standard_normal((4000, 2)).astype(np.float32)
    shares = [split(make_initializer("splitnet"), X, seed).mean() for seed in range(8)]
    assert np.median(np.minimum(shares, 1 - np.array(shares))) > 0.4


def test_a_larger_cluster_costs_no_more_than_its_labels() -> None:
    rng = np.random.default_rng(7)
    X = np.concatenate([pair(rng, 300_000, 2, gap=6.0)[0]])
    start = make_initializer("splitnet")
    start.bind(X)

    def seconds(n: int) -> float:
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            start([np.arange(n)], rng)
            times.append(time.perf_counter() - begun)
        return min(times)

    seconds(2000)
    assert seconds(300_000) < 3 * seconds(3000) + 0.05


def test_the_data_are_not_copied(tmp_path: Path) -> None:
    X, y = pair(np.random.default_rng(8), 4000, 2, gap=8.0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    start = SplitNetStart()
    labels = split(start, mapped)
    assert start.X is mapped
    assert adjusted_rand_score(y, labels) > 0.95


def test_weights_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    torch.manual_seed(0)
    save_weights(path, SplitNet(architecture(2, "paper")), {})
    start = make_initializer("splitnet", weights=path)
    assert isinstance(start, SplitNetStart)
    X, _ = pair(np.random.default_rng(9), 300, 2, gap=5.0)
    split(start, X)
    assert start.network is start.own_network
    assert start.network is not None
    assert start.network.sizes.hidden == 128
    with pytest.raises(ValueError, match="the weights are for 2 dimensions, but the data have 3"):
        start.bind(np.zeros((10, 3), dtype=np.float32))
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged"):
        make_initializer("splitnet", weights=tmp_path / "w.safetensors", context=999)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"weights": "nowhere.safetensors"}, "there is no weights file nowhere.safetensors"),
        ({"context": 3}, "context should be at least 16"),
        ({"refine": -1}, "should not be negative"),
        ({"alpha": 0.0}, "alpha should be positive"),
        ({"device": "abacus"}, "device should be auto, cpu or cuda"),
        ({"network": False, "peels": 0, "axes": 0, "shells": False}, "at least one kind of candidate"),
    ],
)
def test_bad_options(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_initializer("splitnet", **options)


def test_weights_are_shipped_and_small() -> None:
    assert shipped_dims() == [2, 3, 5, 10, 20]
    assert sum(shipped_path(dim).stat().st_size for dim in shipped_dims()) < 25e6


def context_of(Z: np.ndarray, size: int | None = None) -> refine.Context:
    points = torch.from_numpy(Z).float()[None]
    size = len(Z) if size is None else size
    present = torch.ones(points.shape[:2], dtype=torch.bool)
    return refine.Context(points, present, torch.tensor([size]), torch.eye(Z.shape[1])[:1])


def test_the_scaled_ratio_is_the_ratio_when_the_context_is_the_cluster() -> None:
    rng = np.random.default_rng(10)
    Z = rng.standard_normal((600, 2))
    labels = (Z[:, 0] > 0.7).astype(int)
    context = context_of(Z)
    sides = refine.maximise(context, torch.from_numpy(labels).float()[None, None])
    prior = NIW(np.zeros(2), 1.0, 5 * refine.SCALE_FACTOR * np.eye(2), 5.0)
    parts = Statistics.of(Z.astype(np.float32), labels, 2)
    expected = log_hastings(prior, parts[:1], parts[1:], 10.0)[0]
    assert abs(float(refine.scaled_log_hastings(context, sides, 10.0)) - expected) < 0.02
    # In a cluster ten times as large the same split gains and costs about ten times as much.
    larger = refine.scaled_log_hastings(context_of(Z, 6000), sides, 10.0)
    assert 8 < float(larger) / expected < 11


def test_with_the_entropy_the_ratio_is_that_of_the_mixture() -> None:
    """Gain of the expected log joint plus entropy: a bound below on the mixture's log likelihood that EM closes."""
    rng = np.random.default_rng(12)
    Z = rng.standard_normal((900, 2))
    Z[:300, 0] += 2.2
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    context = context_of(np.concatenate([Z, np.zeros((100, 2))]), 900)
    context.present[0, 900:] = False
    sides = refine.maximise(context, torch.from_numpy(np.append(Z[:, 0] > 1, np.zeros(100, bool))).float()[None, None])
    sides, entropy = refine.refine_and_weigh(context, sides, 200)
    ratio = float(refine.scaled_log_hastings(context, sides, 10.0, torch.ones(1)) + entropy)
    fitted = [
        GaussianMixture(k, tol=1e-6, max_iter=1000, random_state=0, reg_covar=1e-9).fit(Z).score(Z) for k in (1, 2)
    ]
    # The prior and log Gamma take a few nats for each parameter.
    assert 10 < 900 * (fitted[1] - fitted[0]) - ratio < 40
    assert 100 < float(entropy) < 900 * np.log(2)
    cut = float(refine.scaled_log_hastings(context, sides, 10.0))
    assert ratio > 0 > cut
    assert float(refine.refine_and_weigh(context, sides, 0)[1]) == 0


@pytest.mark.parametrize(("dim", "clusters", "spread"), [(2, 40, 50), (10, 60, 10)])
def test_what_a_crowd_is_split_into_follows_the_samplers_ratio(dim: int, clusters: int, spread: float) -> None:
    """Large parts, where overlap costs nothing; a group that a cut sets apart, where every label is charged for."""
    X = generate(dim, clusters, 8000, spread, 0).X
    shares = {
        full: [split(make_initializer("splitnet", full_ratio=full), X, seed).mean() for seed in range(4)]
        for full in (True, False)
    }
    smaller = {full: np.mean([min(share, 1 - share) for share in found]) for full, found in shares.items()}
    assert smaller[True] > 0.25
    assert smaller[False] < 0.15


def test_em_steps_raise_the_likelihood() -> None:
    rng = np.random.default_rng(11)
    Z = rng.standard_normal((800, 2))
    Z[:200] = 0.3 * Z[:200] + [2.0, 0.0]
    context = context_of((Z - Z.mean(axis=0)) / Z.std(axis=0))
    group = torch.from_numpy(rng.random((1, 1, 800))).float()
    group[0, 0, :150] = 0.9
    sides = refine.maximise(context, group)
    ratios = []
    for _ in range(6):
        ratios.append(float(refine.scaled_log_hastings(context, sides, 10.0)))
        sides = refine.refine(context, sides, 5)
    assert ratios[-1] > ratios[0]
    assert abs(float(sides.counts[0, 0, 1]) - 200) < 40


def test_candidates_are_proper_groups() -> None:
    rng = np.random.default_rng(12)
    context = context_of(rng.standard_normal((500, 3)))
    for group in (
        peel_proposals(context, 10, rng),
        axis_proposals(context, 10, rng),
        shell_proposals(context, (0.2, 0.5)),
    ):
        shares = group.mean(dim=2)
        assert ((shares > 0.005) & (shares < 0.8)).all()
    assert shell_proposals(context, (0.2, 0.5)).mean(dim=2)[0].tolist() == pytest.approx([0.2, 0.5], abs=0.01)


def test_labels_are_the_same_where_the_data_are_uploaded() -> None:
    rng = np.random.default_rng(13)
    X = rng.standard_normal((500, 3)).astype(np.float32)
    rows = rng.permutation(500)[:300]
    matrix = rng.standard_normal((3, 3))
    parts = (rng.standard_normal(3), np.float64(0.3), rng.standard_normal(3), matrix + matrix.T)
    expected = label_members(X, rows, *parts)
    found = label_uploaded(torch.from_numpy(X), torch.from_numpy(rows), *map(torch.as_tensor, parts))
    d = X[rows] - parts[0]
    np.testing.assert_array_equal(expected, parts[1] + d @ parts[2] + np.einsum("ij,jk,ik->i", d, parts[3], d) > 0)
    np.testing.assert_array_equal(expected, found.numpy())


def test_the_log_odds_are_those_of_two_gaussians() -> None:
    rng = np.random.default_rng(14)
    Z = rng.standard_normal((2000, 3))
    group = Z[:, 0] > 0.5
    context = context_of(Z)
    odds = refine.log_odds(refine.maximise(context, torch.from_numpy(group).float()[None, None]))
    density = [
        np.log(len(part)) + multivariate_normal(part.mean(axis=0), np.cov(part.T, bias=True)).logpdf(Z)
        for part in (Z[group], Z[~group])
    ]
    expected = density[0] - density[1]
    found = odds(context)[0, 0].numpy()
    # They differ by what the prior adds to the covariances.
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    tilde = np.c_[np.ones(len(Z)), Z]
    matrix = odds.matrices(3)[0, 0].numpy()
    np.testing.assert_allclose(np.einsum("ni,ij,nj->n", tilde, matrix, tilde), found, atol=1e-2)


def gaussian_share(X: np.ndarray) -> float:
    """The share of the sets (B, n, D) that look like one Gaussian."""
    points = torch.from_numpy(X)
    frame = frame_of(points)
    present = torch.ones(points.shape[:2], dtype=torch.bool)
    context = refine.Context(frame(points).float(), present, torch.full((len(X),), X.shape[1]), frame.longest)
    return float(looks_gaussian(context).float().mean())


@pytest.mark.parametrize(("n", "dim"), [(300, 3), (300, 10), (500, 20), (1000, 32)])
def test_one_gaussian_looks_like_one_and_two_do_not(n: int, dim: int) -> None:
    rng = np.random.default_rng(15)
    X = rng.standard_normal((60, n, dim))
    assert gaussian_share(X) > 0.6
    side_by_side, within = X.copy(), X.copy()
    side_by_side[:, : int(0.4 * n), 0] += 8
    within[:, : int(0.3 * n)] *= 0.4
    assert gaussian_share(side_by_side) < 0.05
    assert gaussian_share(within) < 0.05


def test_a_quarter_of_the_points_beside_the_rest_is_no_gaussian() -> None:
    """Neither the kurtosis nor the longest axis shows it; the skewness in all directions together does."""
    rng = np.random.default_rng(17)
    X = rng.standard_normal((200, 200, 3))
    X[:, :50, 0] += 5
    assert gaussian_share(X @ rng.standard_normal((200, 3, 3))) < 0.06


@pytest.mark.parametrize("dim", [2, 10])
def test_the_network_is_asked_only_where_others_see_a_split(monkeypatch: pytest.MonkeyPatch, dim: int) -> None:
    asked: list[int] = []

    def counted(network: SplitNet, context: refine.Context, points: int, rng: np.random.Generator) -> torch.Tensor:
        asked.append(len(context.Z))
        return original(network, context, points, rng)

    original = proposals.network_proposals
    monkeypatch.setattr(proposals, "network_proposals", counted)
    monkeypatch.setattr(proposals, "looks_gaussian", lambda context: torch.zeros(len(context.Z), dtype=torch.bool))
    rng = np.random.default_rng(16)
    plain = rng.standard_normal((1000, dim)).astype(np.float32)
    split(make_initializer("splitnet"), plain)
    assert asked == []
    split(make_initializer("splitnet"), pair(rng, 2000, dim, gap=8.0)[0])
    assert asked == [1]
