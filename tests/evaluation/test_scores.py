"""Medians, gaps and ranks, against numbers computed by hand, NumPy and scipy; and the tables of them."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from dpmmwrap.describe.report.engine import ReportTable, text_table
from dpmmwrap.evaluation.scores import (
    Score,
    battery_of,
    behind_table,
    long_table,
    mean_ranks,
    means_table,
    published_table,
    scores_of,
    sets_table,
)


def row(data: str, method: str, seed: int, ari: float, **more: object) -> dict[str, object]:
    identity = {"data": data, "method": method, "seed": seed, "fingerprint": "f", "points": 90, "total": 100, "dim": 2}
    measures = {"clusters": 3, "n_clusters": 4, "nmi": 0.5, "groups_ari": math.nan, "log_posterior": math.nan}
    return {**identity, **measures, "ari": ari, "model": "", "seconds": 1.0 + seed, "problem": "", **more}


def ours(data: str, seed: int, ari: float, log_posterior: float, model: str = "full", **more: object) -> dict:
    return row(data, "DPMM", seed, ari, log_posterior=log_posterior, model=model, **more)


def scored(aris: dict[str, dict[str, float]], **more: object) -> list[Score]:
    rows = [row(data, method, 0, ari, **more) for data, own in aris.items() for method, ari in own.items()]
    return scores_of(rows, rows, {})


def test_medians_over_seeds() -> None:
    rows = [ours("a_x", seed, ari, 0.0) for seed, ari in enumerate((0.1, 0.9, 0.4))]
    (score,) = scores_of(rows, rows, {})
    assert (score.ari, score.seconds, score.runs, score.battery, score.classes) == (0.4, 2.0, 3, "a", 3)
    # A run that gave up has no part in the median, and is said.
    rows[0] |= {"ari": math.nan, "problem": "no"}
    (score,) = scores_of(rows, rows, {})
    assert score.ari == pytest.approx(np.median([0.9, 0.4])) and score.runs == 2 and score.problem == "no"


def test_the_gap_is_to_the_best_of_the_same_model() -> None:
    rows = [ours("a", 0, 0.5, -100.0), ours("a", 1, 0.5, -130.0), ours("a", 2, 0.5, -20.0, "diag")]
    kept = [*rows, ours("a", 7, 0.5, -90.0), ours("b", 0, 0.5, 0.0), ours("a", 8, 0.5, 50.0, fingerprint="g")]
    (score,) = scores_of(rows, kept, {})
    assert score.gap == np.median([10.0, 40.0, 0.0])
    assert score.close == 2, "10 nats or less count as close"
    large = [ours("a", 0, 0.5, -100_000.0), ours("a", 1, 0.5, -100_099.0), ours("a", 2, 0.5, -100_101.0)]
    assert scores_of(large, large, {})[0].close == 2, "and so does a thousandth"
    assert math.isnan(scores_of([row("a", "K-means", 0, 0.5)], kept, {})[0].gap)


def test_batteries_by_name_and_by_pattern() -> None:
    groups = {"real": ("wine*", "uci_satellite"), "small": ("uci_*",)}
    assert battery_of("g2mg_8_10", {}) == "g2mg"
    assert battery_of("wine27", {}) == "wine27"
    assert [battery_of(name, groups) for name in ("wine27", "uci_satellite", "uci_glass", "x_y")] == [
        *("real", "real", "small", "x")
    ]


def test_ranks_are_scipys() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, (6, 3)) / 4
    aris = {f"s{i}": dict(zip("abc", map(float, line), strict=True)) for i, line in enumerate(table)}
    ranks = mean_ranks(scored(aris))
    assert ranks.sets == 6
    expected = np.mean([rankdata(-line) for line in table], axis=0)
    np.testing.assert_allclose([ranks.by_method[name] for name in "abc"], expected)


def test_ranks_are_of_common_sets() -> None:
    # c has one set of three, and b lacks one: both sets of b and a count.
    aris = {"x": {"a": 0.9, "b": 0.1, "c": 0.5}, "y": {"a": 0.2, "b": 0.3}, "z": {"a": 0.2}}
    ranks = mean_ranks(scored(aris))
    assert ranks.by_method == {"a": 1.5, "b": 1.5} and ranks.sets == 2
    assert mean_ranks(scored({"x": {"a": math.nan}})).by_method == {}


def test_means_of_batteries() -> None:
    aris = {
        "g_1": {"DPMM": 0.2, "EM-GMM": 1.0},
        "g_2": {"DPMM": 0.4, "EM-GMM": math.nan},
        "t_1": {"DPMM": 0.9},
    }
    scores = scored(aris)
    table = means_table(scores, mean_ranks(scores))
    assert table.header == ["battery", "sets", "DPMM", "EM-GMM, given K"]
    assert table.lines[:3] == [
        ["g", "2", "0.30", "1.00 (1)"],
        ["t", "1", "0.90", "–"],
        ["all", "3", "0.50", "1.00 (1)"],
    ]
    assert table.lines[3] == ["mean rank", "3", "1.00", "–"]


def test_groups_have_a_column_of_their_own() -> None:
    scores = scored({"g_1": {"DPMM": 0.2, "HDBSCAN": 0.1}}, groups_ari=0.7)[:1] + scored({"g_1": {"HDBSCAN": 0.1}})
    assert means_table(scores, mean_ranks(scores)).header[2:] == ["DPMM", "DPMM, at groups", "HDBSCAN"]
    assert means_table(scores, mean_ranks(scores)).lines[0][2:] == ["0.20", "0.70", "0.10"]
    assert sets_table(scores).lines == [["g_1", "90", "2", "3", "0.20 (4)", "0.70", "0.10 (4)"]]
    assert long_table(scores).lines[0][5:8] == ["0.500", "0.200", "0.700"]
    assert long_table(scores).lines[1][7] == "–"


def test_where_we_are_behind() -> None:
    scores = scored({"a": {"DPMM": 0.5, "HDBSCAN": 0.6}, "b": {"DPMM": 0.1, "HDBSCAN": 0.9}, "c": {"DPMM": 1.0}})
    table = behind_table(scores)
    assert table is not None
    assert [line[0] for line in table.lines] == ["b", "a"]
    assert table.lines[0][2:] == ["4", "0.10", "HDBSCAN", "0.90"]
    assert behind_table(scored({"a": {"DPMM": 0.5, "HDBSCAN": 0.51}})) is None


def test_published_scores_stand_beside() -> None:
    scores = scored({"a": {"DPMM": 0.5, "HDBSCAN": 0.6}, "b": {"DPMM": 0.1}})
    table = published_table(scores, {"a": {"published ARI, EM": "0.5", "published x": ""}, "z": {"published x": "1"}})
    assert table == ReportTable(["set", "ARI, DPMM, here", "ARI, EM", "x"], [["a", "0.50", "0.5", "–"]])
    assert published_table(scores, {}) is None


def test_tables_for_a_terminal() -> None:
    text = text_table(ReportTable(["name", "x"], [["a", "10"], ["long name", "–"]]))
    assert text.splitlines() == ["name        x", "a          10", "long name   –"]
