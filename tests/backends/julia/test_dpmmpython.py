"""dpmmpython's README and notebook, by DPMMSubClusters.jl itself and here: the same data, priors and settings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from dpmmwrap import DPMM, NIW
from dpmmwrap.backends import Julia
from dpmmwrap.backends.julia import setup as julia_setup
from dpmmwrap.backends.julia import start_julia
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.mixture import Mixture

MISSING = julia_setup.missing()
pytestmark = [
    pytest.mark.julia,
    pytest.mark.skipif(MISSING is not None, reason=f"the Julia backend cannot run: {MISSING}"),
]


class Drawn(NamedTuple):
    """Points that the package has drawn: its own matrix, the same as rows, and the component of each."""

    points: Any
    X: np.ndarray
    truth: np.ndarray


class Package:
    """DPMMSubClusters.jl, called as dpmmpython calls it."""

    def __init__(self) -> None:
        start_julia()
        import juliacall

        self.julia = juliacall.Main
        self.module = self.julia.seval("import DPMMSubClusters, Random; DPMMSubClusters")

    def draw(self, generator: str, seed: int, *sizes: float) -> Drawn:
        self.julia.Random.seed_b(seed)
        points, truth, *_ = getattr(self.module, generator)(*sizes)
        return Drawn(points, np.array(points).T, np.array(truth).astype(int))

    def niw(self, kappa: float, mu: np.ndarray, nu: float, psi: np.ndarray) -> Any:
        return self.module.niw_hyperparams(kappa, self.doubles(mu), nu, self.doubles(psi))

    def doubles(self, numbers: np.ndarray) -> Any:
        return self.julia.Array[self.julia.Float64](numbers)

    def fit(self, drawn: Drawn, alpha: float, prior: Any, **settings: Any) -> tuple[Any, ...]:
        """Labels, clusters and weights first, the model last."""
        return tuple(self.module.fit(drawn.points, prior, alpha, verbose=False, seed=0, **settings))


@pytest.fixture(scope="module")
def package() -> Package:
    return Package()


def plain(age: int = 15) -> dict[str, Any]:
    """The settings for dpmmpython's sampler in docs/coming-from.md; `age` is its burnout."""
    backend = Julia(ratio="reference", restart_after=None, min_cluster_age=age)
    return {"backend": backend, "init": "random", "init_clusters": 1, "random_state": 0}


def nmi(drawn: Drawn, labels: Any) -> float:
    return float(normalized_mutual_info_score(drawn.truth, np.asarray(labels)))


@pytest.fixture(scope="module")
def readme(package: Package) -> Drawn:
    return package.draw("generate_gaussian_data", 3, 10_000, 2, 10, 100.0)


def test_the_example_of_the_readme(package: Package, readme: Drawn) -> None:
    kappa, mu, nu, psi = 1, np.zeros(2), 4, np.eye(2)
    labels, clusters, *_, model = package.fit(readme, 100, package.niw(kappa, mu, nu, psi), iters=100, burnout=15)
    prior = NIW(mean=mu, mean_strength=kappa, scale=nu * psi, degrees_of_freedom=nu)
    ours = DPMM(prior=prior, alpha=100, max_iter=100, **plain()).fit(readme.X, truth=readme.truth)
    assert nmi(readme, ours.labels_) > 0.9
    assert nmi(readme, ours.labels_) == pytest.approx(nmi(readme, labels), abs=0.05)
    assert len(ours.trace_.nmi) == 100 and ours.trace_.nmi[-1] == pytest.approx(nmi(readme, ours.labels_))

    # With the package's labels, our densities are those of its `predict`, which adds alpha to the sizes of clusters.
    own, (theirs, probabilities) = np.asarray(labels) - 1, map(np.asarray, package.module.predict(model, readme.points))
    densities = prior.posterior(prior.statistics(readme.X, own)).log_predictive(readme.X).T
    expected = softmax(densities + np.log(np.bincount(own) + 100.0), axis=1)
    np.testing.assert_allclose(probabilities, expected, atol=1e-3)
    mixture = Mixture.from_labels(readme.X, own, prior)
    assert (mixture.predict(readme.X) == theirs - 1).mean() > 0.99

    # `get_model_ll`: for each cluster a mean, under drawn parameters and without the weights. It has log(2 pi) / 2 for
    # each entry of the covariance, where a density has it for each feature.
    means = np.asarray(package.module.cluster_statistics(readme.points, labels, clusters)[0])
    scores = mixture.score_samples(readme.X) - np.log(mixture.weights)[own]
    large = np.flatnonzero(np.bincount(own) > 100)
    expected = [scores[own == k].mean() - (2 * 2 - 2) / 2 * np.log(2 * np.pi) for k in large]
    np.testing.assert_allclose(means[large], expected, atol=0.1)


@pytest.fixture(scope="module")
def notebook(package: Package) -> Drawn:
    return package.draw("generate_gaussian_data", 1, 20_000, 2, 20, 100.0)


@pytest.mark.parametrize(("smart_splits", "init"), [(False, "random"), (True, "kmeans")])
def test_the_example_of_the_notebook(package: Package, notebook: Drawn, smart_splits: bool, init: str) -> None:
    nu, psi = 2, 0.5 * np.eye(2)
    labels, *_ = package.fit(
        notebook, 10.0, package.niw(1, np.zeros(2), nu, psi), iters=70, burnout=5, smart_splits=smart_splits
    )
    prior = NIW(mean=np.zeros(2), mean_strength=1, scale=nu * psi, degrees_of_freedom=nu)
    settings = {**plain(age=5), "init": init, "prior": prior, "alpha": 10.0, "max_iter": 70}
    ours = DPMM(**settings).fit(notebook.X)
    assert nmi(notebook, ours.labels_) > nmi(notebook, labels) - 0.05
    # The notebook's point: it finds more than k-means, which is told the number of clusters. So does our own ratio.
    told = KMeans(20, n_init=1, random_state=0).fit_predict(notebook.X)
    full = DPMM(**settings | {"backend": "julia"}).fit(notebook.X)
    assert nmi(notebook, full.labels_) > nmi(notebook, told)


def test_a_multinomial_prior_of_one_number(package: Package) -> None:
    drawn = package.draw("generate_mnmm_data", 0, 2000, 12, 5, 100)
    labels, *_ = package.fit(drawn, 10.0, package.module.multinomial_hyper(package.doubles(np.full(12, 0.5))), iters=60)
    prior = Dirichlet(np.full(12, 0.5))
    ours = DPMM(family="multinomial", prior=prior, alpha=10.0, max_iter=60, **plain(age=20)).fit(drawn.X)
    assert nmi(drawn, ours.labels_) > 0.9
    assert nmi(drawn, ours.labels_) == pytest.approx(nmi(drawn, labels), abs=0.1)
