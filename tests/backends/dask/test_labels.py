"""The same labels, bit for bit, on one machine and on any number of workers."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import daskfits
import numpy as np
import pytest
from distributed import Client, LocalCluster

from dpmmwrap import DPMM, Dask, Julia
from dpmmwrap.backends.dask import cluster as clusters
from dpmmwrap.backends.dask.calls import Traffic


@pytest.mark.parametrize("kind", daskfits.SOME)
def test_two_workers_find_the_labels_of_one_machine(kind: str, client: Client) -> None:
    X, settings = daskfits.case(kind)
    expected = DPMM(**settings).fit(X)
    found = DPMM(**settings).fit(daskfits.lazy(X))
    assert found.backend_ == "dask" and expected.n_clusters_ > 1
    daskfits.assert_same(found, expected)
    if expected.draws_ is not None:
        np.testing.assert_array_equal(found.draws_.alpha, expected.draws_.alpha)
        np.testing.assert_array_equal(found.draws_.n_clusters, expected.draws_.n_clusters)


def test_a_client_that_is_given(workers: LocalCluster) -> None:
    X, settings = daskfits.case("full")
    settings |= {"max_iter": 6}
    expected = DPMM(**settings).fit(X)
    with pytest.raises(ValueError, match="data on Dask need a client"):
        DPMM(**settings, backend="dask").fit(X)
    with Client(workers, set_as_default=False) as other:
        model = DPMM(**settings, backend=Dask(client=other)).fit(daskfits.lazy(X))
        np.testing.assert_array_equal(other.compute(model.labels_).result(), expected.labels_)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_workers_finds_the_same(count: int) -> None:
    threads = 2 if count == 2 else 1
    with LocalCluster(n_workers=count, threads_per_worker=threads, dashboard_address=":0") as cluster, Client(cluster):
        for kind in daskfits.KINDS:
            X, settings = daskfits.case(kind)
            daskfits.assert_same(DPMM(**settings).fit(daskfits.lazy(X)), DPMM(**settings).fit(X))


@pytest.mark.slow
def test_data_that_are_there_already(client: Client) -> None:
    """Persisted blocks, and an array of NumPy's with backend="dask"."""
    X, settings = daskfits.case("full")
    settings |= {"max_iter": 6}
    expected = DPMM(**settings).fit(X)
    daskfits.assert_same(DPMM(**settings).fit(client.persist(daskfits.lazy(X))), expected)
    daskfits.assert_same(DPMM(**settings, backend="dask").fit(X), expected)


def test_a_frame_keeps_its_names(client: Client) -> None:
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, settings = daskfits.case("full")
    settings |= {"max_iter": 6}
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    expected = DPMM(**settings).fit(table)
    frame = dd.from_pandas(table, npartitions=5)
    found = DPMM(**settings).fit(frame)
    daskfits.assert_same(found, expected)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.predict(frame).compute(), expected.predict(table))


def test_outputs_are_lazy(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    X, settings = daskfits.case("full")
    blocks = daskfits.lazy(X)
    expected = DPMM(**settings).fit(X)
    model = DPMM(**settings).fit(blocks)
    with monkeypatch.context() as patched:
        for owner, name in ((dask.base, "compute"), (Client, "compute"), (Client, "get"), (Client, "submit")):
            patched.setattr(owner, name, None)
        lazy = {name: getattr(model, name)(blocks) for name in ("predict", "predict_proba", "score_samples")}
    for name, array in lazy.items():
        assert isinstance(array, da.Array) and array.chunks[0] == blocks.chunks[0]
        np.testing.assert_allclose(array.compute(), getattr(expected, name)(X), rtol=1e-9, atol=1e-12)
    assert lazy["predict"].dtype == np.int32 and lazy["predict_proba"].shape == (len(X), model.n_clusters_)
    score = model.score(blocks)
    assert isinstance(score, da.Array)
    assert float(score.compute()) == pytest.approx(expected.score(X))
    np.testing.assert_allclose(model.means_, expected.means_, rtol=1e-9)
    assert model.groups().n_components == expected.groups().n_components


def test_bytes_of_an_iteration_do_not_depend_on_the_number_of_points(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K D^2 numbers for each worker, whatever the number of points."""
    seen: dict[int, Traffic] = {}

    def close(self: clusters.Cluster) -> None:
        seen[rows] = self.traffic["sweep"]
        shut(self)

    shut = clusters.Cluster.close
    monkeypatch.setattr(clusters.Cluster, "close", close)
    for rows in (40_000, 80_000):
        X, labels = daskfits.points(rows)
        settings = {
            "covariance_type": "full",
            "init_clusters": labels,
            "init": "random",
            "alpha": 1.0,
            "max_clusters": 5,
        }
        DPMM(**settings, max_iter=10, random_state=0).fit(daskfits.lazy(X))
    few, many = (traffic._replace(calls=1) for traffic in seen.values())
    calls, clusters_and_halves, dim, workers = 10, 3 * 5, 3, 2
    numbers = clusters_and_halves * (dim * dim + dim + 2)
    assert seen[40_000].calls == seen[80_000].calls == calls
    for before, after in ((few.sent, many.sent), (few.received, many.received)):
        assert after < 1.1 * before
        assert before < calls * workers * (8 * numbers + 2000)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"family": "mixed"}, "the family mixed needs one machine"),
        ({"n_draws": 10}, "the labels of draws are not kept: loss should be None"),
        ({"init": lambda X: X[:, 0] > 0, "covariance_type": "full"}, "init should be splitnet, kmeans or random"),
        ({"backend": "native"}, "data of Dask need the backend dask"),
        ({"backend": Julia(workers=2)}, "data of Dask need the backend dask"),
    ],
)
def test_what_needs_one_machine_is_refused(settings: dict[str, Any], sentence: str, client: Client) -> None:
    with pytest.raises(ValueError, match=sentence):
        DPMM(max_iter=3, **settings).fit(daskfits.lazy(daskfits.points(3000)[0]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X: np.where(np.arange(len(X))[:, None] == 5, np.inf, X), "contains infinity"),
        (lambda X: np.where(np.arange(len(X))[:, None] == 5, np.nan, X), "missing values need covariance_type="),
        (lambda X: X.astype(np.float64) * np.where(np.arange(len(X))[:, None] % 2, 1e300, 1), "span more than single"),
        (lambda X: X[:1], "minimum of 2 is required"),
        (lambda X: X[:, 0], "Expected 2D array"),
    ],
)
def test_bad_data_get_a_sentence(change: Any, sentence: str, client: Client) -> None:
    X = change(daskfits.points(3000)[0])
    with pytest.raises(ValueError, match=sentence):
        DPMM(max_iter=3, covariance_type="full").fit(da.from_array(X, chunks=1000))


def test_without_a_client_a_sentence_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="data on Dask need a client"):
        DPMM().fit(daskfits.lazy(daskfits.points(3000)[0]))
