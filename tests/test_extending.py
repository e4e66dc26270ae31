"""The skeletons of docs/extending.md compile and run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpmmwrap.datasets import generate
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.starts import Initializer, make_initializer

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data() -> Any:
    return generate(dim=2, clusters=4, points=1000, spread=100, seed=0)


def skeleton(name: str) -> dict[str, Any]:
    """What the page's code of that name defines."""
    code = re.search(rf'```python title="{name}"\n(.*?)```', PAGE, re.DOTALL)
    assert code is not None
    # As if it were a module: dataclasses look up the module of their class.
    defined: dict[str, Any] = {"__name__": __name__}
    exec(code.group(1), defined)
    return defined


def settings_for(X: np.ndarray, prior: Any, **changes: Any) -> Settings:
    options: dict[str, Any] = {"initializer": make_initializer("kmeans"), "max_iter": 30}
    options |= {"min_cluster_age": 2, "seed": 0} | changes
    return Settings(DirichletProcess(10.0), prior, **options)


def test_the_family_finds_clusters_of_waiting_times() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[1.0, 50.0, 9.0, 1.0], [80.0, 1.0, 4.0, 30.0], [3.0, 1.0, 300.0, 1.0]])
    y = rng.integers(0, 3, 900)
    X = rng.exponential(means[y]).astype(np.float32)
    family = skeleton("family")["GammaExponential"]
    settings = settings_for(X, family(np.full(1, 1.0), np.full(4, 0.2)), truth=y.astype(np.int32))
    settings.bind(X, True)
    chain = Chain(X, settings)
    chain.begin()
    trace = [chain.iterate() for _ in range(30)]
    assert trace[-1].n_clusters == 3 and trace[-1].nmi > 0.8
    # One feature, point by point: each value is Lomax given those before it.
    values, one = np.array([3.0, 0.4, 5.0]), family(np.full(1, 1.5), np.full(1, 0.7))
    total = sum(stats.lomax(1.5 + n, scale=0.7 + values[:n].sum()).logpdf(values[n]) for n in range(3))
    assert one.log_marginal_likelihood(one.statistics(values[:, None]))[0] == pytest.approx(total)
    assert one.log_predictive(values[:, None])[0, 1] == pytest.approx(stats.lomax(1.5, scale=0.7).logpdf(0.4))


def test_the_move_changes_names_only(data: Any) -> None:
    settings = settings_for(data.X, NIW.from_data(data.X), init_clusters=data.y)
    settings.bind(data.X, True)
    chain = Chain(data.X, settings)
    chain.begin()
    before, labels = chain.log_posterior, chain.state.labels.copy()
    state, info = skeleton("move")["step"](np.uint64(0), chain.state, chain.problem)
    assert info.moved > 0
    assert chain.log_posterior == pytest.approx(before)
    assert (np.diff(np.bincount(state.labels)) <= 0).all()
    assert len(set(zip(labels.tolist(), state.labels.tolist(), strict=True))) == 4
    chain.iterate()


def test_the_start_is_an_initializer_that_serves_a_fit(data: Any) -> None:
    start = skeleton("start")["MedianStart"]()
    assert isinstance(start, Initializer)
    settings = settings_for(data.X, NIW.from_data(data.X), initializer=start)
    settings.bind(data.X, True)
    chain = Chain(data.X, settings)
    assert chain.run().trace.n_clusters[-1] == 4


def test_the_backend_gives_labels_and_a_trace(data: Any) -> None:
    result = skeleton("backend")["OneSplitBackend"]().fit(data.X, settings_for(data.X, NIW.from_data(data.X)))
    assert set(result.labels) == {0, 1} and result.trace.n_clusters.tolist() == [2]
