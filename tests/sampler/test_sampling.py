"""Draws by whole chains: the same for any number of threads, resumed bit for bit, kept when interrupted."""

from __future__ import annotations

import gc
import re
import signal
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from dpmmwrap.backends.native import NativeBackend, draws_of
from dpmmwrap.datasets import generate
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.defaults import DataScale
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.files import InputError
from dpmmwrap.partitions import DirichletProcess, PitmanYor
from dpmmwrap.sampler import draws as draws_module
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import Chain, ChainResult
from dpmmwrap.sampler.draws import labels_file
from dpmmwrap.sampler.record import Moves, Record, Sample
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.trace import COLUMNS, Trace
from dpmmwrap.starts import make_initializer

STEP = sampling.step
SEARCH, WARM_UP, DRAWS, THIN = 8, 5, 9, 2
SAMPLED = WARM_UP + DRAWS * THIN
"""Iterations of sampling."""


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpmmwrap.sampler.settings.LEAST_WARM_UP", WARM_UP)


def points_of(family: str) -> tuple[Any, Any]:
    """Points of three clusters that overlap, and a prior."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    numbers = (rng.normal(size=(150, 2)) + 2.5 * y[:, None]).astype(np.float32)
    counts = rng.multinomial(12, np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])[y]).astype(np.float32)
    nig = NIG(np.full(2, 2.0), 0.1, np.full(2, 4.0), 5.0)
    codes = np.stack([(y > 0), 2 + (rng.random(150) < 0.5)], axis=1).astype(np.int32)
    return {
        "full": (numbers, NIW.from_data(numbers)),
        "sparse counts": (scipy.sparse.csr_matrix(counts), Dirichlet(np.full(3, 0.5))),
        "mixed": (TablePoints(numbers, codes), Mixed(nig, CategoricalDirichlet.from_levels(np.array([2, 2])))),
    }[family]


def settings_for(prior: Any, **changes: Any) -> Settings:
    settings = Settings(
        DirichletProcess("auto", (1.0, 0.1)), prior, make_initializer("kmeans"), SEARCH, 2, 3, n_draws=DRAWS, thin=THIN
    )
    return replace(settings, **changes)


def fit(family: str = "full", **changes: Any) -> Result:
    X, prior = points_of(family)
    return NativeBackend().fit(X, settings_for(prior, **changes))


def assert_same(one: Result, other: Result) -> None:
    """To the last bit, but for the seconds."""
    assert one.draws is not None and other.draws is not None
    for field in fields(one.draws):
        np.testing.assert_array_equal(getattr(one.draws, field.name), getattr(other.draws, field.name), field.name)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.sublabels, other.sublabels)
    assert (one.log_posterior, one.partition_prior) == (other.log_posterior, other.partition_prior)
    for mine, theirs in zip(one.traces, other.traces, strict=True):
        for column in set(COLUMNS) - {"seconds"}:
            np.testing.assert_array_equal(mine[column], theirs[column], column)


def stop_at(monkeypatch: pytest.MonkeyPatch, number: int, how: Callable[[], None]) -> None:
    """Do something in the number-th iteration of sampling, of all chains together."""
    calls = []

    def step(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == number:
            how()
        return STEP(*arguments)

    monkeypatch.setattr(sampling, "step", step)


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def progress_that(does: dict[int, Callable[[], None]]) -> Callable[[int, Any], None]:
    """A progress callback that does something in some iterations."""
    return lambda number, happened: does.get(number, lambda: None)()


def fail() -> None:
    raise RuntimeError("the machine went away")


class TestReproducibility:
    @pytest.mark.parametrize("changes", [{}, {"max_clusters": 6, "outlier_weight": 0.02}])
    def test_any_number_of_threads(self, changes: dict[str, Any]) -> None:
        """Enough points for several chunks, and several pairs at once."""
        data = generate(dim=2, clusters=5, points=21_000, spread=30, seed=1)
        prior = NIW.from_data(data.X)
        outliers = {"outlier_prior": prior.outliers(data.X)} if changes else {}
        settings = settings_for(prior, **changes, **outliers)
        one, two, three = (NativeBackend().fit(data.X, replace(settings, n_jobs=n_jobs)) for n_jobs in (1, 2, 3))
        assert_same(one, two)
        assert_same(one, three)
        assert one.draws is not None and len(np.unique(one.draws.log_posterior)) == DRAWS

    def test_chains_side_by_side_are_those_in_turn(self) -> None:
        assert_same(fit(n_chains=3), fit(n_chains=3, n_jobs=2))

    def test_one_chain_is_the_first_of_three(self) -> None:
        one, three = fit().draws, fit(n_chains=3).draws
        assert one is not None and three is not None and three.n_chains == 3
        np.testing.assert_array_equal(one.labels, three.labels[:1])  # type: ignore[index]
        np.testing.assert_array_equal(one.log_posterior, three.log_posterior[:1])
        assert len({tuple(row) for row in three.log_posterior.tolist()}) == 3

    def test_another_seed_gives_other_draws(self) -> None:
        one, other = fit().draws, fit(seed=4).draws
        assert one is not None and other is not None
        assert not np.array_equal(one.log_posterior, other.log_posterior)


class TestWhatIsKept:
    def test_everything_belongs_together(self) -> None:
        result = fit(n_chains=2)
        draws = result.draws
        assert draws is not None and draws.labels is not None
        assert draws.labels.shape == (2, DRAWS, 150) and draws.labels.dtype == np.int32
        assert (draws.n_chains, draws.n_draws) == (2, DRAWS)
        assert len(result.traces) == 2 and all(len(trace) == SEARCH for trace in result.traces)
        for chain in range(2):
            for draw in range(DRAWS):
                labels, count = draws.labels[chain, draw], draws.n_clusters[chain, draw]
                counts = np.bincount(labels, minlength=draws.weights.shape[2])
                assert (counts[:count] > 0).all() and not counts[count:].any()
                np.testing.assert_allclose(draws.weights[chain, draw], counts / 150)
        assert (draws.splits <= draws.splits_proposed).all() and draws.splits_proposed.any()
        assert (draws.merges <= draws.merges_proposed).all() and draws.merges_proposed.any()
        # Four pairs an iteration at most, two iterations a draw; moves of the warm-up are not counted.
        assert (draws.splits_proposed + draws.merges_proposed <= 8).all()

    def test_without_labels_all_else_is_the_same(self) -> None:
        with_labels, without = fit().draws, fit(keep_labels=False).draws
        assert with_labels is not None and without is not None
        assert without.labels is None
        np.testing.assert_array_equal(without.n_clusters, with_labels.n_clusters)
        np.testing.assert_array_equal(without.log_posterior, with_labels.log_posterior)
        with pytest.raises(ValueError, match="loss should be vi or binder"):
            _ = without.kept_labels

    def test_many_labels_go_to_a_file_that_goes_with_them(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        in_memory = fit(n_chains=2)
        monkeypatch.setattr(draws_module, "IN_MEMORY", 100)
        monkeypatch.setattr(draws_module.tempfile, "tempdir", str(tmp_path))
        on_disk = fit(n_chains=2)
        assert on_disk.draws is not None and isinstance(on_disk.draws.labels, np.memmap)
        assert isinstance(on_disk.draws.kept_labels, np.memmap)
        assert len(list(tmp_path.iterdir())) == 1
        assert_same(in_memory, on_disk)
        del on_disk
        gc.collect()
        assert not list(tmp_path.iterdir())

    def test_no_more_than_so_many_clusters(self) -> None:
        process = DirichletProcess(30.0)
        free, tight = fit(partition_prior=process).draws, fit(partition_prior=process, max_clusters=3).draws
        assert free is not None and tight is not None
        assert free.n_clusters.max() > 3
        assert tight.n_clusters.max() <= 3 and tight.weights.shape[2] <= 3

    def test_outliers_are_labelled_minus_one(self) -> None:
        X, prior = points_of("full")
        X = np.concatenate([X, np.random.default_rng(1).uniform(-40, 40, (8, 2)).astype(np.float32)])
        options = {"outlier_weight": 0.05, "outlier_prior": prior.outliers(X)}
        draws = NativeBackend().fit(X, settings_for(prior, **options)).draws
        assert draws is not None and draws.labels is not None
        outside = draws.labels[0] == -1
        assert outside[:, 150:].mean() > 0.5 and outside[:, :150].mean() < 0.1
        np.testing.assert_array_equal(draws.labels[0].max(axis=1) + 1, draws.n_clusters[0])
        np.testing.assert_allclose(draws.weights[0].sum(axis=1), 1 - outside.mean(axis=1))

    def test_draws_have_warmed_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tenth of what follows, and no fewer than a given number."""
        prior = points_of("full")[1]
        assert settings_for(prior, n_draws=100, thin=7).warm_up == 70
        assert settings_for(prior, n_draws=0).warm_up == 0
        stop_at(monkeypatch, SAMPLED + 1, fail)
        numbers: list[int] = []
        fit(progress=lambda number, happened: numbers.append(number))
        assert numbers[SEARCH:] == [SEARCH + WARM_UP + THIN * (d + 1) for d in range(DRAWS)]

    def test_a_family_without_exact_moves_is_told_before_the_search(self, monkeypatch: pytest.MonkeyPatch) -> None:
        page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
        code = re.search(r'```python title="family"\n(.*?)```', page, re.DOTALL)
        assert code is not None
        defined: dict[str, Any] = {"__name__": __name__}
        exec(code.group(1), defined)
        prior = defined["GammaExponential"](np.full(1, 1.0), np.full(3, 0.2))
        X = np.random.default_rng(0).exponential(3.0, (40, 3)).astype(np.float32)
        monkeypatch.setattr(Chain, "iterate", lambda chain: fail())
        with pytest.raises(ValueError, match=r"^the family exponential does not support draws from the posterior$"):
            NativeBackend().fit(X, settings_for(prior))


class TestInterrupts:
    def test_draws_so_far_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = fit().draws
        stop_at(monkeypatch, WARM_UP + 4 * THIN, press_ctrl_c)
        result = fit()
        assert whole is not None and result.interrupted and result.draws is not None
        assert result.draws.n_draws == 4
        np.testing.assert_array_equal(result.draws.labels, whole.labels[:, :4])  # type: ignore[index]

    @pytest.mark.parametrize("number", [1, WARM_UP])
    def test_before_the_first_draw_there_are_none(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        stop_at(monkeypatch, number, press_ctrl_c)
        result = fit()
        assert result.interrupted and result.draws is None
        assert len(result.trace) == SEARCH and result.labels.shape == (150,)

    def test_the_second_of_three_chains(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first is whole; the third has not begun."""
        one = fit().draws
        stop_at(monkeypatch, SAMPLED + WARM_UP + 2 * THIN, press_ctrl_c)
        result = fit(n_chains=3)
        assert one is not None and result.draws is not None and result.interrupted
        assert result.draws.n_clusters.shape == (1, DRAWS) and len(result.traces) == 2
        np.testing.assert_array_equal(result.draws.labels, one.labels)

    def test_the_first_of_three_chains_while_it_searches(self) -> None:
        result = fit(n_chains=3, progress=progress_that({4: press_ctrl_c}))
        assert result.interrupted and result.draws is None
        assert len(result.traces) == 1 and len(result.trace) == 4

    @pytest.mark.parametrize(
        ("made", "kept"),
        [([5, 5, 5], (3, 5)), ([9, 9, 1], (2, 9)), ([9, 8, 7], (3, 7)), ([9, 0, 0], (1, 9)), ([9, 0, 9], (2, 9))],
    )
    def test_as_many_chains_as_make_the_most_draws(self, made: list[int], kept: tuple[int, int]) -> None:
        labels = np.arange(3 * 10 * 2).reshape(3, 10, 2).astype(np.int32)
        found, prior = [], points_of("full")[1]
        for chain, count in enumerate(made):
            record = Record(labels[chain])
            record.samples = [Sample(1, DirichletProcess(1.0), float(draw), np.ones(1), prior) for draw in range(count)]
            record.moves = [Moves(0, 0, 0, 0)] * count
            found.append(ChainResult(None, Trace(), record, True, []))  # type: ignore[arg-type]
        draws, priors = draws_of(found, labels, None)
        assert draws is not None and draws.n_clusters.shape == kept and len(priors) == kept[0] * kept[1]
        np.testing.assert_array_equal(draws.labels, labels[np.array(made) >= kept[1], : kept[1]])
        assert draws_of([found[0]._replace(record=Record(None))], None, None) == (None, ())


class TestCheckpoints:
    @pytest.mark.parametrize("family", ["full", "sparse counts", "mixed"])
    def test_resumed_again_and_again_they_are_the_same(
        self, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = fit(family)
        path = tmp_path / "run.npz"
        for stop in (3, SEARCH):
            progress = progress_that({stop: press_ctrl_c})
            assert fit(family, checkpoint=path, progress=progress).draws is None
        # In the middle of the warm-up, at its end, between two draws, and just after one.
        for number in (2, WARM_UP - 2, 3, 2 * THIN + 1):
            stop_at(monkeypatch, number, press_ctrl_c)
            assert fit(family, checkpoint=path).interrupted
        monkeypatch.setattr(sampling, "step", STEP)
        assert_same(whole, fit(family, checkpoint=path))
        # All is done: nothing is drawn again.
        monkeypatch.setattr(sampling, "step", lambda *arguments: fail())
        assert_same(whole, fit(family, checkpoint=path))

    @pytest.mark.parametrize(
        "changes",
        [
            {"n_chains": 2},
            {"keep_labels": False},
            {"max_clusters": 4, "partition_prior": DirichletProcess(10.0)},
            {"partition_prior": PitmanYor()},
            {"outlier_weight": 0.1},
            {"hyperprior": "learned"},
        ],
    )
    def test_after_a_crash_too(self, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        X, prior = points_of("full")
        if "outlier_weight" in changes:
            changes = changes | {"outlier_prior": prior.outliers(X)}
        if "hyperprior" in changes:
            changes = {"hyperprior": DataScale(X).start("full").hyperprior}
        whole = fit(**changes)
        settings = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 2}
        for number in (WARM_UP + 6, 2 * SAMPLED - 20 if "n_chains" in changes else 6):
            stop_at(monkeypatch, number, fail)
            with pytest.raises(RuntimeError, match="went away"):
                fit(**changes, **settings)
        monkeypatch.setattr(sampling, "step", STEP)
        assert_same(whole, fit(**changes, **settings))

    @pytest.fixture
    def half(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A checkpoint in the middle of the draws."""
        stop_at(monkeypatch, WARM_UP + 4 * THIN, press_ctrl_c)
        fit(checkpoint=tmp_path / "run.npz")
        monkeypatch.setattr(sampling, "step", STEP)
        return tmp_path / "run.npz"

    def refused(self, path: Path, words: str, **changes: Any) -> None:
        with pytest.raises(InputError, match=words) as error:
            fit(checkpoint=path, **changes)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [({"n_draws": 10}, "number of draws"), ({"thin": 3}, "thin"), ({"n_chains": 2}, "number of chains")],
    )
    def test_of_other_draws_is_refused(self, half: Path, changes: dict[str, Any], words: str) -> None:
        self.refused(half, words, **changes)

    def test_cut_short_is_refused(self, half: Path) -> None:
        content = half.read_bytes()
        half.write_bytes(content[: len(content) // 2])
        self.refused(half, "run.npz")

    @pytest.mark.parametrize(
        "name", ["samples", "clusters_0", "clusters_3", "cluster_seeds", "sampled_moves", "labels"]
    )
    def test_without_one_of_its_arrays_is_refused(self, half: Path, name: str) -> None:
        with np.load(half) as file:
            arrays = {key: file[key] for key in file.files if key != name}
        np.savez(half, **arrays)
        self.refused(half, name)

    @pytest.mark.parametrize(
        "name", ["clusters_1", "samples", "sampled_weights", "sampled_moves", "sampled", "labels", "cluster_seeds"]
    )
    def test_with_an_array_of_another_shape_is_refused(self, half: Path, name: str) -> None:
        with np.load(half) as file:
            arrays = {key: file[key] for key in file.files}
        arrays[name] = arrays[name].ravel()[:-1]
        np.savez(half, **arrays)
        self.refused(half, "damaged")

    @pytest.mark.parametrize("how", ["gone", "empty", "of other draws"])
    def test_without_the_labels_of_its_draws_is_refused(self, half: Path, how: str) -> None:
        file = labels_file(half)
        if how == "gone":
            file.unlink()
        elif how == "empty":
            file.write_bytes(b"")
        else:
            labels = np.load(file)
            np.save(file, labels // 2)
        self.refused(half, "labels of the draws so far")
