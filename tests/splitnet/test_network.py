"""SplitNet: a network for any dimension, by itself in Python."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.splitnet.axis_network import FEATURES, AxisNetwork, AxisSizes, axis_features
from dpmmwrap.splitnet.network import SplitNet, architecture
from dpmmwrap.splitnet.set_transformer import Architecture, paper_architecture
from dpmmwrap.splitnet.weights_io import save_weights

SMALL = AxisSizes(hidden=12, groups=4, axis=8, summary=8, blocks=2, directions=2, proposals=3)


@pytest.fixture
def network() -> AxisNetwork:
    torch.manual_seed(0)
    return AxisNetwork(SMALL).eval()


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_permuting_the_points_permutes_the_logits(network: AxisNetwork, dim: int) -> None:
    X = torch.randn(2, 30, dim)
    order = torch.randperm(30)
    torch.testing.assert_close(network(X)[:, order], network(X[:, order]), rtol=1e-4, atol=1e-5)
    assert network(X).shape == (2, 30, 3)


def test_padding_changes_nothing(network: AxisNetwork) -> None:
    X = torch.randn(1, 20, 3)
    padded = torch.cat([X, 100 * torch.randn(1, 15, 3)], dim=1)
    present = torch.arange(35)[None] < 20
    torch.testing.assert_close(network(padded, present)[:, :20], network(X), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(network(padded)[:, :20], network(X), atol=1e-3)


def test_clusters_of_a_batch_do_not_hear_of_each_other(network: AxisNetwork) -> None:
    X = torch.randn(3, 20, 4)
    torch.testing.assert_close(network(X)[1:2], network(X[1:2]), rtol=1e-4, atol=1e-5)
    other = X.clone()
    other[1, 0] += 3
    changed = (network(X) - network(other)).abs().amax(dim=(1, 2))
    assert changed[1] > 1e-5 and changed[0] < 1e-6


def test_features_are_finite_whatever_comes() -> None:
    found = axis_features(torch.tensor([[[0.0, 1e30, -1e30]]]))
    assert found.shape == (1, 1, 3, FEATURES) and found.isfinite().all()


def test_presets() -> None:
    assert architecture() == AxisSizes()
    assert architecture("paper", 10) == paper_architecture(10)
    with pytest.raises(ValueError, match="preset should be one of compact, paper, not 'large'"):
        architecture("large")
    with pytest.raises(ValueError, match="in a single dimension"):
        architecture("paper")


@pytest.mark.parametrize("dim", [1, 2, 6, 20, 40])
def test_the_shipped_network_by_itself(dim: int) -> None:
    rng = np.random.default_rng(dim)
    y = rng.random(600) < 0.4
    X = rng.standard_normal((600, dim))
    X[:, 0] += 7 * y
    X = 1000 + X @ rng.standard_normal((dim, dim))
    network = SplitNet.load(dim)
    p = network.split(X)
    assert p.shape == (600,) and ((p >= 0) & (p <= 1)).all()
    assert adjusted_rand_score(y, p > 0.5) > 0.9
    np.testing.assert_allclose(network.split(X[::-1])[::-1], p, atol=2e-3)


def test_splitting_by_a_file_and_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    small = Architecture(dim=2, hidden=16, heads=2, encoders=1, inducing=4, decoders=1, seeds=3)
    save_weights(path, SplitNet(small), {})
    network = SplitNet.load(path)
    assert network.split(np.eye(2)).shape == (2,)
    with pytest.raises(ValueError, match="is for 2 features, but the points have 3"):
        network.split(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="points by features"):
        network.split(np.zeros(5))
    with pytest.raises(ValueError, match="finite"):
        network.split(np.full((5, 2), np.nan))
    with pytest.raises(ValueError, match="at least 1 feature, not 0"):
        SplitNet.load(0)
