"""From a fit to one HTML file that needs no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.describe.plotting.clusters import NUMBERED, spread_colours
from dpmmwrap.describe.plotting.theme import COLOURS, shade
from dpmmwrap.describe.profiles import Profiles, in_units, profiles_for
from dpmmwrap.describe.report import maps, words
from dpmmwrap.describe.report.certainty import SURE, certainty_of
from dpmmwrap.describe.report.charts import chart_of, tree_chart
from dpmmwrap.describe.report.engine import rendered, write_page
from dpmmwrap.describe.report.known import KnownTable, known_table, missing_shares
from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.files.selection import listed
from dpmmwrap.numerics.arrays import IntArray, evenly_spaced
from dpmmwrap.numerics.cells import thread_pools

PROFILED = 100
"""The largest number of clusters with a profile."""
FEATURES = 6
"""The features in a profile."""
SIZED = 30
"""The largest number of clusters in the table of sizes that is not folded."""
GROUPED = 30
"""The largest number of groups in their table."""
BARS = 30
"""The largest number of bars of numbers of clusters; beyond it, neighbours share a bar."""
OUTLIERS = "#595959"
"""Their colour on the map."""
MODE_ROWS = 5000
"""The evenly spaced rows by which draws are compared."""


def write_report(path: str | Path, subject: Subject) -> None:
    """Write the page. Whatever happens, the file is the old one or the whole new one."""
    # With more threads than idle cores, many small matrix products are ten times slower.
    with thread_pools().limit(limits=1):
        write_page(path, render(subject))


def render(subject: Subject) -> str:
    facts, mixture = subject.facts, subject.model.mixture_
    sure = certainty_of(subject.model, subject.points)
    wanted = np.array([one.row for one in sure.doubtful], dtype=np.int64)
    rows = maps.drawn_rows(subject.labels, wanted, subject.points.shape[1])
    rows = rows[~subject.absent[rows]]
    views = maps.maps_of(subject.model, subject.points, rows, subject.names)
    columns = maps.data_columns(subject, rows)
    palette, drawn = colours(subject, views[0]), subject.labels[rows].tolist()
    order = largest_first(np.arange(subject.n_clusters), subject.sizes)
    # More numbers would hide the map.
    views = [view._replace(centres=[one for one in view.centres if one[0] in order[:NUMBERED]]) for view in views]
    profiles = profiled(subject, subject.labels, subject.n_clusters)
    labels = subject.labels[sure.rows]
    traces = subject.model.traces_
    charts = (
        chart_of("Clusters", [trace["n_clusters"] for trace in traces], whole=True),
        chart_of("Log posterior", [trace["log_posterior"] for trace in traces]),
    )
    return rendered(
        "page.html",
        subject=subject,
        facts=facts,
        words=words,
        # Clusters, the largest first, and what is known of each by its number.
        order=order,
        colours=palette,
        certainty=[sure.probability[labels == k].mean() if (labels == k).any() else None for k in order],
        cluster_groups=None if subject.groups is None else subject.groups.component_groups.tolist(),
        gaps=missing_shares(subject.points, subject.labels, subject.n_clusters, subject.names, mixture.columns),
        traits={} if profiles is None else {k: profiles.traits(k, FEATURES) for k in order[:PROFILED]},
        sized=SIZED if len(order) > SIZED + 1 else len(order),
        groups=groups(subject, palette),
        tree=tree_chart(subject.groups, palette) if subject.groups and subject.component_groups is not None else None,
        known=known(subject),
        looked_at=subject.n_rows if profiles is None else profiles.looked_at,
        counts=mixture.posterior.profile == "counts",
        sure=sure,
        listed_below=SURE,
        n_drawn=f"{len(rows):,}",
        of_each=maps.of_each(subject.labels, subject.points.shape[1]),
        views=views,
        columns=columns,
        drawing=(maps.WIDTH, maps.HEIGHT),
        # The position of each drawn row on the first map, and its colour; the last colour is for -1.
        points=[(x, y, [*palette, OUTLIERS][k]) for (x, y), k in zip(views[0].positions.tolist(), drawn, strict=True)],
        radius=max(3.0, min(8.0, 260 / len(rows) ** 0.5)),
        data=as_json(
            {
                "ids": [subject.id_of(row) for row in rows.tolist()],
                "clusters": drawn,
                "sure": [None if np.isnan(value) else round(float(value), 3) for value in sure.of_rows(rows)],
                "views": [
                    {
                        "positions": view.positions.ravel().tolist(),
                        "centres": view.centres,
                        "across": view.across,
                        "up": view.up,
                    }
                    for view in views
                ],
                "columns": [{"title": column.title, "positions": column.positions} for column in columns],
                "drawing": [maps.WIDTH, maps.HEIGHT, maps.MARGIN, maps.STEPS],
            }
        ),
        posterior=posterior_bars(subject),
        answers=distinct_answers(subject),
        charts=[chart for chart in charts if chart is not None],
    )


def profiled(subject: Subject, labels: IntArray, count: int) -> Profiles | None:
    """What sets clusters or groups apart, in the units of the data; None if there is only one."""
    if count < 2:
        return None
    return in_units(profiles_for(subject.model, subject.points, labels, count, subject.names), subject.preparation)


def colours(subject: Subject, view: maps.Map) -> list[str]:
    """A colour for each cluster. Neighbours on the map differ; clusters of a group have shades of one colour."""
    centres = np.zeros((subject.n_clusters, 2))
    for number, x, y in view.centres:
        centres[number] = x, y
    groups = subject.component_groups
    if groups is None:
        return spread_colours(centres) or [COLOURS[0]]
    sizes = np.bincount(groups, weights=subject.sizes)
    middles = [np.bincount(groups, weights=subject.sizes * along) / np.maximum(sizes, 1) for along in centres.T]
    # The largest groups take the colours that are easiest to tell apart.
    order = np.argsort(-sizes, kind="stable")
    group_colours = dict(zip(order.tolist(), spread_colours(np.column_stack(middles)[order]), strict=True))
    palette = [""] * subject.n_clusters
    for group, colour in group_colours.items():
        members = np.flatnonzero(groups == group)
        for index, k in enumerate(largest_first(members, subject.sizes[members])):
            palette[k] = shade(colour, index)
    return palette


def largest_first(numbers: IntArray, sizes: IntArray) -> list[int]:
    ordered: list[int] = numbers[np.argsort(-sizes, kind="stable")].tolist()
    return ordered


def groups(subject: Subject, palette: list[str]) -> list[dict[str, Any]]:
    """The largest groups, if there are fewer groups than clusters."""
    members_of = subject.component_groups
    if members_of is None:
        return []
    sizes = np.bincount(members_of, weights=subject.sizes).astype(np.int64)
    profiles = profiled(subject, np.where(subject.labels < 0, -1, members_of[subject.labels]), len(sizes))
    lines = []
    for group in largest_first(np.arange(len(sizes)), sizes)[:GROUPED]:
        inside = np.flatnonzero(members_of == group)
        members = largest_first(inside, subject.sizes[inside])
        line = {
            "number": group,
            "size": int(sizes[group]),
            "colour": palette[members[0]],
            "members": listed([str(k) for k in members], 12),
            "short": "" if profiles is None else words.in_short(profiles.traits(group, FEATURES)),
        }
        lines.append(line)
    return lines


def known(subject: Subject) -> KnownTable | None:
    """The table of clusters and true labels, if there are any."""
    if subject.truth is None:
        return None
    truth = np.where(subject.absent, -1, np.asarray(subject.truth))
    if not (truth >= 0).any():
        return None
    return known_table(subject.labels, truth, subject.classes, subject.n_clusters)


def as_json(value: Any) -> str:
    """JSON that cannot end the HTML element around it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def posterior_bars(subject: Subject) -> list[tuple[str, float]]:
    """Numbers of clusters and their probabilities; neighbours share a bar if there are many."""
    draws = subject.model.draws_
    if draws is None:
        return []
    values = np.asarray(draws.n_clusters).ravel()
    low, high = int(values.min()), int(values.max())
    width = -(-(high - low + 1) // BARS)
    bars = []
    for begin in range(low, high + 1, width):
        chance = float(((values >= begin) & (values < begin + width)).mean())
        name = str(begin) if width == 1 else f"{begin} to {begin + width - 1}"
        bars.append((name, chance))
    return bars


def distinct_answers(subject: Subject) -> list[dict[str, Any]]:
    """The clusterings that represent the modes of the draws, and what they divide differently from the first one.

    Empty without draws, and if the draws have one mode.
    """
    # It uses the sentences of this package.
    from dpmmwrap.describe.differences import difference_between
    from dpmmwrap.posterior.answers import answers

    draws = subject.model.draws_
    if draws is None or draws.labels is None:
        return []
    rows = evenly_spaced(subject.n_rows, MODE_ROWS)
    modes = answers(np.asarray(draws.kept_labels[:, rows]), loss=subject.model.loss)
    told = []
    for mode in modes if len(modes) > 1 else []:
        labellings = (modes[0].labels, mode.labels)
        difference = difference_between(
            subject.model, subject.points[rows], *labellings, subject.names, subject.preparation
        )
        told.append({"clusters": mode.n_clusters, "share": mode.share, "splits": difference.splits})
    return told
