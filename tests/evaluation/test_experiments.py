"""Plans, the folder that keeps finished runs, and what is said about them."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.evaluation import experiments
from dpmmwrap.evaluation.experiments import (
    QUALITATIVE,
    TABLE,
    Comparison,
    Outcome,
    Plan,
    Run,
    execute,
    on_julia,
    paper_methods,
    plan_mixtures,
    plan_paper,
    plan_synthetic,
)
from dpmmwrap.evaluation.fits import FitSettings
from dpmmwrap.evaluation.methods import OWN_PRIOR
from dpmmwrap.evaluation.sets import Sets
from dpmmwrap.evaluation.sizes import Sizes, paper_set
from dpmmwrap.evaluation.sources import Synthetic, load
from dpmmwrap.evaluation.store import Store, locked, run_all
from dpmmwrap.evaluation.summary import beside_the_paper, method_table, paper_rows
from dpmmwrap.files import InputError

QUICK = Comparison(("SubC-K-means", "K-means"), FitSettings(iterations=10), 2, 5)


def small_plan(choice: Comparison = QUICK, datasets: int = 2, qualitative: int = 0) -> Plan:
    return plan_synthetic(choice, Sizes((2,), (2, 3), 150, datasets, qualitative), None)


def ignore(run: Run, outcome: Outcome) -> None:
    pass


def table_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in rows]


def test_a_plan_names_every_seed() -> None:
    plan = small_plan(qualitative=3)
    table = [run for run in plan.runs if run.part == TABLE]
    assert len(table) == 2 * 2 * 2 * 2
    assert {run.source.data_seed for run in table} == {5, 6}
    assert {run.seed for run in table} == {5, 6}
    drawn = [run for run in plan.runs if run.part == QUALITATIVE]
    assert [run.seed for run in drawn] == [5, 6, 7] * 2
    assert {run.method for run in drawn} == {"SubC-K-means"}
    assert all(run.settings.watch for run in drawn)
    assert len({tuple(run.identity().values()) for run in plan.runs}) == len(plan.runs)


def test_crowding_keeps_the_space() -> None:
    choice = replace(QUICK, methods=("SubC-Random",))
    sizes = Sizes((2, 5), (4, 8), 100, 1)
    plan = plan_mixtures("paper", choice, (), sizes)
    assert {(run.source.dim, run.source.spread) for run in plan.runs} == {(2, 50.0), (5, 10.0)}
    plan = plan_mixtures("paper", choice, (), sizes, 7.0)
    assert {run.source.spread for run in plan.runs} == {7.0}


def test_methods_that_cannot_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "missing", lambda name, settings: f"{name} lacks it" if name[0] == "S" else None)
    plan = small_plan()
    assert plan.notes == ["SubC-K-means lacks it"]
    assert {run.method for run in plan.runs} == {"K-means"}
    with pytest.raises(InputError, match="SubC-K-means lacks it"):
        small_plan(replace(QUICK, methods=("SubC-K-means",)))


def test_finished_runs_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan()
    done: list[Run] = []

    def stop_after_three(run: Run, outcome: Outcome) -> None:
        done.append(run)
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(Store(tmp_path, plan.runs), 1, stop_after_three)
    assert len(table_of(tmp_path)) == 3
    run_all(Store(tmp_path, plan.runs), 1, lambda run, outcome: done.append(run))
    assert done == plan.runs
    before = (tmp_path / "results.csv").read_bytes()
    run_all(Store(tmp_path, plan.runs), 1, lambda run, outcome: pytest.fail("nothing was left to do"))
    assert (tmp_path / "results.csv").read_bytes() == before


def test_more_data_sets_keep_the_first_ones(tmp_path: Path) -> None:
    run_all(Store(tmp_path, small_plan(datasets=1).runs), 1, ignore)
    first = table_of(tmp_path)
    again: list[Run] = []
    larger = small_plan(datasets=2)
    run_all(Store(tmp_path, larger.runs), 1, lambda run, outcome: again.append(run))
    assert len(again) == len(larger.runs) - len(first)
    assert table_of(tmp_path)[: len(first)] == first
    # Other settings are other runs; those of before stay in the file, and out of the report.
    other = small_plan(replace(QUICK, settings=FitSettings(iterations=11)), datasets=1)
    store = Store(tmp_path, other.runs)
    run_all(store, 1, ignore)
    assert len(table_of(tmp_path)) == len(larger.runs) + len(other.runs)
    assert {row["iterations"] for row in store.finished(TABLE)} == {11}


def test_processes_give_the_same_table(tmp_path: Path) -> None:
    plan = small_plan(datasets=1, qualitative=1)
    for jobs in (1, 2):
        (tmp_path / str(jobs)).mkdir()
        run_all(Store(tmp_path / str(jobs), plan.runs), jobs, ignore)
    assert table_of(tmp_path / "1") == table_of(tmp_path / "2")
    kept = [Store(tmp_path / str(jobs), plan.runs).arrays(QUALITATIVE) for jobs in (1, 2)]
    for (run, here), (same, there) in zip(*kept, strict=True):
        assert run == same
        np.testing.assert_array_equal(here["labels"], there["labels"])
        assert len(here["ari"]) == 10


def test_a_lost_trace_is_made_again(tmp_path: Path) -> None:
    plan = small_plan(replace(QUICK, methods=("SubC-K-means",)), datasets=1, qualitative=1)
    store = Store(tmp_path, plan.runs)
    run_all(store, 1, ignore)
    watched = next(run for run in plan.runs if run.settings.watch)
    store.arrays_path(watched).unlink()
    assert watched not in Store(tmp_path, plan.runs)
    assert sum(run not in store for run in plan.runs) == 1


def test_folders_of_other_experiments_are_refused(tmp_path: Path) -> None:
    plan = small_plan(datasets=1)
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="belongs to another experiment; use another folder with --out"):
        Store(tmp_path, plan.runs)
    (tmp_path / "results.csv").unlink()
    run_all(Store(tmp_path, plan.runs[:1]), 1, ignore)
    with (tmp_path / "results.csv").open("a") as file:
        file.write("synthetic,table\n")
    with pytest.raises(InputError, match="is damaged"):
        Store(tmp_path, plan.runs)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with locked(tmp_path), pytest.raises(InputError, match="another dpmmwrap evaluate"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_baseline_that_gives_up_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def give_up(*_: object) -> None:
        raise ValueError("ill-defined\ncovariance")

    monkeypatch.setattr(experiments, "run_method", give_up)
    source = Synthetic(2, 2, 50, 50.0, 0)
    baseline = Run("synthetic", TABLE, source, "EM-GMM", 0, 0, FitSettings())
    outcome = execute(baseline)
    assert outcome.measures["problem"] == "ill-defined covariance"
    store = Store(tmp_path, [baseline])
    store.add(baseline, outcome)
    row = Store(tmp_path, [baseline]).finished(TABLE)[0]
    assert np.isnan(row["nmi"]) and row["problem"] == "ill-defined covariance"
    assert method_table([row], [("clusters", "true clusters")]).lines[0][2] == "0"
    with pytest.raises(ValueError, match="ill-defined"):
        execute(replace(baseline, method="SubC-Random"))


def test_the_data_set_is_the_one_of_generate() -> None:
    from dpmmwrap.datasets import generate

    X, y = load(Synthetic(3, 4, 60, 20.0, 9))
    np.testing.assert_array_equal(X, generate(3, 4, 60, 20.0, 9).X)
    assert y.max() <= 3


def row(method: str, clusters: int, nmi: float, **more: float) -> dict[str, object]:
    measures = dict.fromkeys(("n_clusters", "k_error", "ari", "log_posterior", "seconds", "cpu_seconds"), 1.0)
    identity = {"method": method, "clusters": clusters, "data_seed": 0, "seed": 0}
    return {**identity, "nmi": nmi, "settled_after": float("nan"), **measures, **more}


def test_tables_hold_mean_and_deviation() -> None:
    rows = [row("SubC-Random", 20, 0.5), row("SubC-Random", 20, 0.7), row("K-means", 10, 0.9)]
    table = method_table(rows, [("clusters", "true clusters")])
    assert table.header[:4] == ["true clusters", "method", "runs", "K"]
    assert table.lines[0][:5] == ["10", "K-means", "1", "given", "–"]
    assert table.lines[1][:3] == ["20", "SubC-Random", "2"]
    assert "0.600 ± 0.100" in table.lines[1]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mnist_test_pca20.npz", "MNIST"),
        ("Fashion-MNIST", "FMNIST"),
        ("fmnist.npy", "FMNIST"),
        ("cifar-10.npy", "CIFAR10"),
        ("CIFAR20_scan.npz", "CIFAR20"),
        ("cifar100.npy", None),
        ("stl10.csv", "STL-10"),
        ("mine.csv", None),
    ],
)
def test_which_of_the_papers_sets(name: str, found: str | None) -> None:
    assert paper_set(name) == found


def test_the_papers_numbers_stand_beside() -> None:
    rows = [row("SubC-SplitNet", 10, 0.75, k_error=2.0), row("EM-GMM", 10, 0.6)]
    lines = {line[0]: line[1:] for line in beside_the_paper(rows, paper_rows("MNIST")).lines}
    assert lines["SubC-SplitNet"][:4] == ["2.00 ± 0.00", "0.00 ± 0.00", "0.75 ± 0.00", "0.69 ± 0.01"]
    assert lines["EM-GMM"][:2] == ["–", "–"]
    assert lines["moVB"][:4] == ["–", "1.00 ± 0.00", "–", "0.64 ± 0.00"]
    # DPGMM with any prior stands beside the paper's.
    lines = {line[0]: line[1:] for line in beside_the_paper([row(OWN_PRIOR, 10, 0.5)], paper_rows("MNIST")).lines}
    assert lines[OWN_PRIOR][3] == "0.68 ± 0.01" and "DPGMM" not in lines


def test_the_papers_sampler_is_on_one_backend() -> None:
    named = {name: set(paper_methods(name)) for name in ("native", "julia")}
    assert named["native"] - named["julia"] == {"SubC-Random", "SubC-K-means", "SubC-SplitNet"}
    assert named["julia"] - named["native"] == {on_julia(name) for name in named["native"] - named["julia"]}
    assert on_julia("subc-random") == "subc-random (Julia)" and on_julia("K-means") == "K-means"


def test_the_papers_plan_has_every_bound_and_seed() -> None:
    choice = Comparison(("SubC-K-means", "DPGMM (our prior)"), FitSettings(ratio="reference"), 1, 3)
    sizes = Sizes(dims=(2, 5), clusters=(3, 4), points=50, datasets=2, runs=3, upper_bounds=(9, 8))
    plan = plan_paper(choice, sizes, Sets([], ["nothing at hand"]), "native")
    table = [run for run in plan.runs if run.part == TABLE]
    # Two dimensions, numbers of clusters and data sets; the sampler, and DPGMM with two bounds.
    assert len(table) == 2 * 2 * 2 * 3
    assert sorted({run.settings.upper_bound for run in table if run.method != "SubC-K-means"}) == [8, 9]
    assert {run.source.data_seed for run in table} == {3, 4}
    drawn = [run for run in plan.runs if run.part == QUALITATIVE]
    assert [(run.source.dim, run.source.clusters, run.seed) for run in drawn] == [
        (2, count, seed) for count in (3, 4) for seed in (3, 4, 5)
    ]
    assert len({tuple(run.identity().values()) for run in plan.runs}) == len(plan.runs)
    assert plan.notes == ["nothing at hand"]
