"""The Set Transformer: equivariance, padding, the paper's sizes."""

import pytest
import torch

from dpmmwrap.splitnet.set_transformer import (
    FEW_KEYS,
    ISAB,
    MAB,
    PMA,
    Architecture,
    SetTransformer,
    attend,
    feature_count,
    features,
    paper_architecture,
)

SMALL = Architecture(dim=3, hidden=16, heads=2, encoders=1, inducing=4, decoders=1, seeds=3, proposals=2)


@pytest.fixture
def network() -> SetTransformer:
    torch.manual_seed(0)
    return SetTransformer(SMALL).eval()


def test_permuting_the_points_permutes_the_logits(network: SetTransformer) -> None:
    X = torch.randn(2, 30, 3)
    order = torch.randperm(30)
    torch.testing.assert_close(network(X)[:, order], network(X[:, order]), rtol=1e-4, atol=1e-5)


def test_any_number_of_points_gives_one_logit_per_point_and_proposal(network: SetTransformer) -> None:
    for n in (1, 7, 300):
        assert network(torch.randn(2, n, 3)).shape == (2, n, 2)


def test_padding_changes_nothing(network: SetTransformer) -> None:
    X = torch.randn(1, 20, 3)
    padded = torch.cat([X, 100 * torch.randn(1, 15, 3)], dim=1)
    present = torch.arange(35)[None] < 20
    torch.testing.assert_close(network(padded, present)[:, :20], network(X), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(network(padded)[:, :20], network(X), atol=1e-3)


def test_the_points_hear_of_each_other(network: SetTransformer) -> None:
    X = torch.randn(1, 20, 3)
    other = X.clone()
    other[0, 0] += 3
    assert (network(X) - network(other))[0, 1:].abs().max() > 1e-5


def test_blocks_keep_the_shape_of_what_attends() -> None:
    X, Y = torch.randn(2, 5, 16), torch.randn(2, 9, 16)
    assert MAB(16, 4)(X, Y).shape == X.shape
    for block in (ISAB(16, 4, 3), PMA(16, 4, 2)):
        assert block(Y).shape == Y.shape


@pytest.mark.parametrize(
    ("dim", "hidden", "heads", "encoders", "inducing", "decoders", "seeds"),
    [(2, 128, 4, 2, 64, 2, 8), (10, 128, 8, 2, 64, 2, 16), (20, 256, 8, 3, 128, 3, 16)],
)
def test_the_papers_sizes(
    dim: int, hidden: int, heads: int, encoders: int, inducing: int, decoders: int, seeds: int
) -> None:
    network = SetTransformer(paper_architecture(dim))
    assert len(network.encoder) == encoders
    assert len(network.decoder) == decoders
    assert network.embedding.weight.shape == (hidden, feature_count(dim))
    assert network.logits.weight.shape == (1, hidden)
    for block in network.encoder:
        assert isinstance(block, ISAB)
        assert block.inducing.shape == (1, inducing, hidden)
        assert block.gather.heads == block.scatter.heads == heads
    for block in network.decoder:
        assert isinstance(block, PMA)
        assert block.inducing.shape == (1, seeds, hidden)


def test_features_are_as_many_as_announced() -> None:
    for dim in (1, 2, 5, 6, 20):
        assert features(torch.randn(1, 4, dim)).shape == (1, 4, feature_count(dim))
    assert torch.isfinite(features(torch.tensor([[[0.0, 1e30, -1e30]]]))).all()


def test_unknown_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 3 heads"):
        SetTransformer(Architecture(2, 16, 3, 1, 4, 1, 4))


def test_few_keys_are_attended_to_like_many() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 4, 50, 16), torch.randn(2, 4, 8, 16), torch.randn(2, 4, 8, 16)
    assert key.shape[2] < FEW_KEYS
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(attend(query, key, value, None), expected)
