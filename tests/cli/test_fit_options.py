"""`dpmmwrap fit`: options that make no sense together, old names, priors, notes, and pictures that fail."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import click
import pytest

from dpmmwrap.cli import fit as fit_module
from dpmmwrap.cli import progress
from dpmmwrap.cli.families import as_options

QUICK = ("--init", "kmeans", "--init-clusters", 1, "--iterations", 15, "--backend", "native")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--categorical", "sex", "--family", "gaussian"), "--categorical is for --family mixed, not gaussian"),
        (("--categorical", "sex", "--family", "multinomial"), "--categorical is for --family mixed, not multinomial"),
        (("--categorical", "sex", "--covariance", "full"), "--covariance full is for --family gaussian, not mixed"),
        (("--categorical", " , "), "expected names or numbers of columns"),
        (("--covariance", "spherical", "--family", "multinomial"), "--covariance spherical is for --family gaussian"),
        (("--covariance", "diag", "--family", "multinomial"), "--covariance diag is for --family gaussian"),
        (("--tails", "auto", "--family", "multinomial"), "--tails auto is for --family gaussian, not multinomial"),
        (("--tails", "auto", "--workers", 2), "Julia's sampler is for --family gaussian and multinomial, not student"),
        (("--init", "splitnet", "--family", "multinomial"), "--init splitnet is for --family gaussian"),
        (("--weights", "w", "--family", "mixed"), "--weights is for --family gaussian, not mixed"),
        (("--prior", "reference", "--covariance", "diag"), "--prior reference is for full covariances"),
        (("--prior", "reference", "--family", "mixed"), "--prior reference is for full covariances"),
        (("--prior", "p.json", "--family", "mixed"), "--prior FILE is for --family gaussian and multinomial"),
        (("--backend", "julia", "--covariance", "diag"), "Julia's sampler has only full covariances"),
        (("--workers", 2, "--family", "mixed"), "Julia's sampler is for --family gaussian and multinomial"),
        (("--family", "weibull"), "'weibull' is not one of"),
        (("--covariance", "tied"), "'tied' is not one of"),
        (("--device", "mps"), "'mps' is not one of 'auto', 'cpu', 'cuda'"),
        (("--workers", 2, "--backend", "native"), "--workers and --machines need the Julia backend"),
        (("--workers", 2, "--checkpoint", "c"), "--checkpoint needs the built-in sampler"),
        (("--backend", "julia", "--checkpoint", "c"), "--checkpoint needs the built-in sampler"),
        (("--prior-width", 0.5, "--prior", "reference"), "are for the default prior of numeric columns"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(run, options: tuple[object, ...], said: str) -> None:
    sentence = run("fit", "there-is-no-such-file.csv", *options).sentence
    assert said in sentence
    assert "dpmmwrap fit --help" in sentence


def test_the_example_is_of_points(run) -> None:
    assert "not for --family multinomial" in run("fit", "--example", "--family", "multinomial").sentence


def test_the_help_says_what_there_is(run) -> None:
    shown = " ".join(run("fit", "--help").out.split())
    for said in ("--family [gaussian|student|multinomial|poisson|mixed]", "--covariance [auto|full|diag|spherical]"):
        assert said in shown
    assert "--tails [gaussian|student|auto]" in shown
    assert "--exposure COL" in shown and "--skip-missing" in shown
    assert "auto|cpu|cuda" in shown and "mps" not in shown
    assert "--init [auto|random|kmeans|splitnet]" in shown
    for said in ("--draws N", "--chains auto|N", "--thin N", "--loss [vi|binder|none]"):
        assert said in shown
    assert "Several chains run side by side" in shown


def test_every_option_has_its_section(run) -> None:
    shown = run("fit", "--help").out
    titles = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Data and results:",
        "How files are written:",
        "Model:",
        "Data that keep coming:",
        "Search:",
        "Draws from the posterior:",
        "Running:",
    ]
    _, *sections = shown.split("  Examples:")[0].split(":\n  -")
    assert len(sections) == len(titles)
    for option in fit_module.command.params:
        if isinstance(option, click.Option):
            assert f"  {option.opts[0]}" in shown or f", {option.opts[0]}" in shown


def test_families_and_covariances_can_all_be_chosen() -> None:
    """Named twice, because asking the families' room for them would make --help slow."""
    from dpmmwrap.families import COVARIANCE_TYPES, FAMILIES

    found = {option.name: option.type for option in fit_module.command.params}
    for name, choices in (("family", FAMILIES), ("covariance", COVARIANCE_TYPES)):
        kind = found[name]
        assert isinstance(kind, click.Choice)
        assert tuple(kind.choices) == choices


@pytest.mark.parametrize(
    ("scale", "family", "covariance"), [([3.0, 3.0, 3.0], "diag", "auto"), (3.0, "spherical", "spherical")]
)
def test_priors_of_other_covariances(
    run, summary_of, three: Path, tmp_path: Path, scale: object, family: str, covariance: str
) -> None:
    prior = {"mean": [0, 0, 0], "mean_strength": 0.1, "scale": scale, "degrees_of_freedom": 5}
    (tmp_path / "prior.json").write_text(json.dumps(prior))
    options = ("--prior", tmp_path / "prior.json", "--covariance", covariance)
    summary = summary_of(three, *options)
    assert (summary["covariance_type"], summary["covariance_reason"]) == (family, "the prior is given")
    (tmp_path / "prior.json").write_text(json.dumps(prior | {"scale": [1.0, 2.0]}))
    assert "inverse-gamma" in run("fit", three, *options).sentence


def test_a_prior_of_counts(run, summary_of, counts: Path, tmp_path: Path) -> None:
    (tmp_path / "prior.json").write_text(json.dumps({"concentration": [0.5] * 30}))
    options = ("--family", "multinomial", "--prior", tmp_path / "prior.json")
    assert summary_of(counts, *options)["ari"] == 1
    (tmp_path / "prior.json").write_text(json.dumps({"concentration": [0.5] * 29}))
    assert "a prior of 30 dimensions like the data, but it has 29" in run("fit", counts, *options).sentence
    (tmp_path / "prior.json").write_text(json.dumps({"concentration": [-1] * 30}))
    assert "should hold a Dirichlet prior" in run("fit", counts, *options).sentence
    assert "should hold mean, mean_strength" in run("fit", counts, "--prior", tmp_path / "prior.json").sentence


# Notes and pictures


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, three: Path) -> Path:
    """A fit about which there is something to be said, by the model and by the way."""
    from dpmmwrap.estimator import DPMM

    fit = DPMM.fit

    def talkative(self: DPMM, *arguments: object, **options: object) -> DPMM:
        fit(self, *arguments, **options)  # type: ignore[arg-type]
        self.notes_ = ["try something else"]
        for sentence in ("the data are\nstrange", "the data are strange", *self.notes_):
            warnings.warn(sentence, UserWarning, stacklevel=1)
        return self

    monkeypatch.setattr(DPMM, "fit", talkative)
    return three


def test_notes_come_once_below_the_table(run, noted: Path) -> None:
    done = run("fit", noted, *QUICK)
    assert done.err == ""
    assert done.out.splitlines()[-2:] == ["note: the data are strange", "note: try something else"]


def test_notes_in_json_and_in_quiet(run, noted: Path, tmp_path: Path) -> None:
    done = run("fit", noted, *QUICK, "--json")
    assert (json.loads(done.out)["notes"], done.err) == (["the data are strange", "try something else"], "")
    done = run("fit", noted, *QUICK, "--quiet", "--out", tmp_path / "out")
    assert (done.out, done.err.splitlines()) == (
        "", ["dpmmwrap: note: the data are strange", "dpmmwrap: note: try something else"],
    )  # fmt: skip
    assert len(json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]) == 2


def test_notes_speak_of_options() -> None:
    said = as_options("try covariance_type='full', init_clusters='many', or a narrower prior")
    assert said == "try --covariance full, --init-clusters many, or a narrower prior"


def test_what_was_warned_of_is_said_when_a_fit_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with progress.collected_warnings():
            warnings.warn("careful", UserWarning, stacklevel=1)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capsys.readouterr().err == "dpmmwrap: note: careful\n"


def test_a_picture_that_fails_takes_nothing_with_it(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Path
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("no\nway")

    monkeypatch.setattr("dpmmwrap.describe.plotting.fit_figure", broken)
    monkeypatch.setattr("dpmmwrap.describe.report.write_report", broken)
    done = run("fit", counts, "--family", "multinomial", *QUICK, "--out", tmp_path / "out")
    assert done.code == 1
    assert done.err.splitlines() == [
        f"dpmmwrap: {name} could not be drawn (ZeroDivisionError: no way)" for name in ("report.html", "clusters.png")
    ]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "labels.csv",
        "labels.npy",
        "groups.npy",
        "model.npz",
        "trace.csv",
        "summary.json",
        "groups.png",
        "trace.png",
        "dpmmwrap-files.json",
    }
    assert "clusters.png" not in done.out


def test_loading_the_network_is_not_called_fitting(run, three: Path) -> None:
    options = ["--covariance", "full", "--init", "splitnet", "--iterations", "5", "--chains", "1"]
    command = [sys.executable, "-m", "dpmmwrap", "fit", str(three), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert re.search(r"5 iterations; \d+\.\d s to load the network\n", done.stdout), done.stdout
    # Here it is loaded already, at the latest by the first of these fits.
    for _ in range(2):
        again = run("fit", three, *options)
    assert "to load" not in again.out
