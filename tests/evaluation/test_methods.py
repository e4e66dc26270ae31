"""The methods: each finds what is easy to find, tells the same things about it, and says when it cannot run."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM, Native
from dpmmwrap.datasets import Dataset, generate, generate_counts
from dpmmwrap.evaluation import methods
from dpmmwrap.evaluation.fits import Clock, FitSettings, log_posterior
from dpmmwrap.evaluation.methods import METHODS, OUR_PRIOR, OWN_PRIOR, find_methods, missing, run_method
from dpmmwrap.evaluation.rivals import in_prior_units, old_names
from dpmmwrap.evaluation.samplers import make_sampler
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.defaults import DataScale
from dpmmwrap.files import InputError

QUICK = FitSettings(iterations=40, upper_bound=8)
# The multinomial one is for counts.
HERE = [name for name in METHODS if missing(name, QUICK) is None and name != "DPMM-multinomial"]


@pytest.fixture(scope="module")
def easy() -> Dataset:
    return generate(2, 3, 400, 400.0, 0)


@pytest.mark.parametrize("name", HERE)
def test_every_method_finds_clusters_that_are_far_apart(name: str, easy: Dataset) -> None:
    fit = run_method(name, easy.X, easy.y, QUICK, 0)
    # Long ones are several balls, and variational inference keeps pieces that a narrow prior begins with.
    least = 0.5 if name in ("DPMM-diag", "DPMM-spherical", OUR_PRIOR) else 0.9
    assert adjusted_rand_score(easy.y, fit.labels) > least
    assert fit.labels.min() == 0 or (name == "HDBSCAN" and fit.labels.min() == -1)
    assert len(fit.labels) == 400
    assert fit.log_posterior == pytest.approx(log_posterior(easy.X, fit.labels, 10.0, NIW.from_data(easy.X)))
    if name in ("SubC-Random", "K-means", OUR_PRIOR):
        np.testing.assert_array_equal(fit.labels, run_method(name, easy.X, easy.y, QUICK, 0).labels)


def test_the_samplers_keep_a_trace_and_the_others_none(easy: Dataset) -> None:
    fit = run_method("SubC-K-means", easy.X, easy.y, QUICK, 0)
    assert set(fit.trace) == {"n_clusters", "log_posterior", "seconds"}
    assert len(fit.trace["log_posterior"]) == fit.iterations == 40
    assert fit.trace["log_posterior"][-1] == pytest.approx(fit.log_posterior, rel=1e-6)
    assert run_method("K-means", easy.X, easy.y, QUICK, 0).trace == {}


def test_all_are_told_the_prior_with_which_a_default_fit_begins() -> None:
    few = generate(4, 3, 150, 50.0, 0)
    begun = DataScale(few.X).start("full").prior
    prior = FitSettings().niw(few.X)
    for field in NIW.FIELDS:
        np.testing.assert_array_equal(getattr(prior, field), getattr(begun, field))
    assert np.trace(prior.mean_covariance()[0]) < 0.5 * few.X.var(axis=0).sum(), "clusters, not the data"
    model = make_sampler("kmeans", "native", FitSettings(iterations=9), prior, 0)
    assert model.prior is prior and model.n_chains == 1 and model.max_iter == 9


def test_a_watched_fit_is_the_same_fit(easy: Dataset) -> None:
    plain = run_method("SubC-K-means", easy.X, easy.y, QUICK, 3)
    watched = run_method("SubC-K-means", easy.X, easy.y, FitSettings(iterations=40, watch=True), 3)
    np.testing.assert_array_equal(plain.labels, watched.labels)
    assert len(watched.trace["ari"]) == len(watched.trace["nmi"]) == 40
    assert watched.trace["ari"][-1] == pytest.approx(adjusted_rand_score(easy.y, watched.labels))
    assert watched.trace["ari"][0] == 0.0, "the paper's chains begin with one cluster"


def test_first_clusters(easy: Dataset) -> None:
    one = run_method("SubC-Random", easy.X, easy.y, FitSettings(iterations=1), 0)
    many = run_method("SubC-Random", easy.X, easy.y, FitSettings(iterations=1, init_clusters="many"), 0)
    assert len(np.unique(one.labels)) == 1
    assert len(np.unique(many.labels)) > 3


def test_the_upper_bound_binds(easy: Dataset) -> None:
    fit = run_method(OUR_PRIOR, easy.X, easy.y, FitSettings(iterations=20, upper_bound=2), 0)
    assert len(np.unique(fit.labels)) <= 2


def test_under_their_own_rules_only_models_have_a_log_posterior(easy: Dataset) -> None:
    own = FitSettings(own_rules=True)
    fit = run_method("DPMM-full", easy.X, easy.y, own, 1)
    model = DPMM(covariance_type="full", backend=Native(n_jobs=1), random_state=1).fit(easy.X)
    np.testing.assert_array_equal(fit.labels, model.labels_)
    assert fit.model == "full" and fit.log_posterior == model.log_posterior_
    assert np.isnan(run_method("K-means", easy.X, easy.y, own, 0).log_posterior)


def test_sparse_counts_are_multinomial() -> None:
    data = generate_counts(40, 3, 200, 0)
    for name in ("DPMM", "DPMM-multinomial", "DPMM-from-truth", "K-means"):
        fit = run_method(name, data.X, data.y, FitSettings(own_rules=True), 0)
        assert adjusted_rand_score(data.y, fit.labels) > 0.9
        assert fit.model == ("multinomial" if name.startswith("DPMM") else "")


def test_names_are_found_whatever_their_case() -> None:
    assert find_methods(["subc-random", "k-MEANS", "K-means"]) == ["SubC-Random", "K-means"]
    assert find_methods(["dpgmm"]) == [OUR_PRIOR, OWN_PRIOR], "short for both"
    assert find_methods(["dpgmm"], ["K-means", OWN_PRIOR]) == [OWN_PRIOR]
    assert find_methods(["subc-random (julia)"]) == ["SubC-Random (Julia)"]
    with pytest.raises(InputError, match=r"a method should be one of SubC-Random, .*, not 'dbscan'"):
        find_methods(["dbscan"])


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpmmwrap.splitnet.weights_io.shipped_path", lambda: Path("none.safetensors"))
    assert "no SplitNet weights" in str(missing("SubC-SplitNet", QUICK))
    assert missing("SubC-SplitNet", FitSettings(weights="mine.safetensors")) is None
    monkeypatch.setattr(methods.importlib.util, "find_spec", lambda name: None)
    assert "bnpy is not installed" in str(missing("moVB", QUICK))
    assert missing("K-means", QUICK) is None


def test_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, processor = iter([10.0, 13.5]), iter([1.0, 2.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(wall))
    monkeypatch.setattr("time.process_time", lambda: next(processor))
    with Clock() as clock:
        pass
    monkeypatch.undo()
    assert (clock.seconds, clock.cpu_seconds) == (3.5, 1.0)


def test_old_names_are_there_only_for_bnpy() -> None:
    had = {name: name in vars(np) for name in ("float", "bool8", "product")}
    with old_names():
        assert np.float(3) == 3.0  # noqa: NPY001
        assert inspect.getargspec(in_prior_units)[0] == ["X", "prior"]
    assert {name: name in vars(np) for name in had} == had
    assert np.bool is np.bool_


def test_a_number_multiplies_the_scale_of_the_reference_prior() -> None:
    X = np.zeros((3, 20), np.float32)
    one, four = (FitSettings(prior=prior).niw(X) for prior in ("reference", 4.0))
    np.testing.assert_allclose(four.scale, 4 * 23 * np.eye(20))
    np.testing.assert_allclose(one.scale, 23 * np.eye(20))
    assert four.degrees_of_freedom == one.degrees_of_freedom == 23 and four.mean_strength == 1


def test_prior_units() -> None:
    prior = NIW(np.array([1.0, -2.0]), 1.0, np.array([[8.0, 2.0], [2.0, 4.0]]), 5.0)
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal(prior.mean, prior.mean_covariance()[0], 200_000)
    units = in_prior_units(X, prior)
    np.testing.assert_allclose(units.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(np.cov(units, rowvar=False), np.eye(2), atol=0.02)
