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
    return Settings(10.0, prior, **options)


def test_the_family_finds_poisson_clusters() -> None:
    rng = np.random.default_rng(0)
    rates = np.array([[1.0, 5.0, 9.0], [8.0, 1.0, 4.0], [3.0, 12.0, 1.0]])
    y = rng.integers(0, 3, 900)
    X = rng.poisson(rates[y]).astype(np.float32)
    prior = skeleton("family")["GammaPoisson"](np.full(3, 1.0), np.full(1, 0.2))
    settings = settings_for(X, prior, truth=y.astype(np.int32))
    settings.bind(X, True)
    chain = Chain(X, settings)
    chain.begin()
    trace = [chain.iterate() for _ in range(30)]
    assert trace[-1].n_clusters == 3 and trace[-1].nmi > 0.8
    # One feature, point by point: each value is negative binomial given those before it.
    values, total = np.array([3.0, 0.0, 5.0]), 0.0
    one = skeleton("family")["GammaPoisson"](np.full(1, 1.5), np.full(1, 0.7))
    for n, value in enumerate(values):
        rate = 0.7 + n
        total += stats.nbinom(1.5 + values[:n].sum(), rate / (rate + 1)).logpmf(value)
    factorials = np.log([6.0, 1.0, 120.0]).sum()
    found = one.log_marginal_likelihood(one.statistics(values[:, None]))
    assert found[0] - factorials == pytest.approx(total)


def test_the_move_changes_names_only(data: Any) -> None:
    settings = settings_for(data.X, NIW.from_data(data.X), init_clusters=data.y)
    settings.bind(data.X, True)
    chain = Chain(data.X, settings)
    chain.begin()
    before, labels = chain.log_posterior, chain.state.labels.copy()
    state, info = skeleton("move")["step"](np.uint64(0), chain.state, chain.context)
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
