"""The comparison of splits: calibration of probabilities, and what a method is called."""

import numpy as np
import pytest

from dpmmwrap.evaluation.splits import NETWORK_ALONE, START, calibration_error, judge, reliability, splitters


@pytest.fixture(scope="module")
def said() -> np.ndarray:
    return np.random.default_rng(0).beta(0.5, 0.5, size=(40, 500))


def test_what_comes_true_as_often_as_was_said_is_calibrated(said: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    truth = (rng.random(said.shape) < said).astype(np.int64)
    assert calibration_error(said, truth) < 0.01
    shares, probability, frequency = reliability(said, truth)
    np.testing.assert_allclose(shares.sum(), 1.0)
    np.testing.assert_allclose(probability, frequency, atol=0.05)


def test_too_sure_is_not_calibrated(said: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    truth = (rng.random(said.shape) < 0.5 + 0.5 * (said - 0.5)).astype(np.int64)
    assert calibration_error(said, truth) > 0.1


def test_the_names_of_sides_do_not_matter(said: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    truth = (rng.random(said.shape) < said).astype(np.int64)
    turned = np.where(np.arange(40)[:, None] % 2, said, 1 - said)
    np.testing.assert_allclose(calibration_error(turned, truth), calibration_error(said, truth), atol=1e-3)


def test_labels_have_no_calibration() -> None:
    rng = np.random.default_rng(4)
    X, truth = rng.standard_normal((2, 50, 2)), rng.integers(0, 2, (2, 50))
    assert np.isnan(judge("labels", "easy", X, truth, truth.astype(np.uint8), 1.0).calibration)
    sure = judge("probabilities", "easy", X, truth, truth.astype(np.float64), 1.0)
    assert sure.calibration == 0.0 and sure.ari == 1.0


def test_the_network_and_the_start_are_two_methods() -> None:
    methods = splitters(3, 0, None, parts=True)
    assert {NETWORK_ALONE, START, f"{START} without EM", f"{START} without the network"} <= set(methods)
    X = np.concatenate([np.zeros((60, 3)), np.full((40, 3), 9.0)])
    X = (X + np.random.default_rng(5).standard_normal(X.shape)).astype(np.float32)
    (probabilities,), (labels,) = methods[NETWORK_ALONE](X[None]), methods[START](X[None])
    assert probabilities.dtype == np.float64 and labels.dtype == np.uint8
