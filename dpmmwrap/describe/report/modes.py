"""Several answers: the partitions that represent the draws, if these have distinct modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.describe.wording import share
from dpmmwrap.numerics.arrays import evenly_spaced

ROWS = 5000
"""Rows by which draws are compared, evenly spaced."""


def distinct_answers(subject: Subject) -> list[dict[str, Any]]:
    """Each answer's number of clusters and share of the draws, the largest first, and what it divides differently from
    the first; empty without draws, and if the draws have one mode."""
    # Differences are told in the words of this package.
    from dpmmwrap.describe.differences import difference_between
    from dpmmwrap.posterior.answers import answers

    draws = subject.model.draws_
    if draws is None or draws.labels is None:
        return []
    rows = evenly_spaced(subject.n_rows, ROWS)
    modes = answers(np.asarray(draws.kept_labels[:, rows]), loss=subject.model.loss)
    if len(modes) == 1:
        return []
    first, points = modes[0].labels, subject.points[rows]
    differences = [
        difference_between(subject.model, points, first, one.labels, subject.names, subject.preparation)
        for one in modes[1:]
    ]
    splits = [[], *(difference.splits for difference in differences)]
    return [
        {"clusters": one.n_clusters, "share": share(one.share), "splits": divided}
        for one, divided in zip(modes, splits, strict=True)
    ]
