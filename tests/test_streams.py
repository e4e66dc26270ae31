"""Data that keep coming: batches, clusters that keep their names, known clusters, novelty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM, load
from dpmmwrap.datasets import generate, generate_counts
from dpmmwrap.families.base import take
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.model.memory import Memory, Window, partition_from, partition_text
from dpmmwrap.partitions import DirichletProcess, FiniteMixture, PitmanYor
from dpmmwrap.streams import pieces
from dpmmwrap.streams.identities import follow
from dpmmwrap.streams.update import leaving, whole_statistics

QUICK: dict[str, Any] = {"covariance_type": "full", "init": "kmeans", "n_chains": 1, "random_state": 0}


def blobs(rows: int, places: list[int], seed: int, apart: float = 12.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows about places on a line, in two dimensions."""
    rng = np.random.default_rng(seed)
    true = rng.choice(places, rows)
    return (rng.normal(size=(rows, 2)) + apart * true[:, None]).astype(np.float64), true


def memory_of(model: DPMM) -> Memory:
    memory = model.mixture_.memory
    assert memory is not None
    return memory


def followed(ids: np.ndarray, model: DPMM) -> np.ndarray:
    """The ids of all rows with those of a batch; rows before it that were free may have moved."""
    ids = np.append(ids, model.row_ids_)
    ids[model.window_rows_] = model.window_row_ids_
    return ids


def test_one_batch_is_a_fit() -> None:
    X, _ = blobs(300, [0, 1, 2], 0)
    whole, model = DPMM(**QUICK).fit(X), DPMM(**QUICK).partial_fit(X)
    np.testing.assert_array_equal(whole.labels_, model.labels_)
    np.testing.assert_array_equal(whole.means_, model.means_)
    assert whole.log_posterior_ == model.log_posterior_ and model.cluster_ids_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("window", [0, 50, 1000])
def test_statistics_are_those_of_all_rows(window: int) -> None:
    model, seen, ids = DPMM(**QUICK), [], np.empty(0, np.int64)
    for day in range(4):
        X, _ = blobs(150, [0, 1, 2][: 1 + day], day)
        model.partial_fit(X, window=window)
        seen.append(X)
        ids = followed(ids, model)
    memory = memory_of(model)
    every, names = np.concatenate(seen), model.current_ids(ids)
    place = {name: number for number, name in enumerate(model.cluster_ids_.tolist())}
    labels = np.array([place[name] for name in names.tolist()], np.int32)
    wanted = memory.prior.statistics((every - memory.offset).astype(np.float32), labels, 3)
    for own, its in zip(whole_statistics(memory), wanted, strict=True):
        np.testing.assert_allclose(own, its, rtol=1e-6, atol=1e-3)
    np.testing.assert_array_equal(model.mixture_.counts, wanted.counts)
    assert (0 if memory.window is None else memory.window.n_rows) == min(window, len(every))


def test_clusters_are_born_and_keep_their_names() -> None:
    model, ids, true = DPMM(**QUICK), np.empty(0, np.int64), []
    for day in range(6):
        X, own = blobs(100, [0] if day < 2 else [0, 1] if day < 4 else [0, 1, 2], day)
        ids = followed(ids, model.partial_fit(X))
        true.append(own)
    assert adjusted_rand_score(np.concatenate(true), model.current_ids(ids)) == 1.0
    assert [(event.batch, event.kind) for event in model.history_] == [(1, "birth"), (3, "birth"), (5, "birth")]
    assert sorted(model.cluster_ids_.tolist()) == [0, 1, 2]


def test_old_clusters_merge_unless_they_are_frozen() -> None:
    # One cluster that is known as two.
    X, true = blobs(200, [0, 1], 0)
    y = np.where(true == 1, -1, np.arange(200) % 2)
    more, _ = blobs(200, [0, 1], 1)
    model, frozen = (DPMM(**QUICK).partial_fit(X, y, window=0) for _ in range(2))
    ids = model.row_ids_
    assert sorted(model.cluster_ids_.tolist()) == [0, 1, 2]
    model.partial_fit(more, window=0)
    frozen.partial_fit(more, window=0, freeze=True)
    (merge,) = [event for event in model.history_ if event.kind == "merge"]
    assert merge.batch == 2 and {merge.cluster, merge.other} == {0, 1} and model.n_clusters_ == 2
    np.testing.assert_array_equal(model.current_ids(ids), np.where(true == 1, 2, merge.other))
    assert sorted(frozen.cluster_ids_.tolist()) == [0, 1, 2] and frozen.history_[-1].batch == 1


def test_names_are_followed() -> None:
    def after(moved: list[list[float]]) -> Any:
        return follow(np.array([4, 7]), 9, 3, np.array(moved))

    assert after([[0.0, 30.0], [20.0, 0.0]]).ids.tolist() == [7, 4]
    merged = after([[30.0], [20.0]])
    assert merged.ids.tolist() == [4] and merged.events == ((3, "merge", 7, 4),)
    parted = after([[18.0, 12.0, 0.0], [0.0, 0.0, 20.0]])
    assert parted.ids.tolist() == [4, 9, 7] and parted.next_id == 10 and parted.events == ((3, "split", 9, 4),)
    born = after([[30.0, 0.0, 0.0], [0.0, 20.0, 0.0]])
    assert born.ids.tolist() == [4, 7, 9] and born.events == ((3, "birth", 9, -1),)
    # Most of the smaller one has gone to the larger one, whose id that is; what is left of it is new.
    absorbed = after([[30.0, 0.0], [12.0, 8.0]])
    assert absorbed.ids.tolist() == [4, 9] and absorbed.events == ((3, "merge", 7, 4), (3, "split", 9, 7))


@pytest.mark.parametrize("window", [0, 20])
def test_what_is_forgotten_dies(window: int) -> None:
    model = DPMM(**QUICK).partial_fit(blobs(200, [0, 1], 0)[0], window=window)
    model.partial_fit(blobs(100, [0], 1)[0], window=window, forget=0.01)
    # The window's rows were not gone yet.
    assert model.mixture_.counts.sum() == pytest.approx((200 - window) * 0.99**100 + window + 100)
    for day in range(2, 8):
        model.partial_fit(blobs(100, [0], day)[0], window=window, forget=0.01)
    deaths = [event for event in model.history_ if event.kind == "death"]
    assert model.n_clusters_ == 1 and len(deaths) == 1 and deaths[0].cluster not in model.cluster_ids_


def test_the_prior_is_learned_again_when_rows_have_doubled_while_all_are_free() -> None:
    model, seen = DPMM(**QUICK), []
    for day in range(8):
        model.partial_fit(blobs(50, [0, 1], day)[0], window=250)
        memory = memory_of(model)
        assert memory.hyperprior is not None
        seen.append((memory.searched, float(memory.hyperprior.variances[0])))  # type: ignore[attr-defined]
    # The sixth batch is the first after which rows leave.
    assert [rows for rows, _ in seen] == [50, 100, 100, 200, 200, 300, 300, 300]
    assert len({units for _, units in seen}) == 4


def test_certain_rows_of_the_older_half_leave_first() -> None:
    certainty = np.array([0.5, 0.9, 1.0, 0.6, 0.99, 1.0, 1.0, 1.0])
    free = Window(np.zeros((8, 1)), np.zeros(8, np.int32), np.arange(8), certainty)
    # Four stay, two of them as the last ones.
    assert leaving(free, 4).tolist() == [1, 2, 4, 5]
    assert leaving(free, 4, oldest=True).tolist() == [0, 1, 2, 3]
    assert leaving(free, 0).tolist() == list(range(8)) and not len(leaving(free, 8))


def test_doubtful_rows_stay_free_longer() -> None:
    X, _ = blobs(400, [0, 1], 0, apart=2.5)
    model = DPMM(**QUICK).partial_fit(X[:200], window=100).partial_fit(X[200:], window=100)
    window = memory_of(model).window
    assert window is not None and np.isin(np.arange(350, 400), window.numbers).all()
    old = window.numbers[window.numbers < 350]
    gone = np.setdiff1d(np.arange(350), old)
    sure = model.predict_proba(X).max(axis=1)
    assert sure[old].mean() < sure[gone].mean() - 0.05


def test_forgetting_by_time() -> None:
    model = DPMM(**QUICK).partial_fit(blobs(200, [0, 1], 0)[0], window=0, time=10)
    model.partial_fit(blobs(50, [0, 1], 1)[0], window=0, forget=0.5, time=12)
    assert model.mixture_.counts.sum() == pytest.approx(200 / 4 + 50)
    with pytest.raises(ValueError, match="time should not go back, but it is 11 after 12"):
        model.partial_fit(blobs(50, [0, 1], 2)[0], time=11)
    with pytest.raises(ValueError, match="time should be given for all batches or for none"):
        model.partial_fit(blobs(50, [0, 1], 2)[0])


def test_a_saved_model_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model = (
        DPMM(**QUICK).partial_fit(blobs(200, [0, 1], 0)[0], window=60).partial_fit(blobs(90, [0, 1], 1)[0], window=60)
    )
    model.save(tmp_path / "model.npz")
    other = DPMM(random_state=0, init="kmeans").resume(tmp_path / "model.npz")
    np.testing.assert_array_equal(other.predict(blobs(50, [0, 1], 5)[0]), model.predict(blobs(50, [0, 1], 5)[0]))
    for day in (2, 3):
        X, _ = blobs(100, [0, 1, 2], day)
        for one in (model, other):
            one.partial_fit(X, window=60)
        np.testing.assert_array_equal(model.labels_, other.labels_)
        np.testing.assert_array_equal(model.means_, other.means_)
    assert model.history_ == other.history_ and model.log_posterior_ == other.log_posterior_


@pytest.mark.parametrize(
    "prior", [DirichletProcess().at((2.5,)), DirichletProcess(3.0), PitmanYor("auto", 0.25), FiniteMixture(2.0)]
)
def test_priors_over_partitions_are_saved(prior: Any) -> None:
    assert partition_from(partition_text(prior)) == prior


@pytest.mark.parametrize("kind", ["diag", "spherical", "counts", "sparse", "events", "mixed", "gaps"])
def test_other_families(kind: str, tmp_path: Path) -> None:
    rng, options = np.random.default_rng(0), dict(QUICK) | {"covariance_type": "auto"}
    X: Any = blobs(400, [0, 1], 0)[0]
    if kind in ("counts", "sparse", "events"):
        X = generate_counts(12, 3, 400, 0).X
        X = X if kind == "sparse" else X.toarray()
        options["family"] = "poisson" if kind == "events" else "multinomial"
    elif kind == "mixed":
        options["family"] = "mixed"
        X = {"x": X[:, 0], "kind": np.where(X[:, 0] > 6, "a", "b")}
    elif kind == "gaps":
        options["covariance_type"] = "diag"
        X[250:][rng.random((150, 2)) < 0.2] = np.nan
    else:
        options["covariance_type"] = kind
    parts = [slice(0, 200), slice(200, 300), slice(300, 400)]
    model = DPMM(**options)
    for part in parts:
        batch = {name: column[part] for name, column in X.items()} if isinstance(X, dict) else X[part]
        model.partial_fit(batch, window=50)
        model.save(tmp_path / "model.npz")
    assert model.mixture_.counts.sum() == 400 - (np.isnan(X).all(axis=1).sum() if kind == "gaps" else 0)
    whole = DPMM(**options).fit(X)
    assert model.n_clusters_ == whole.n_clusters_
    memory, again = memory_of(model), load(tmp_path / "model.npz").memory
    assert again is not None and again.ids.tolist() == memory.ids.tolist()
    for own, its in zip(whole_statistics(memory), whole_statistics(again), strict=True):
        np.testing.assert_array_equal(own, its)
    if kind == "sparse":
        assert memory.window is not None and scipy.sparse.issparse(memory.window.points)


def test_an_iterator_of_batches_and_one_row() -> None:
    X, _ = blobs(300, [0, 1], 0)
    model = DPMM(**QUICK).partial_fit(iter(np.split(X, 3)))
    assert memory_of(model).batches == 3 and model.n_clusters_ == 2
    assert model.partial_fit(X[:1] + 0.1).labels_.shape == (1,)


def test_blocks_of_dask_are_batches() -> None:
    arrays = pytest.importorskip("dask.array")
    X, _ = blobs(300, [0, 1], 0)
    model = DPMM(**QUICK).partial_fit(arrays.from_array(X, chunks=(100, 2)))
    assert memory_of(model).batches == 3 and model.mixture_.counts.sum() == 300


def test_weights_of_rows_in_batches() -> None:
    X, _ = blobs(200, [0, 1], 0)
    model = DPMM(**QUICK).partial_fit(X, window=30).partial_fit(X[:50] + 0.1, sample_weight=np.full(50, 2.0), window=30)
    assert model.mixture_.counts.sum() == 300


def test_what_is_refused() -> None:
    X, _ = blobs(200, [0, 1], 0)
    model = DPMM(**QUICK).partial_fit(X)
    with pytest.warns(UserWarning, match="the batch is the same as batch 1, which the model has seen"):
        model.partial_fit(X)
    assert memory_of(model).batches == 1 and len(model.labels_) == 200
    assert memory_of(model.partial_fit(X, repeat=True)).batches == 2
    with pytest.raises(ValueError, match="X has 3 features, but DPMM is expecting 2 features"):
        model.partial_fit(np.ones((5, 3)))
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit(X[:0])
    with pytest.raises(ValueError, match="the batch has no row with a value"):
        model.partial_fit(np.full((5, 2), np.nan))
    for options, message in (
        ({"n_draws": 5}, "partial_fit makes no draws"),
        ({"outlier_weight": 0.1}, "partial_fit knows no outlier component"),
        ({"backend": "julia"}, "partial_fit needs the built-in sampler"),
    ):
        with pytest.raises(ValueError, match=message):
            DPMM(**QUICK, **options).partial_fit(X)
    with pytest.raises(ValueError, match="forget"):
        model.partial_fit(X + 1, forget=1.5)


def test_known_clusters_stay_apart_and_others_join_or_are_new() -> None:
    X, true = blobs(300, [0, 1, 2], 0)
    y = np.full(300, -1)
    # One blob is known as two clusters; nothing is known of another.
    first, second = np.flatnonzero(true == 0)[:40], np.flatnonzero(true == 1)[:10]
    y[first[:20]], y[first[20:]], y[second] = 5, 6, 9
    model = DPMM(**QUICK).fit(X, y)
    ids = model.cluster_ids_[model.labels_]
    np.testing.assert_array_equal(ids[y >= 0], y[y >= 0])
    assert (ids[true == 1] == 9).all() and set(ids[true == 0]) <= {5, 6} and set(ids[true == 2]) == {10}
    # pandas turns labels with gaps into floats.
    for gap in (-1.0, np.nan):
        np.testing.assert_array_equal(DPMM(**QUICK).fit(X, np.where(y < 0, gap, y)).labels_, model.labels_)
    whole = DPMM(**QUICK).fit(X)
    for labels in (true, np.full(300, -1), np.where(y < 0, np.nan, y + 0.5), np.where(y < 0, -1, np.inf)):
        np.testing.assert_array_equal(DPMM(**QUICK).fit(X, labels).labels_, whole.labels_)
    with pytest.raises(ValueError, match=r"y should be -1 \(unknown\) or a label from 0"):
        DPMM(**QUICK).fit(X, np.where(y == 5, -3, y))
    with pytest.raises(ValueError, match="n_draws should be 0"):
        DPMM(**QUICK, n_draws=5).fit(X, y)


def test_batches_of_counts_may_be_sparse_or_not() -> None:
    counts = np.random.default_rng(0).poisson(np.array([[9, 1, 1], [1, 1, 9]])[np.arange(120) % 2])
    batches = [counts[:60], scipy.sparse.csr_matrix(counts[60:90]), counts[90:]]
    dense, mixed = (DPMM(**QUICK | {"covariance_type": "auto", "family": "multinomial"}) for _ in range(2))
    for batch in batches:
        dense.partial_fit(batch.toarray() if scipy.sparse.issparse(batch) else batch)
        mixed.partial_fit(batch)
    np.testing.assert_array_equal(mixed.row_ids_, dense.row_ids_)
    assert mixed.n_clusters_ == 2


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_a_batch_beyond_single_precision_is_refused(kind: str) -> None:
    X, _ = blobs(60, [0, 1], 0)
    model = DPMM(**QUICK | {"covariance_type": kind}).partial_fit(X + 1e8)
    with pytest.raises(
        ValueError, match=r"the batch is 1e\+08 away from the first one in column 1, too far for single"
    ):
        model.partial_fit(X)
    assert model.partial_fit(np.vstack([X + 1e8 + 1e4, X[:1]])).n_clusters_ == 5


@pytest.mark.parametrize("options", [{"covariance_type": "full"}, {"family": "mixed", "covariance_type": "auto"}])
def test_the_column_beyond_single_precision_is_named(options: dict[str, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    X, _ = blobs(60, [0, 1], 0)
    table = {"constant": np.ones(60), "near": X[:, 0], "far": X[:, 1] + 1e8}
    table |= {"kind": np.array(["a", "b"])[np.arange(60) % 2]} if "family" in options else {}
    model = DPMM(**QUICK | options).partial_fit(pandas.DataFrame(table))
    with pytest.raises(ValueError, match="away from the first one in column far, too far for single precision"):
        model.partial_fit(pandas.DataFrame(table | {"far": X[:, 1]}))


def test_groups_after_a_batch_of_one_row() -> None:
    """It has no halves that could say which of the clusters are distinct."""
    X, _ = blobs(40, [0, 1], 0, apart=3.0)
    model = DPMM(**QUICK).partial_fit(X).partial_fit(X[:1] + 1, window=0)
    assert len(model.groups().component_groups) == model.n_clusters_


def test_two_classes_as_1_and_minus_1_get_a_note() -> None:
    X, true = blobs(60, [0, 1], 0)
    with pytest.warns(UserWarning, match="its 30 rows of 1 stay together .* leave out y if these are two classes"):
        assert len(DPMM(**QUICK).fit(X, np.repeat([1, -1], 30)).notes_) == 1
    assert DPMM(**QUICK).fit(X, np.where(np.arange(60) < 30, true, -1)).notes_ == []


@pytest.mark.parametrize("kind", ["full", "diag", "counts"])
def test_rows_that_share_a_value_share_a_cluster(kind: str) -> None:
    # Five rows of each patient about one place; the places are near each other.
    true = np.repeat(np.arange(40) % 2, 5)
    patients = np.repeat([f"p{number}" for number in range(40)], 5)
    X: Any = np.random.default_rng(0).normal(size=(200, 2)) + 3.5 * true[:, None]
    options = QUICK | {"covariance_type": kind}
    if kind == "counts":
        X = np.random.default_rng(0).poisson(np.array([[1, 2, 3, 4], [4, 3, 2, 1]])[true])
        options = QUICK | {"covariance_type": "auto", "family": "multinomial"}
    every = DPMM(**options).fit(X, together=patients)
    assert adjusted_rand_score(true, every.labels_) == 1.0
    some = np.where(np.arange(200) % 10 < 5, patients, "")
    half = DPMM(**options).fit(X, together=some)
    for name in np.unique(some[some != ""]):
        assert len(set(half.labels_[some == name])) == 1
    assert half.partial_fit(X[:50]).n_clusters_ == 2


def test_chains_and_samples_keep_to_what_is_known() -> None:
    X, _ = blobs(300, [0, 1], 0, apart=3.0)
    patients = np.repeat(np.arange(60), 5)
    model = DPMM(covariance_type="full", init="kmeans", n_chains=3, random_state=0).fit(X, together=patients)
    assert all(len(set(model.labels_[patients == name])) == 1 for name in range(60))
    with pytest.raises(
        ValueError, match=r"together should have a value for each of the 300 rows, but its shape is \(2,\)"
    ):
        model.fit(X, together=[1, 2])
    with pytest.raises(ValueError, match="together is for a search: n_draws should be 0"):
        DPMM(**QUICK, n_draws=5).fit(X, together=patients)


def test_frozen_clusters_stay_apart_even_if_their_rows_are_free() -> None:
    X, true = blobs(200, [0, 1], 0)
    y = np.where(true == 1, -1, np.arange(200) % 2)
    model = DPMM(**QUICK).partial_fit(X, y).partial_fit(blobs(200, [0, 1, 2], 1)[0], freeze=True)
    assert sorted(model.cluster_ids_.tolist()) == [0, 1, 2, 3] and {e.kind for e in model.history_} == {"birth"}


def test_pieces_are_few_and_rows_are_followed_through_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST", 20)
    model, ids, true = DPMM(**QUICK), np.empty(0, np.int64), []
    for day in range(8):
        X, own = blobs(100, [0, 1, 2], day)
        ids = followed(ids, model.partial_fit(X, window=30))
        true.append(own)
        memory = memory_of(model)
        assert len(memory.pieces.ids) <= 20 and memory.pieces.rows.shape == (len(memory.pieces.ids), 2)
        assert model.mixture_.counts.sum() == pytest.approx(100 * (day + 1))
    assert adjusted_rand_score(np.concatenate(true), model.current_ids(ids)) == 1.0
    with pytest.raises(ValueError, match="ids should be the row_ids_ of earlier batches"):
        model.current_ids([10_000])


def test_a_crowd_that_few_rows_could_not_tell_apart_parts_later() -> None:
    # Two clusters that overlap: the first rows are one cluster, and pieces of it part when more have come.
    rng, true = np.random.default_rng(0), np.arange(1500) % 2
    X = rng.normal(size=(1500, 2)) * [1.0, 0.3] + 3.6 * true[:, None] * [1.0, 0.0]
    model, ids, counts = DPMM(**QUICK), np.empty(0, np.int64), list[int]()
    for rows in np.split(np.arange(1500), 30):
        ids = followed(ids, model.partial_fit(X[rows], window=0))
        counts.append(model.n_clusters_)
    assert counts[0] == 1 and counts[-1] == 2
    assert adjusted_rand_score(true[:500], model.current_ids(ids[:500])) > 0.7


def test_novelty_is_the_prior_against_the_clusters() -> None:
    X, _ = blobs(200, [0, 1], 0)
    prior = NIW(np.array([6.0, 6.0]), 0.1, 4 * np.eye(2), 5.0)
    model = DPMM(**QUICK, prior=prior, alpha=1.5).fit(X)

    def student(mean: Any, strength: float, scale: Any, freedom: float) -> Any:
        own = freedom - 1
        return stats.multivariate_t(mean, scale * (strength + 1) / (strength * own), own)

    at = np.array([[0.0, 0.0], [6.0, 6.0], [30.0, 0.0]])
    new = 1.5 * student(prior.mean, 0.1, prior.scale, 5.0).pdf(at)
    old = np.zeros(3)
    for label, count in enumerate(np.bincount(model.labels_)):
        own = take(prior.statistics(X, model.labels_.astype(np.int32)), slice(label, label + 1))
        mean, scatter = own.means[0], own.scatters[0]
        gap, strength = mean - prior.mean, 0.1 + count
        scale = prior.scale + scatter + 0.1 * count / strength * np.outer(gap, gap)
        old += count * student((0.1 * prior.mean + count * mean) / strength, strength, scale, 5.0 + count).pdf(at)
    np.testing.assert_allclose(model.novelty(at), new / (new + old), rtol=1e-4)
    assert model.partial_fit(at.repeat(2, axis=0) + 0.01).novelty_.round(2).tolist()[-1] == 1.0


def test_many_batches_of_a_crowd() -> None:
    data = generate(10, 20, 4000, 10.0, 0)
    model, ids = DPMM(**QUICK), np.empty(0, np.int64)
    for rows in np.split(np.arange(4000), 10):
        ids = followed(ids, model.partial_fit(data.X[rows], window=1000))
    assert adjusted_rand_score(data.y, model.current_ids(ids)) > 0.98
