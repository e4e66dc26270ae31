"""What a battery runs: which methods on which sets, with which settings; and what is kept of it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap import DPMM, Native
from dpmmwrap.evaluation import experiments, samplers
from dpmmwrap.evaluation.battery_report import battery_figure
from dpmmwrap.evaluation.experiments import TABLE, Comparison, execute, plan_battery
from dpmmwrap.evaluation.fits import Clock, FitSettings, MethodFit
from dpmmwrap.evaluation.methods import METHODS, OURS, OWN_PRIOR, RIVALS
from dpmmwrap.evaluation.samplers import VARIANTS
from dpmmwrap.evaluation.scores import mean_ranks, scores_of
from dpmmwrap.evaluation.sets import BatterySet, Sets
from dpmmwrap.evaluation.store import Store, run_all
from dpmmwrap.files import InputError

DENSE = BatterySet("g_dense", "dense.npz", "d", 2, 3, 90, 90, 1000, sparse=False, counts=False)
TEXT = BatterySet("t_text", "text.npz", "t", 30, 3, 90, 90, 1000, sparse=True, counts=True)
CHOICE = Comparison(None, FitSettings(), 2, 5)


def methods_on(entry: BatterySet, *methods: str) -> list[str]:
    plan = plan_battery(replace(CHOICE, methods=methods or None), Sets([DENSE, TEXT], []))
    return list(dict.fromkeys(run.method for run in plan.runs if run.source == entry))


def test_the_default_is_ours_and_the_rivals() -> None:
    assert methods_on(DENSE) == [OURS, *RIVALS]
    assert methods_on(TEXT) == [OURS, "K-means", "K-means-silhouette"]


def test_one_word_for_several_methods() -> None:
    assert methods_on(DENSE, "families", "dpgmm") == ["DPMM-full", "DPMM-diag", "DPMM-spherical", OWN_PRIOR]
    assert methods_on(TEXT, "families", "starts", "DPMM") == [
        *("DPMM-multinomial", "DPMM-random", "DPMM-kmeans", "DPMM")
    ]
    assert set(methods_on(DENSE, "ALL")) >= {OURS, *RIVALS, *VARIANTS["families"]} - {"DPMM-multinomial"}
    with pytest.raises(InputError, match=r"a method should be one of DPMM, .*, not 'SubC-Random'"):
        methods_on(DENSE, "SubC-Random")


def test_seeds_and_settings() -> None:
    plan = plan_battery(replace(CHOICE, methods=("DPMM", "HDBSCAN", "DPGMM")), Sets([DENSE], ["b is left out: x"]))
    assert plan.notes == ["b is left out: x"]
    assert [(run.method, run.seed) for run in plan.runs] == [
        *(("DPMM", 5), ("DPMM", 6), ("HDBSCAN", 5), (OWN_PRIOR, 5), (OWN_PRIOR, 6))
    ]
    assert all(run.settings.own_rules and run.settings.scale for run in plan.runs)
    identity = plan.runs[0].identity()
    assert [identity[name] for name in ("data", "alpha", "prior", "iterations", "scaled")] == [
        "g_dense",
        "",
        "",
        "",
        "",
    ]
    assert plan.runs[-1].identity()["scaled"] == "yes" and plan.runs[-1].identity()["upper_bound"] == 100


def test_ours_has_the_defaults_of_the_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[DPMM] = []

    def timed_fit(model: DPMM, X: object) -> Clock:
        made.append(model)
        raise InputError("seen enough")

    monkeypatch.setattr(samplers, "timed_fit", timed_fit)
    own_rules = FitSettings(own_rules=True, scale=True, iterations=7, alpha=3.0)
    for name in (OURS, "DPMM-diag"):
        with pytest.raises(InputError, match="seen enough"):
            METHODS[name].fit(np.zeros((9, 2)), np.arange(9) % 2, own_rules, 4)
    expected = DPMM(backend=Native(n_jobs=1), random_state=4).get_params()
    assert expected["max_iter"] == expected["covariance_type"] == expected["n_chains"] == "auto"
    assert made[0].get_params() == expected
    assert made[1].get_params() == expected | {"covariance_type": "diag"}


def test_a_method_that_suits_no_set_is_named() -> None:
    plan = plan_battery(replace(CHOICE, methods=("DPMM", "HDBSCAN")), Sets([TEXT], []))
    assert plan.notes == ["HDBSCAN is left out: it applies to none of these sets"]


def test_measures_leave_out_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = np.array([0, 0, 1, 1, -1, -1])
    labels, groups = np.array([0, 0, 1, 2, -1, 3]), np.array([0, 0, 1, 1, 0, 1])
    fit = MethodFit(labels, -7.0, 1.0, 1.0, 3, model="full", groups=groups)
    monkeypatch.setattr(experiments, "load", lambda source: (np.zeros((6, 2)), truth))
    monkeypatch.setattr(experiments, "run_method", lambda *arguments: fit)
    measures = execute(plan_battery(CHOICE, Sets([DENSE], [])).runs[0]).measures
    assert measures["n_clusters"] == 4, "noise is no cluster"
    assert measures["k_error"] == 2 and measures["groups_ari"] == 1.0 and measures["model"] == "full"
    from sklearn.metrics import adjusted_rand_score

    assert measures["ari"] == pytest.approx(adjusted_rand_score([0, 0, 1, 1], [0, 0, 1, 2]))


def test_what_we_gave_up_on_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_battery(replace(CHOICE, methods=("DPMM", "K-means"), runs=1), Sets([DENSE], []))

    def give_up(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(experiments, "load", lambda source: (np.zeros((6, 2)), np.arange(6) % 2))
    monkeypatch.setattr(experiments, "run_method", give_up)
    store = Store(tmp_path, plan.runs)
    run_all(store, 1, lambda run, outcome: None)
    assert [row["problem"] for row in store.finished(TABLE)] == ["no memory"] * 2
    # Others' problems are theirs, and stay.
    assert [run.method for run in Store(tmp_path, plan.runs).waiting()] == ["DPMM"]
    monkeypatch.setattr(
        experiments, "run_method", lambda *_: MethodFit(np.zeros(6, int), -1.0, 1.0, 1.0, 1, model="full")
    )
    run_all(store, 1, lambda run, outcome: None)
    assert [row["problem"] for row in store.finished(TABLE)] == ["", "no memory"]
    assert [row["model"] for row in Store(tmp_path, plan.runs).kept()] == ["full", ""]


def test_the_picture_has_a_dot_per_set_and_method() -> None:
    pytest.importorskip("matplotlib")
    measures = {"nmi": 0.5, "groups_ari": math.nan, "log_posterior": math.nan, "model": "", "problem": ""}
    rows = [
        {"data": data, "method": method, "fingerprint": "", "points": 9, "total": 9, "dim": 2, "clusters": 2}
        | {**measures, "n_clusters": 2, "ari": 0.1 * place, "seconds": 1.0}
        for place, method in enumerate(("DPMM", "K-means", "DPMM-full"))
        for data in ("b_1", "a_1", "b_2")
    ]
    scores = scores_of(rows, rows, {})
    above, below = battery_figure(scores, mean_ranks(scores)).axes
    assert [tick.get_text() for tick in below.get_yticklabels()] == ["b_1", "b_2", "a_1"], "batteries stay together"
    dots = [line for line in below.lines if len(line.get_xdata()) == 3]
    assert len(dots) == 3
    assert [round(line.get_xdata()[0], 1) for line in dots] == [0.0, 0.1, 0.2]
    assert [tick.get_text() for tick in above.get_yticklabels()] == ["DPMM-full", "K-means, given K", "DPMM"]
    # Where no two methods have a common set, there are no ranks to draw.
    alone = scores_of(rows[:1] + rows[4:5], rows, {})
    assert battery_figure(alone, mean_ranks(alone)).axes[0] is not None
