"""Several answers on the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap import DPMM

Fitted = tuple[DPMM, np.ndarray]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal([6.0 * k, 0.0], 1.0, (30, 2)) for k in range(3)])
    return DPMM(n_draws=10, n_chains=2, covariance_type="full", init="kmeans", random_state=0).fit(X), X


def text_of(model: DPMM, X: np.ndarray, path: Path) -> str:
    model.write_report(path, X, names=["width", "height"])
    return " ".join(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")).split())


def test_one_mode_needs_no_section(fitted: Fitted, tmp_path: Path) -> None:
    assert "Several answers" not in text_of(*fitted, tmp_path / "page.html")


def test_two_modes_are_told_with_their_shares_and_what_differs(fitted: Fitted, tmp_path: Path) -> None:
    model, X = fitted
    classes = np.repeat([0, 1, 2], 30)
    labels = np.tile(classes, (2, 10, 1)).astype(np.int32)
    # In three of ten draws the first two clusters are one.
    labels[:, :3] = np.minimum(classes, 1) - (classes == 1)
    assert model.draws_ is not None
    model.draws_, kept = replace(model.draws_, labels=labels), model.draws_
    try:
        text = text_of(model, X, tmp_path / "page.html")
    finally:
        model.draws_ = kept
    assert "The draws have 2 distinct modes" in text
    assert "3 clusters: 70% of the draws" in text and "2 clusters: 30% of the draws" in text
    assert "Cluster 0 (60 rows) is divided in the first: 30 rows: Low width" in text
