"""`dpmmwrap fit --draws --chains`: what is said of the posterior, what is written, how an interrupted run goes on."""

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM, Native, cli, load
from dpmmwrap.cli import progress as progress_module
from dpmmwrap.cli import results
from dpmmwrap.cli.progress import Chains, FitPlan, plan_of
from dpmmwrap.describe import facts
from dpmmwrap.sampler.draws import Draws, labels_file
from dpmmwrap.sampler.trace import COLUMNS, Iteration

QUICK = ("--init", "kmeans", "--iterations", 15, "--covariance", "diag", "--chains", 1)
SAMPLED = (*QUICK, "--draws", 20, "--chains", 2, "--thin", 2)
ALWAYS = {
    *(
        "labels.csv",
        "labels.npy",
        "groups.npy",
        "model.npz",
        "trace.csv",
        "summary.json",
        "report.html",
        "dpmmwrap-files.json",
    ),
    *("clusters.png", "trace.png"),
}


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A narrow cluster within a wide one, and one that overlaps with neither."""
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 2)) * np.array([0.4, 3.0, 1.0])[truth, None] + np.array([0, 0, 30])[truth, None]
    path = tmp_path_factory.mktemp("draws") / "points.npz"
    np.savez(path, X=X, y=truth)
    return path


@pytest.fixture(scope="module")
def sampled(points: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What --json says of draws of two chains, and the folder."""
    out = tmp_path_factory.mktemp("sampled") / "out"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert cli.run([str(word) for word in ("fit", points, *SAMPLED, "--json", "--out", out)]) == 0
    return json.loads(said.getvalue()), out


# What is written


def test_the_draws_are_those_of_the_estimator(sampled: tuple[dict[str, Any], Path], points: Path) -> None:
    summary, out = sampled
    X = np.load(points)["X"]
    options: dict[str, Any] = {"n_draws": 20, "n_chains": 2, "thin": 2, "covariance_type": "diag"}
    with warnings.catch_warnings():
        # So few draws are not enough, and it is said.
        warnings.simplefilter("ignore", UserWarning)
        model = DPMM(init="kmeans", max_iter=15, random_state=0, **options).fit(X)
    assert model.draws_ is not None and model.confidence_ is not None
    draws = Draws.load(out / "draws.npz")
    for name, array in model.draws_.arrays().items():
        np.testing.assert_array_equal(getattr(draws, name), array)
    assert draws.labels is not None and draws.labels.shape == (2, 20, 120)
    np.testing.assert_array_equal(np.load(out / "labels.npy"), model.labels_)
    np.testing.assert_array_equal(np.load(out / "confidence.npy"), model.confidence_)
    groups = model.groups()
    np.testing.assert_array_equal(np.load(out / "groups.npy"), groups.of_points(model.labels_))
    assert (summary["groups"], summary["group_sizes"]) == (
        groups.suggested,
        np.bincount(groups.of_points(model.labels_)).tolist(),
    )
    assert (summary["chains"], summary["draws"], summary["loss"]) == (2, 20, "vi")
    assert summary["confidence"] == model.confidence_.mean()
    assert summary["unsure"] == (model.confidence_ < 0.5).sum()
    assert summary["groups"] < summary["n_clusters"]
    fewest, most = summary["n_clusters_interval"]
    assert ((draws.n_clusters >= fewest) & (draws.n_clusters <= most)).mean() >= 0.95
    # The model's file predicts as the model does, by averages over draws, and is without them.
    mixture = load(out / "model.npz")
    assert mixture.draws is None and mixture.averaged is not None
    np.testing.assert_allclose(mixture.predict_proba(X), model.predict_proba(X))


def test_diagnostics_are_in_the_summary(sampled: tuple[dict[str, Any], Path]) -> None:
    summary, out = sampled
    assert summary == json.loads((out / "summary.json").read_text())
    found = summary["diagnostics"]
    assert list(found) == ["n_clusters", "log_posterior", "alpha", "weight_1", "weight_2", "weight_3"]
    draws = Draws.load(out / "draws.npz")
    assert found["log_posterior"]["mean"] == pytest.approx(draws.log_posterior.mean())
    assert found["alpha"]["sd"] == pytest.approx(draws.alpha.std(ddof=1))
    for one in found.values():
        assert list(one) == ["mean", "sd", "r_hat", "ess_bulk", "ess_tail"]
        assert one["r_hat"] > 0.9 and one["ess_bulk"] > 1


def test_all_pictures(sampled: tuple[dict[str, Any], Path]) -> None:
    _, out = sampled
    pictures = {"posterior.png", "pairs.png", "chains.png", "groups.png"}
    assert {path.name for path in out.iterdir()} == ALWAYS | pictures | {"confidence.npy", "draws.npz"}
    for name in pictures:
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_the_trace_of_all_chains(sampled: tuple[dict[str, Any], Path]) -> None:
    with (sampled[1] / "trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["chain", "iteration", *COLUMNS]
    assert [(int(row["chain"]), int(row["iteration"])) for row in rows] == [
        (chain, iteration) for chain in (1, 2) for iteration in range(1, 16)
    ]
    assert rows[4]["log_posterior"] != rows[19]["log_posterior"]


def test_without_the_labels_of_draws(run, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = json.loads(run("fit", points, *SAMPLED, "--loss", "none", "--json", "--out", out).out)
    assert Draws.load(out / "draws.npz").labels is None
    assert load(out / "model.npz").averaged is None
    assert (summary["confidence"], summary["unsure"], summary["loss"]) == (None, None, None)
    assert summary["draws"] == 20 and summary["diagnostics"] is not None
    names = {path.name for path in out.iterdir()}
    assert names == ALWAYS | {"posterior.png", "chains.png", "groups.png", "draws.npz"}


def test_other_losses(run, points: Path) -> None:
    summary = json.loads(run("fit", points, *SAMPLED, "--loss", "binder", "--json").out)
    assert summary["loss"] == "binder"


def test_several_chains_without_draws(run, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("fit", points, *QUICK, "--chains", 3, "--out", out)
    assert "the best of 3 chains" in done.out
    assert "3 chains of 15 iterations\n" in done.out
    assert "R-hat" not in done.out
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["chains"], summary["draws"], summary["n_clusters_interval"]) == (3, 0, None)
    assert summary["diagnostics"] is None and summary["confidence"] is None
    assert {path.name for path in out.iterdir()} == ALWAYS | {"groups.png"}
    alone = [json.loads(run("fit", points, *QUICK, "--json").out)["log_posterior"], summary["log_posterior"]]
    assert alone[1] >= alone[0]


def test_one_cluster_is_one_group(run, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("fit", points, *QUICK, "--max-clusters", 1, "--out", out)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["n_clusters"], summary["groups"], summary["group_sizes"]) == (1, 1, [120])
    assert not np.load(out / "groups.npy").any()
    assert {path.name for path in out.iterdir()} == ALWAYS
    assert "\n  groups" not in done.out


def test_outliers_are_in_no_group(run, points: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("fit", points, *SAMPLED, "--outlier-weight", 0.3, "--json", "--out", out)
    summary = json.loads(done.out)
    labels, groups = np.load(out / "labels.npy"), np.load(out / "groups.npy")
    np.testing.assert_array_equal(labels < 0, groups < 0)
    assert sum(summary["group_sizes"]) == sum(summary["sizes"]) == 120 - summary["outliers"]
    assert run("predict", out / "model.npz", points).code == 0


def test_what_is_of_an_earlier_fit_goes(
    run, sampled: tuple[dict[str, Any], Path], points: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(sampled[1], tmp_path / "out")
    done = run("fit", points, *QUICK, "--out", out)
    assert "(removed confidence.npy, draws.npz, posterior.png, pairs.png, chains.png of an earlier fit)" in done.out
    assert not (out / "draws.npz").exists()


@pytest.mark.parametrize("family", ["multinomial", "mixed"])
def test_other_families(run, counts: Path, tmp_path: Path, family: str) -> None:
    path, out = counts, tmp_path / "out"
    if family == "mixed":
        path = tmp_path / "table.csv"
        rng = np.random.default_rng(0)
        rows = [f"{rng.normal() + 9 * k:.3f},{'red' if k else 'blue'}" for k in np.repeat([0, 1], 40)]
        path.write_text("\n".join(["size,colour", *rows]))
    few = ("--init", "kmeans", "--iterations", 15, "--draws", 10, "--thin", 1)
    done = run("fit", path, "--family", family, *few, "--out", out)
    assert done.code == 0, done.err
    assert done.err == ""
    assert {"posterior.png", "pairs.png", "chains.png", "groups.png"} <= {path.name for path in out.iterdir()}
    labels = [int(line) for line in run("predict", out / "model.npz", path).out.split()]
    assert (np.array(labels) == np.load(out / "labels.npy")).mean() > 0.95


def test_many_points_are_some_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        labels_ = np.arange(1001) % 3
        n_clusters_ = 3

        def coclustering(self, rows: Any) -> Any:
            assert (len(rows), rows[0], rows[-1]) == (500, 0, 1000)
            assert set(np.diff(rows)) == {2, 3}
            return np.eye(500)

    figure = results.pairs_figure(Model())  # type: ignore[arg-type]
    assert figure.axes[0].get_title(loc="left") == "3 clusters, 500 of 1,001 points"


# What is said


def test_the_table(run, points: Path) -> None:
    done = run("fit", points, *SAMPLED)
    lines = {line[2:16].strip(): line[17:] for line in done.out.splitlines() if line.startswith("  ")}
    assert lines["clusters"].endswith("95% of draws; the truth has 3)")
    assert lines["confidence"].startswith("0.") and "on average" in lines["confidence"]
    for name in ("R-hat", "effective"):
        for said in ("clusters ", "log posterior ", "alpha ", "largest weights "):
            assert said in lines[name]
    assert lines["effective"].endswith(" of 40 draws")
    assert lines["time"].endswith("2 chains of 15 iterations, then 20 draws each")
    assert "best of" not in lines["log posterior"]
    assert done.err == ""
    assert lines["groups"].startswith("2 (80, 40): no gap separates") and ", in 2 groups (" in lines["clusters"]
    # What to do is said in the command line's words.
    disagree = "note: the chains disagree: R-hat of " in done.out
    advice = (
        "try more draws or a longer search before them (--iterations)"
        if disagree
        else "intervals need at least 100: draw more"
    )
    assert advice in done.out


def test_one_chain_and_a_fixed_concentration(run, points: Path) -> None:
    done = run("fit", points, *QUICK, "--draws", 3, "--alpha", 1)
    assert "15 iterations, then 3 draws" in done.out
    assert "alpha" not in done.out
    assert "R-hat          clusters unknown" in done.out
    assert "note: there are too few draws to tell whether the chains agree: draw more" in done.out


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({"n_clusters": 4, "n_clusters_interval": None}, "4"),
        ({"n_clusters": 4, "n_clusters_interval": [3, 6]}, "4 (3 to 6 in 95% of draws)"),
        ({"n_clusters": 4, "n_clusters_interval": [4, 4]}, "4 (4 in at least 95% of draws)"),
        (
            {"n_clusters": 4, "n_clusters_interval": [3, 6], "true_clusters": 5},
            "4 (3 to 6 in 95% of draws; the truth has 5)",
        ),
        ({"n_clusters": 4, "n_clusters_interval": [3, 6], "groups": 2}, "4, in 2 groups (3 to 6 in 95% of draws)"),
    ],
)
def test_words_for_clusters(summary: dict[str, Any], said: str) -> None:
    assert facts.clusters_text(summary) == said


def test_words_for_groups() -> None:
    sizes = {"groups": 10, "group_sizes": [1000, *range(1, 10)]}
    assert facts.groups_text({"n_clusters": 31} | sizes) == ("10 (1,000, 9, 8, 7, 6, 5, 4, 3 and 2 smaller)")
    assert facts.groups_text({"n_clusters": 10} | sizes) == "10: no two clusters overlap enough to be joined"
    checked = sizes | {"n_clusters": 10, "groups_reason": "the data may well follow the model"}
    assert facts.groups_text(checked) == "10: the data may well follow the model"
    assert facts.groups_text(checked | {"groups_by_confusion": 10}) == "10: the data may well follow the model"
    # A second opinion is told if it is another one.
    assert facts.groups_text({"n_clusters": 2, "groups": 1, "group_sizes": [9], "groups_by_confusion": 2}) == (
        "1 (9); by confusion alone there would be 2"
    )


def test_an_infinite_r_hat_can_be_written() -> None:
    one = {"r_hat": float("inf"), "ess_bulk": 4.0, "ess_tail": float("nan")}
    assert json.loads(results.to_json({"diagnostics": {"n_clusters": one}})) == {
        "diagnostics": {"n_clusters": {"r_hat": None, "ess_bulk": 4.0, "ess_tail": None}}
    }
    shown = facts.diagnostics_text({"diagnostics": {"n_clusters": one, "weight_1": one}, "chains": 2, "draws": 3})
    assert shown == [
        ("R-hat", "clusters inf, largest weights inf"), ("effective", "clusters 4, largest weights 4 of 6 draws")
    ]  # fmt: skip


# Bad use


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--draws", 10, "--backend", "julia"), "--draws needs the built-in sampler: leave out --backend julia"),
        (("--draws", 10, "--workers", 2), "--draws needs the built-in sampler"),
        (("--draws", 10, "--machines", "m"), "--draws needs the built-in sampler"),
        (("--chains", 2, "--backend", "julia"), "--chains needs the built-in sampler"),
        (("--draws", -1), "--draws"),
        (("--draws", "many"), "--draws"),
        (("--draws", 10, "--thin", 0), "--thin"),
        (("--draws", 10, "--chains", 0), "--chains"),
        (("--draws", 10, "--loss", "nll"), "'nll' is not one of 'vi', 'binder', 'none'"),
        (("--thin", 3), "--thin needs --draws N"),
        (("--loss", "vi"), "--loss needs --draws N"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(run, options: tuple[object, ...], said: str) -> None:
    sentence = run("fit", "there-is-no-such-file.csv", *options).sentence
    assert said in sentence
    assert "dpmmwrap fit --help" in sentence


def test_losses_can_all_be_chosen() -> None:
    """Named twice, because asking the posterior's room for them would make --help slow."""
    from dpmmwrap.cli.fit_options import LOSSES
    from dpmmwrap.model.estimator_parameters import LOSSES as KNOWN

    assert LOSSES == KNOWN


@pytest.mark.parametrize(("options", "fits"), [((), False), (("--loss", "none"), True)])
def test_the_labels_of_draws_need_room(
    run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], fits: bool
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 2_010_000})())
    monkeypatch.setattr("dpmmwrap.cli.fit.fit", lambda *_: (_ for _ in ()).throw(ValueError("the fit has begun")))
    for place in ("--out", "--checkpoint"):
        sentence = run("fit", points, "--draws", 10_000, "--chains", 2, *options, place, tmp_path / place).sentence
        assert ("the fit has begun" in sentence) == fits
        assert ("but only 2,010,000 are free" in sentence) != fits


# Progress


def test_where_a_chain_is() -> None:
    plan = plan_of(DPMM(max_iter=100, n_draws=1000, thin=2, n_chains=4), 10)
    assert (plan.search, plan.total, plan.chains) == (100, 100 + 200 + 2000, 4)
    assert plan.position(7) == "chain 1 of 4, iteration 7/100"
    assert plan.position(100) == "chain 1 of 4, warming up"
    assert plan.position(302) == "chain 1 of 4, draw 1/1000"
    assert plan.position(plan.total) == "chain 1 of 4, draw 1000/1000"
    assert plan.position(304, chain=2) == "chain 3 of 4, draw 2/1000"
    alone = plan_of(DPMM(max_iter=30), 10**6)
    assert (alone.total, alone.position(30)) == (30, "iteration 30/30")
    assert plan_of(DPMM(), 10_000, 100).chains == 4 and plan_of(DPMM(), 10_001).chains == 1
    assert plan_of(DPMM(), 5000, 20_000).chains == 1, "texts are wide"


def test_all_chains_are_heard() -> None:
    told: list[dict[str, Any]] = []
    chains = Chains(FitPlan(search=10, total=10, chains=2), lambda **news: told.append(news))
    iteration = Iteration(1, -1234.5, 0.1, 0, 0, 0, 0)
    first, second = chains.of_chain(0), chains.of_chain(1)
    # Side by side the first is told of, and the second when the first is done.
    for hear, number in ((first, 1), (second, 1), (first, 10), (second, 2)):
        hear(number, iteration)
    assert [news["completed"] for news in told] == [1, 2, 11, 12]
    assert [news.get("position") for news in told] == [
        "chain 1 of 2, iteration 1/10", None, None, "chain 2 of 2, iteration 2/10"
    ]  # fmt: skip


def test_a_search_until_it_is_flat_has_no_known_end() -> None:
    plan = plan_of(DPMM(n_chains=2), 10)
    assert (plan.position(63), plan.steps) == ("chain 1 of 2, iteration 63", None)
    told: list[dict[str, Any]] = []
    chains, iteration = Chains(plan, lambda **news: told.append(news)), Iteration(1, -1234.5, 0.1, 0, 0, 0, 0)
    chains.of_chain(0)(63, iteration)
    chains.ended(0)
    chains.of_chain(1)(1, iteration)
    assert told[-1]["position"] == "chain 2 of 2, iteration 1", "the first has ended, and says no more"
    # Of a search and draws, the draws are counted.
    plan = plan_of(DPMM(n_draws=100, thin=1, n_chains=2), 10)
    assert (plan.position(63), plan.position(plan.total)) == (
        "chain 1 of 2, iteration 63",
        "chain 1 of 2, draw 100/100",
    )
    assert (plan.steps, plan.done(63), plan.done(plan.total)) == (2 * 150, 0, 150)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_estimator_tells_of_all_chains(points: Path, n_jobs: int) -> None:
    told: list[dict[str, Any]] = []
    model = DPMM(init="kmeans", max_iter=6, n_chains=3, backend=Native(n_jobs=n_jobs), random_state=0)
    model.fit(np.load(points)["X"], progress=Chains(plan_of(model, 10), lambda **news: told.append(news)))
    assert told[-1]["completed"] == 3 * 6
    until_flat = DPMM(init="kmeans", n_chains=2, backend=Native(n_jobs=n_jobs), random_state=0)
    until_flat.fit(np.load(points)["X"], progress=Chains(plan_of(until_flat, 10), lambda **news: told.append(news)))
    if n_jobs == 1:
        assert {news["position"].split(",")[0] for news in told if "position" in news} >= {
            "chain 1 of 2",
            "chain 2 of 2",
        }
    assert until_flat.stopped_by_ == "flat"
    heard: list[int] = []
    model.fit(np.load(points)["X"], progress=lambda number, _: heard.append(number))
    assert heard == [1, 2, 3, 4, 5, 6]


def test_how_a_chain_is_doing() -> None:
    iteration = Iteration(1, -1234.5, 0.1, 0, 0, 0, 0)
    drawn = FitPlan(search=10, total=80, draws=20)
    assert drawn.words(10, iteration) == "1 cluster, log posterior -1,234,"
    assert drawn.words(80, iteration) == "done, summing up,"
    assert FitPlan(search=10, total=10).words(10, iteration._replace(n_clusters=3)).startswith("3 clusters")


# Interrupted, and going on


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Press Ctrl-C when the first chain has come so far; what it told by then."""
    told: list[int] = []

    def press(reached: int, iteration: Iteration) -> None:
        if reached >= number and (not told or told[-1] < number):
            os.kill(os.getpid(), signal.SIGINT)
        told.append(reached)

    @contextlib.contextmanager
    def line(plan: FitPlan, *, shown: bool) -> Iterator[Any]:
        yield press

    monkeypatch.setattr(progress_module, "progress_line", line)
    return told


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("number", [8, 15 + 50 + 12])
def test_an_interrupted_run_goes_on(
    run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Within the search, and among the draws."""
    options = (*QUICK, "--draws", 30, "--thin", 2, "--json")
    whole, parts, checkpoint = tmp_path / "whole", tmp_path / "parts", tmp_path / "chain.ckpt"
    assert run("fit", points, *options, "--out", whole).code == 0
    command = ("fit", points, *options, "--checkpoint", checkpoint, "--checkpoint-every", 1000, "--out", parts)
    with monkeypatch.context() as patched:
        told = interrupt_at(patched, number)
        done = run(*command)
    assert done.code == 130, done.err
    summary = json.loads(done.out)
    assert summary["interrupted"] is True
    drawn = max(0, (told[-1] - 65) // 2)
    assert told[-1] <= number + 2 and summary["draws"] == drawn < 30
    assert (parts / "draws.npz").exists() == (drawn > 0)
    assert run(*command).code == 0
    for name in ("labels.npy", "draws.npz", "model.npz", "confidence.npy"):
        assert equal(whole / name, parts / name), name
    # What has been drawn stays with the checkpoint, and a third time there is nothing left to do.
    assert labels_file(checkpoint).exists() and checkpoint.exists()
    before = checkpoint.read_bytes()
    assert run(*command).code == 0
    assert checkpoint.read_bytes() == before
    assert equal(whole / "draws.npz", parts / "draws.npz")


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("number", [pytest.param(8, marks=pytest.mark.slow), 15 + 50 + 12])
def test_chains_that_have_not_begun_go_on_too(
    run, points: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """One after the other: the second has not begun when the first is interrupted."""
    command = ("fit", points, *SAMPLED, "--json", "--checkpoint", tmp_path / "c", "--out", tmp_path / "parts")
    assert run("fit", points, *SAMPLED, "--json", "--out", tmp_path / "whole").code == 0
    with monkeypatch.context() as patched:
        interrupt_at(patched, number)
        done = run(*command)
    assert done.code == 130, done.err
    summary = json.loads(done.out)
    assert summary["interrupted"] is True and summary["iterations"] == min(number, 15)
    assert run(*command).code == 0
    assert equal(tmp_path / "whole" / "draws.npz", tmp_path / "parts" / "draws.npz")


def equal(one: Path, other: Path) -> bool:
    """Whether two files hold the same arrays."""
    if one.suffix == ".npy":
        return np.array_equal(np.load(one), np.load(other))
    with np.load(one, allow_pickle=False) as a, np.load(other, allow_pickle=False) as b:
        # NaN where nothing is known, such as the time of a batch.
        numbers = {name: np.issubdtype(a[name].dtype, np.floating) for name in a.files}
        return a.files == b.files and all(np.array_equal(a[name], b[name], equal_nan=numbers[name]) for name in a.files)


def test_finished_chains_have_checkpoints_of_their_own(run, points: Path, tmp_path: Path) -> None:
    command = ("fit", points, *SAMPLED, "--json", "--checkpoint", tmp_path / "c", "--out")
    assert run(*command, tmp_path / "a").code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"a", "c", "c.chain2", "c.labels.npy"}
    assert run(*command, tmp_path / "b").code == 0
    assert equal(tmp_path / "a" / "draws.npz", tmp_path / "b" / "draws.npz")
