"""`dpmmwrap warm-up`, and the lines of a fit where there is no terminal."""

from dpmmwrap.cli import progress
from dpmmwrap.numerics import kernel_cache
from dpmmwrap.sampler.trace import Iteration


def test_what_was_done_is_said(run) -> None:
    """The session has compiled everything (conftest)."""
    done = run("warm-up", "--family", "mixed", "--family", "multinomial")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "mixed: already compiled", "multinomial: already compiled", f"kept in {kernel_cache.folder()}",
    ]  # fmt: skip


def test_an_unknown_family_is_refused(run) -> None:
    assert "'weibull' is not one of" in run("warm-up", "--family", "weibull").sentence


def test_a_line_every_ten_seconds(capsys) -> None:
    now = 0.0
    lines = progress.Lines(10.0, lambda: now)
    heard = progress.Chains(progress.FitPlan(100, 100), lines.tell)
    for number in range(1, 26):
        now = float(number)
        happened = Iteration(3, -1234.5, 1.0, splits=0, splits_proposed=0, merges=0, merges_proposed=0)
        heard(number, happened)
    assert capsys.readouterr().err.splitlines() == [
        "dpmmwrap: iteration 10/100: 3 clusters, log posterior -1,234",
        "dpmmwrap: iteration 20/100: 3 clusters, log posterior -1,234",
    ]
