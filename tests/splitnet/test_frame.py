"""The frame of a cluster does not depend on how its points were stretched, rotate_to_ics and shifted."""

import numpy as np
import torch

from dpmmwrap.splitnet.frame import (
    frame_of,
    lacking_share,
    principal,
    rotate_to_ics,
    standardising,
    to_frame,
    whitening,
)


def skewed(seed: int, n: int = 3000, dim: int = 3) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.3
    X = rng.standard_normal((n, dim)) * np.where(group[:, None], [0.2, 1.0, 2.0][:dim], 1.0)
    X[group, 0] += 3
    X[group, 1] += 1
    return torch.from_numpy(X)[None]


def test_whitened_points_have_mean_zero_and_unit_covariance() -> None:
    X = skewed(0) * 1000 + 1e6
    Z = whitening(X)(X)[0]
    torch.testing.assert_close(Z.mean(dim=0), torch.zeros(3, dtype=Z.dtype), atol=1e-8, rtol=0)
    torch.testing.assert_close(Z.T @ Z / len(Z), torch.eye(3, dtype=Z.dtype), atol=1e-6, rtol=0)


def test_an_affine_map_of_the_points_leaves_the_frame_alone() -> None:
    X = skewed(1)
    rng = np.random.default_rng(2)
    matrix = torch.from_numpy(rng.standard_normal((3, 3)) + 2 * np.eye(3))
    torch.testing.assert_close(to_frame(X @ matrix + 5.0), to_frame(X), atol=1e-5, rtol=0)


def test_two_gaussians_around_one_mean_come_to_lie_along_the_axes() -> None:
    rng = np.random.default_rng(3)
    n, dim = 40_000, 4
    factors = [rng.standard_normal((dim, dim)) for _ in range(2)]
    group = rng.random(n) < 0.5
    X = np.where(group[:, None], rng.standard_normal((n, dim)) @ factors[0], rng.standard_normal((n, dim)) @ factors[1])
    points = torch.from_numpy(X)[None]

    def largest_correlation(Y: np.ndarray) -> float:
        return max(np.abs(np.corrcoef(Y[side].T) - np.eye(dim)).max() for side in (group, ~group))

    assert largest_correlation(whitening(points)(points)[0].numpy()) > 0.5
    assert largest_correlation(to_frame(points)[0].numpy()) < 0.2


def test_padding_is_left_out() -> None:
    X = skewed(4, n=200)
    padded = torch.cat([X, torch.full((1, 50, 3), 77.0, dtype=X.dtype)], dim=1)
    present = torch.arange(250)[None] < 200
    torch.testing.assert_close(to_frame(padded, present)[:, :200], to_frame(X))


def test_a_flat_direction_is_not_blown_up() -> None:
    X = torch.cat([skewed(5), torch.zeros(1, 3000, 1, dtype=torch.float64)], dim=2)
    assert to_frame(X).abs().max() < 20


def test_turning_is_a_rotation() -> None:
    Z = whitening(skewed(6))(skewed(6))
    Y, axes = rotate_to_ics(Z)
    torch.testing.assert_close(axes[0].T @ axes[0], torch.eye(3, dtype=axes.dtype))
    torch.testing.assert_close(Z @ axes, Y)


def test_the_frame_of_a_cluster_keeps_its_longest_direction() -> None:
    X = skewed(9) * torch.tensor([1.0, 50.0, 1.0])
    frame = frame_of(X)
    Z = frame(X)
    torch.testing.assert_close(Z, to_frame(X), atol=1e-4, rtol=0)
    along = (Z @ frame.longest.to(Z)[:, :, None])[0, :, 0]
    assert abs(np.corrcoef(along.numpy(), X[0, :, 1].numpy())[0, 1]) > 0.99


def test_with_fewer_points_than_dimensions_the_expected_covariance_stands_in() -> None:
    rng = np.random.default_rng(10)
    X = torch.from_numpy(rng.standard_normal((1, 6, 20)) * 3)
    Z = frame_of(X, expected=9 * torch.eye(20, dtype=torch.float64))(X)
    # A covariance of six points alone would make all of them equally far from each other.
    assert 0.3 < float(Z.square().mean()) < 2
    assert float(lacking_share(torch.tensor([1000.0]), 20)) < 1e-8
    assert float(lacking_share(torch.tensor([20.0]), 20)) > 0.7


def test_standardising_leaves_directions_alone() -> None:
    rng = np.random.default_rng(11)
    X = torch.from_numpy(rng.standard_normal((2, 50, 30)) * np.r_[0.0, np.arange(1, 30)] + 7)
    present = torch.arange(50)[None].expand(2, -1) < 40
    frame = standardising(X, present, torch.ones(30, dtype=torch.float64))
    Z = frame(X)[:, :40]
    torch.testing.assert_close(Z[:, :, 1:].square().mean(dim=1), torch.ones(2, 29, dtype=Z.dtype))
    assert Z[:, :, 0].abs().max() < 1e-6
    assert (frame.axes == torch.diag_embed(frame.axes.diagonal(dim1=1, dim2=2))).all()


def test_principal_directions_hold_what_stands_out() -> None:
    rng = np.random.default_rng(12)
    X = rng.standard_normal((1, 400, 200))
    X[0, :, 3] *= 10
    X[0, :200, 50:60] += 8
    X -= X.mean(axis=1, keepdims=True)
    Y = principal(torch.from_numpy(X), torch.from_numpy(rng.standard_normal((200, 20))))
    assert Y.shape == (1, 400, 20)
    for signal in (X[0, :, 3], X[0, :, 50:60].sum(axis=1)):
        left = np.linalg.lstsq(Y[0].numpy(), signal, rcond=None)[1][0] / (signal @ signal)
        assert left < 0.05
