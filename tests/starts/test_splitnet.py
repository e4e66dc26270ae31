"""SplitNet's start: what it finds, what it costs, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.datasets import generate
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.defaults import DataScale
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.checkpoint import start_identity
from dpmmwrap.splitnet.context import SplitContext
from dpmmwrap.splitnet.network import SplitNet, architecture
from dpmmwrap.splitnet.proposals import looks_clumped, looks_gaussian, two_means_candidates
from dpmmwrap.splitnet.search import find_splits, network_points
from dpmmwrap.splitnet.subcluster_models import make_subcluster_model
from dpmmwrap.splitnet.weights_io import save_weights, shipped_path
from dpmmwrap.starts import Initializer, SplitCriterion, make_initializer
from dpmmwrap.starts import splitnet as module
from dpmmwrap.starts.splitnet import SplitNetStart


def pair(rng: np.random.Generator, n: int, dim: int, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussians, `gap` deviations apart, stretched and shifted together."""
    y = (rng.random(n) < 0.4).astype(int)
    X = rng.standard_normal((n, dim))
    X[:, 0] += gap * y
    return (X @ rng.standard_normal((dim, dim)) * 100 + 1000).astype(np.float32), y


def criterion_of(X: np.ndarray, covariance_type: str = "full", full_ratio: bool = True) -> SplitCriterion:
    """What the sampler would judge by, with its default prior."""
    return SplitCriterion(DataScale(X).start(covariance_type).prior, DirichletProcess(10.0), full_ratio)


def bound(start: Initializer, X: np.ndarray, *options: Any) -> Initializer:
    start.bind(X, criterion_of(X, *options))
    return start


def split(start: Initializer, X: np.ndarray, seed: int = 0, *options: Any) -> np.ndarray:
    return bound(start, X, *options)([np.arange(len(X))], np.random.default_rng(seed))[0]


def log_hastings(prior: Any, X: np.ndarray, labels: np.ndarray, alpha: float) -> float:
    sides, whole = prior.statistics(X, labels.astype(np.int64), 2), prior.statistics(X)
    marginals = prior.log_marginal_likelihood(sides).sum() - prior.log_marginal_likelihood(whole).sum()
    return float(np.log(alpha) + gammaln(sides.counts).sum() - gammaln(len(X)) + marginals)


@pytest.mark.parametrize("dim", [1, 2, 4, 10, 32])
def test_it_finds_two_gaussians_in_any_dimension(dim: int) -> None:
    X, y = pair(np.random.default_rng(dim), 5000, dim, gap=8.0)
    start = make_initializer("splitnet")
    # A prior under which a side may be as narrow as these are.
    start.bind(X, SplitCriterion(NIW.reference(dim), DirichletProcess(10.0)))
    assert adjusted_rand_score(y, start([np.arange(5000)], np.random.default_rng(0))[0]) > 0.95


def test_it_finds_what_halving_cannot() -> None:
    """A narrow Gaussian inside a wide one, both around the same mean."""
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.3).astype(int)
    X = (rng.standard_normal((4000, 2)) * np.where(y[:, None], 0.05, 1.0)).astype(np.float32)
    assert adjusted_rand_score(y, split(make_initializer("splitnet"), X)) > 0.7
    assert adjusted_rand_score(y, split(make_initializer("kmeans"), X)) < 0.1


def test_it_sets_a_group_apart_from_a_crowd_so_that_the_split_pays() -> None:
    rng = np.random.default_rng(1)
    means = rng.normal(scale=7, size=(30, 2))
    X = (means[rng.integers(30, size=20_000)] + 0.7 * rng.standard_normal((20_000, 2))).astype(np.float32)
    X[:1500] = (0.2 * rng.standard_normal((1500, 2)) + [3, 3]).astype(np.float32)
    prior = criterion_of(X).prior
    found = [split(make_initializer("splitnet"), X, seed, "full", False) for seed in range(5)]
    assert min(log_hastings(prior, X, labels, 10.0) for labels in found) > 0
    assert log_hastings(prior, X, split(make_initializer("kmeans"), X), 10.0) < 0


def test_many_clusters_in_one_call_are_split_each_on_its_own() -> None:
    rng = np.random.default_rng(2)
    sets = [pair(rng, n, 2, gap=10.0) for n in (50, 3000, 400, 1200, 1001, 90)]
    X, y = (np.concatenate(parts) for parts in zip(*sets, strict=True))
    order = rng.permutation(len(X))
    cluster = np.repeat(np.arange(6), [len(part) for part, _ in sets])[order]
    members = [np.flatnonzero(cluster == k) for k in range(6)]
    start = bound(make_initializer("splitnet"), X[order])
    for rows, labels in zip(members, start(members, rng), strict=True):
        assert labels.dtype == np.uint8
        assert adjusted_rand_score(y[order][rows], labels) > 0.9


def test_tiny_clusters_begin_at_random() -> None:
    X = np.random.default_rng(3).standard_normal((200, 5)).astype(np.float32)
    start = bound(make_initializer("splitnet"), X)
    members = [np.arange(n) for n in (0, 1, 3)] * 20
    found = start(members, np.random.default_rng(0))
    assert [len(labels) for labels in found] == [0, 1, 3] * 20
    assert 0.3 < np.concatenate(found).mean() < 0.7


@pytest.mark.filterwarnings("ignore:degenerate data")
@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize("kind", ["equal", "constant feature", "line", "two values", "huge", "few", "far point"])
def test_degenerate_clusters_still_get_sublabels(kind: str, covariance_type: str) -> None:
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
    elif kind == "far point":
        X[0] = 1e12
    labels = split(make_initializer("splitnet"), X, 0, covariance_type)
    assert len(labels) == len(X)
    assert set(np.unique(labels)) == {0, 1}


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


def test_a_larger_cluster_is_judged_by_no_more_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from labelling its members once, the size of a cluster costs nothing."""
    seen = []

    def search(context: SplitContext, *rest: Any) -> Any:
        seen.append(context.n)
        return find_splits(context, *rest)

    monkeypatch.setattr(module, "find_splits", search)
    X, _ = pair(np.random.default_rng(7), 20_000, 2, gap=6.0)
    start = bound(make_initializer("splitnet"), X)
    for n in (500, 20_000):
        (labels,) = start([np.arange(n)], np.random.default_rng(0))
        assert len(labels) == n
    assert seen == [500, 1000]


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
    save_weights(path, SplitNet(architecture("paper", 2)), {})
    start = make_initializer("splitnet", weights=path)
    assert isinstance(start, SplitNetStart)
    X, _ = pair(np.random.default_rng(9), 300, 2, gap=5.0)
    split(start, X)
    assert start.network is start.own_network
    assert start.network is not None
    assert start.network.dim == 2
    with pytest.raises(ValueError, match="the weights are for 2 dimensions, but the data have 3"):
        start.bind(np.zeros((10, 3), dtype=np.float32), SplitCriterion(NIW.reference(3), DirichletProcess(10.0)))
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged"):
        make_initializer("splitnet", weights=tmp_path / "w.safetensors", context=999)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"weights": "nowhere.safetensors"}, "there is no weights file nowhere.safetensors"),
        ({"context": 3}, "context should be at least 16"),
        ({"refine": -1}, "should not be negative"),
        ({"device": "abacus"}, "device should be auto, cpu or cuda"),
    ],
)
def test_bad_options(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_initializer("splitnet", **options)


def test_weights_are_shipped_and_small() -> None:
    assert shipped_path().stat().st_size < 4e6


def context_of(X: np.ndarray) -> SplitContext:
    """Sets (B, n, D), each all of a cluster."""
    points = torch.from_numpy(np.asarray(X, dtype=np.float64))
    present = torch.ones(points.shape[:2], dtype=torch.bool)
    model = make_subcluster_model(NIW.reference(X.shape[2]), points, present, None)
    Z, sizes = model.to_frame(points - model.centre), torch.full((len(X),), X.shape[1])
    return SplitContext(model, Z, present, sizes, None, model.view(Z), (points - model.centre).float())


@pytest.mark.parametrize(("dim", "clusters", "spread"), [(2, 40, 50), (10, 60, 10)])
def test_what_a_crowd_is_split_into_follows_the_samplers_ratio(dim: int, clusters: int, spread: float) -> None:
    """Large parts, where overlap costs nothing; a group that a cut sets apart, where every label is charged for."""
    X = generate(dim, clusters, 8000, spread, 0).X
    shares = {
        full: [split(make_initializer("splitnet"), X, seed, "full", full).mean() for seed in range(4)]
        for full in (True, False)
    }
    smaller = {full: np.mean([min(share, 1 - share) for share in found]) for full, found in shares.items()}
    assert smaller[True] > 0.25
    assert smaller[False] < (0.15 if dim == 2 else smaller[True])


def test_the_network_reads_fewer_points_of_more_dimensions() -> None:
    assert [network_points(dim) for dim in (1, 5, 10, 20)] == [256, 256, 128, 64]


def test_two_means_candidates_follow_their_units() -> None:
    rng = np.random.default_rng(13)
    X = rng.standard_normal((3, 400, 2))
    sides = rng.random((2, 3, 400)) < 0.5
    X[:, :, 0] += 10 * sides[0]
    X[:, :, 1] += 10 * sides[1]
    found = two_means_candidates(context_of(X), torch.tensor([[1.0, 0.1], [0.1, 1.0]]), X.shape[1], rng).numpy()
    for metric in range(2):
        for b in range(3):
            assert adjusted_rand_score(found[b, metric], sides[metric, b]) > 0.99


def gaussian_share(X: np.ndarray) -> float:
    """The share of the sets (B, n, D) that look like one Gaussian."""
    return float(looks_gaussian(context_of(X)).float().mean())


@pytest.mark.parametrize(("n", "dim"), [(300, 3), (300, 10), (500, 20)])
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


def test_many_tight_groups_are_no_gaussian_whatever_their_moments() -> None:
    """Groups in two rings, as in sipu's r15: not one moment shows them."""
    rng = np.random.default_rng(18)
    angles = np.r_[np.arange(7) / 7, np.arange(7) / 7 + 0.5 / 7, 0.0] * 2 * np.pi
    centres = np.repeat([2.3, 6.0, 0.0], [7, 7, 1])[:, None] * np.c_[np.cos(angles), np.sin(angles)]
    X = centres[rng.integers(15, size=(20, 600))] + 0.3 * rng.standard_normal((20, 600, 2))
    assert looks_clumped(context_of(X)).all()
    assert gaussian_share(X) == 0
    assert not looks_clumped(context_of(rng.standard_normal((50, 300, 2)))).any()


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_where_only_some_directions_are_seen_a_split_is_searched_for(covariance_type: str) -> None:
    rng = np.random.default_rng(19)
    start = bound(SplitNetStart(), rng.standard_normal((600, 60)).astype(np.float32), covariance_type)
    context = start._context([np.arange(600)], rng)
    assert context.seen.points.shape == (1, 600, 20)
    assert not looks_gaussian(context)


FAMILIES = ("full", "diag", "spherical")


@pytest.mark.parametrize("covariance_type", FAMILIES)
@pytest.mark.parametrize(("n", "dim"), [(40, 100), (2000, 100), (12, 15), (3000, 15)])
def test_two_round_groups_are_found_in_any_family(covariance_type: str, n: int, dim: int) -> None:
    """Also with fewer points than dimensions."""
    rng = np.random.default_rng(20)
    y = rng.random(n) < 0.4
    X = (rng.standard_normal((n, dim)) + np.where(y[:, None], 2.0, 0.0) + 50).astype(np.float32)
    assert adjusted_rand_score(y, split(make_initializer("splitnet"), X, 0, covariance_type)) > 0.99


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_it_finds_a_narrow_group_within_a_wide_one_in_many_dimensions(covariance_type: str) -> None:
    rng = np.random.default_rng(21)
    y = rng.random(3000) < 0.4
    X = (rng.standard_normal((3000, 50)) * np.where(y[:, None], 0.6, 1.0)).astype(np.float32)
    assert adjusted_rand_score(y, split(make_initializer("splitnet"), X, 0, covariance_type)) > 0.85
    assert adjusted_rand_score(y, split(make_initializer("kmeans"), X, 0, covariance_type)) < 0.1


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
@pytest.mark.parametrize("dim", [3, 40])
def test_missing_values_do_no_harm(covariance_type: str, dim: int) -> None:
    rng = np.random.default_rng(22)
    y = rng.random(3000) < 0.4
    X = (rng.standard_normal((3000, dim)) + np.where(y[:, None], 5.0, 0.0)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:5] = np.nan
    some = ~np.isnan(X).all(axis=1)
    labels = split(make_initializer("splitnet"), X, 0, covariance_type)
    assert set(np.unique(labels)) == {0, 1}
    assert adjusted_rand_score(y[some], labels[some]) > 0.95


def test_a_feature_without_any_value_in_a_cluster_does_no_harm() -> None:
    rng = np.random.default_rng(23)
    y = rng.random(1000) < 0.4
    X = (rng.standard_normal((2000, 4)) + np.r_[np.where(y, 8.0, 0.0), np.full(1000, 50)][:, None]).astype(np.float32)
    X[:1000, 2] = np.nan
    start = bound(make_initializer("splitnet"), X, "diag")
    (labels,) = start([np.arange(1000)], rng)
    assert adjusted_rand_score(y, labels) > 0.99


def test_it_is_never_much_below_two_means() -> None:
    """By the ratio that the sampler will accept by, in dimensions where a context is few points."""
    for seed, dim in enumerate((30, 120)):
        rng = np.random.default_rng(seed)
        centres = 0.8 * rng.standard_normal((6, dim))
        X = (centres[rng.integers(6, size=3000)] + rng.standard_normal((3000, dim))).astype(np.float32)
        prior = criterion_of(X, "diag").prior
        ratios = [
            log_hastings(prior, X, split(make_initializer(name), X, seed, "diag"), 10.0)
            for name in ("kmeans", "splitnet")
        ]
        # The prior expects clusters that are all alike (cells are), which two-means halves are most.
        assert ratios[1] > 0.75 * ratios[0] > 0


def on_the_device(start: Initializer, X: np.ndarray, device: str) -> np.ndarray:
    """With the data uploaded, as on a GPU."""
    assert isinstance(start, SplitNetStart)
    bound(start, X)
    start.uploaded = torch.as_tensor(X, device=device)
    return start([np.arange(len(X)), np.arange(50)], np.random.default_rng(0))[0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dim", [2, 30])
def test_uploaded_data_are_split_alike(dim: int, device: str) -> None:
    """The functions of a GPU, on whichever device: points, frames, network and labels stay there."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    X, y = pair(np.random.default_rng(25), 1500, dim, gap=8.0)
    start = bound(make_initializer("splitnet", device="cpu"), X)
    (plain, _) = start([np.arange(len(X)), np.arange(50)], np.random.default_rng(0))
    uploaded = on_the_device(make_initializer("splitnet", device=device), X, device)
    assert adjusted_rand_score(plain, uploaded) > 0.99
    assert adjusted_rand_score(y, uploaded) > 0.9 or dim > 20


def test_the_identity_names_all_that_answers_depend_on(tmp_path: Path) -> None:
    """So that a checkpoint refuses to go on with another start."""
    weights = [tmp_path / f"{seed}.safetensors" for seed in range(2)]
    for seed, path in enumerate(weights):
        torch.manual_seed(seed)
        save_weights(path, SplitNet(architecture()), {})
    options: list[dict[str, Any]] = [
        {}, {"context": 500}, {"network": False}, {"refine": 2}, *({"weights": path} for path in weights)
    ]  # fmt: skip
    X = pair(np.random.default_rng(24), 100, 2, gap=5.0)[0]
    starts = [bound(make_initializer("splitnet", **chosen), X) for chosen in options]
    identities = [start_identity(start) for start in starts]
    assert len(set(identities)) == len(options)
    assert identities == [start_identity(bound(make_initializer("splitnet", **chosen), X)) for chosen in options]
    kmeans = [start_identity(make_initializer("kmeans", **chosen)) for chosen in ({}, {"sample": 9}, {"iterations": 3})]
    assert len(set(kmeans)) == 3
