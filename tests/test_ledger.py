"""The ledger: how it compares, that its cells are fair, and that no row of its small part has fallen."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
if not (SCRIPTS / "ledger.py").exists():
    pytest.skip("not in a clone", allow_module_level=True)
# The processes that fit have it from here.
sys.path.append(str(SCRIPTS))

import ledger  # noqa: E402
import ledger_fits  # noqa: E402
import ledger_sets  # noqa: E402

NOWHERE = Path("nowhere")


def row(name: str = "iris", **known: Any) -> ledger.Row:
    empty = {column: "" if column in ledger.WORDS else math.nan for column in ledger.COLUMNS}
    return {**empty, "name": name, "kind": "bundled", "ari": 0.9, "noise": 0.05, "clusters": 3.0, **known}


@pytest.mark.parametrize(("ari", "word"), [(0.82, "fell"), (0.98, "rose"), (0.84, ""), (0.96, ""), (math.nan, "fell")])
def test_a_row_that_changed_by_more_than_its_noise_is_told(ari: float, word: str) -> None:
    told = ledger.differences([row(ari=ari, problem="too long" if math.isnan(ari) else "")], {"iris": row()})
    assert [line.split()[:2] for line in told if "ARI" in line] == ([[word, "iris:"]] if word else [])
    assert [change.name for change in ledger.changes([row(ari=ari)], {"iris": row()}) if change.fell] == (
        ["iris"] if word == "fell" else []
    )


def test_what_is_not_committed_is_not_compared() -> None:
    assert ledger.changes([row("new", ari=0.0)], {"iris": row()}) == []
    assert "no figures" in ledger.differences([row()], {})[-1]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    before = row(log_evidence=-123456.78, rows=10_000, oracle=math.nan, cpu_seconds=1.234)
    ledger.write_table(tmp_path / "table.csv", [before])
    found = ledger.read_table(tmp_path / "table.csv")["iris"]
    assert list(found) == list(ledger.COLUMNS)
    assert (found["ari"], found["rows"], found["log_evidence"], found["cpu_seconds"]) == (0.9, 10_000, -123456.8, 1.23)
    assert math.isnan(found["oracle"]) and found["kind"] == "bundled"


def test_settings_on_the_command_line() -> None:
    assert ledger.options_in("covariance_type=full,n_chains=2,alpha=1.5") == {
        "covariance_type": "full",
        "n_chains": 2,
        "alpha": 1.5,
    }


def test_another_program_is_another_digest(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    for name in ("a.py", "cli/b.py"):
        (tmp_path / name).write_text("1")
    before = ledger_fits.source_digest(tmp_path)
    (tmp_path / "cli" / "b.py").write_text("2")
    assert ledger_fits.source_digest(tmp_path) == before
    (tmp_path / "a.py").write_text("2")
    assert ledger_fits.source_digest(tmp_path) != before


def test_kept_fits_are_found_again_and_half_a_line_is_none(tmp_path: Path) -> None:
    entry = ledger_sets.Entry("iris", "bundled", ledger_sets.draw_grid, "1")
    path, fit, other = tmp_path / "fits.jsonl", ledger_fits.Fit(entry, 0), ledger_fits.Fit(entry, 0, {"alpha": 1.0})
    cache = ledger_fits.Cache(path)
    for wanted, evidence, problem in ((fit, -5.0, ""), (other, -3.0, "ValueError: no")):
        cache.add(wanted.identity("p") | ledger_fits.failed(problem) | {"log_evidence": evidence})
    path.write_text(path.read_text() + '{"name": "iris", "sp')
    again = ledger_fits.Cache(path)
    assert again.get(fit, "p") is not None
    assert again.get(fit, "another program") is None
    assert again.get(other, "p") is None, "what failed is tried again"
    assert again.best_evidence(entry) == -3.0


def test_cells_can_be_told_apart_by_who_knows_them() -> None:
    names = [entry.name for entry in ledger_sets.all_entries(NOWHERE)]
    assert len(names) == len(set(names))
    for cell in ledger_sets.CELLS:
        if cell.points <= 5000:
            found = ledger_sets.draw_cell(cell)
            assert found.X.shape == (cell.points, cell.dim)
            assert 0.7 <= found.oracle <= 1, cell.name
            assert len(set(found.y[found.y >= 0])) == cell.clusters


def test_a_process_that_dies_or_fails_or_hangs_does_not_end_the_run() -> None:
    entries = [
        ledger_sets.Entry(name, "", draw, "") for name, draw in (("dies", die), ("fails", refuse), ("hangs", hang))
    ]
    found = {
        fit.entry.name: record["problem"]
        for fit, record in ledger_fits.run_all([ledger_fits.Fit(entry, 0) for entry in entries], 1, 2)
    }
    assert found == {
        "dies": "the process died",
        "fails": "ZeroDivisionError: division by zero",
        "hangs": ledger_fits.TOO_LONG,
    }


def die() -> Any:
    import os

    os._exit(1)


def refuse() -> Any:
    return 1 / 0


def hang() -> Any:
    while True:
        pass


QUICK = (
    *("d1_k3_n300_ball", "d2_k10_n1000_ellipsoid", "d3_k8_n1000_axes", "d5_k1_n3000_ellipsoid", "d20_k5_n1000_ball"),
    *("iris", "uci_ecoli", "text_gsdmm_Tweet/10"),
)
"""Every kind of model, in 8 seconds of one core."""


@pytest.mark.parametrize(
    "names", [",".join(QUICK), pytest.param(",".join(ledger.SMALL), marks=pytest.mark.slow)], ids=["quick", "small"]
)
def test_no_row_has_fallen(names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Public sets are fitted where they are here."""
    if not ledger.COMMITTED.exists():
        pytest.skip("there are no committed figures")
    code = ledger.main(["--only", names, "--seeds", "1", "--strict", "--cache", str(tmp_path / "fits.jsonl")])
    said = capsys.readouterr().out
    assert code == 0, said[said.index("kind  ") :]
