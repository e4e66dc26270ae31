"""From a fit to one HTML file that needs no network."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.describe.plotting import COLOURS, NUMBERED, counted, shade, spread_colours
from dpmmwrap.describe.profiles import Profiles, in_units, profiles_of
from dpmmwrap.describe.report import maps, words
from dpmmwrap.describe.report.certainty import SURE, Certainty, certainty_of
from dpmmwrap.describe.report.charts import Chart, chart_of
from dpmmwrap.describe.report.known import Gaps, Known, gaps_of, known_table
from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.files import write_atomically
from dpmmwrap.files.selection import listed
from dpmmwrap.numerics.arrays import IntArray

PROFILED = 100
"""Clusters that have a profile, the largest first; those after the first few are folded."""
OPEN = 8
FEATURES = 6
"""Of a profile."""
SIZED = 30
"""Clusters in the table of sizes that is not folded."""
GROUPED = 30
"""Groups in their table, the largest first."""
BARS = 30
"""Numbers of clusters up to which each has a bar of its own."""
OUTLIERS = "#595959"


class Bar(NamedTuple):
    name: str
    told: str
    share: float
    """From 0 to 1: its length."""


class Group(NamedTuple):
    """Clusters that overlap."""

    number: int
    size: int
    share: str
    colour: str
    members: str
    short: str


class Cluster(NamedTuple):
    """A cluster's line in the table of sizes, and its profile."""

    number: int
    size: int
    share: str
    part: float
    """Of the largest cluster: the length of its bar."""
    colour: str
    certainty: str
    group: int | None
    missing: str
    gap: str
    short: str
    traits: list[dict[str, Any]]


def write_report(path: str | Path, subject: Subject) -> None:
    """Write the page; whatever happens, the file is then the old one or the whole new one."""
    page = render(subject).encode()
    write_atomically(path, lambda file: file.write(page))


def render(subject: Subject) -> str:
    """The page of a fit."""
    sure = certainty_of(subject.model, subject.points)
    wanted = np.array([one.row for one in sure.doubtful], dtype=np.int64)
    rows = maps.drawn_rows(subject.labels, wanted, subject.points.shape[1])
    rows = rows[~subject.absent[rows]]
    views = maps.maps_of(subject.model, subject.points, rows, subject.names)
    palette = colours(subject, views[0])
    profiles = None
    if subject.n_clusters > 1:
        profiles = profiled(subject, subject.labels, subject.n_clusters)
    gaps = gaps_of(subject.points, subject.labels, subject.n_clusters, subject.names, subject.model.mixture_.columns)
    every = clusters(subject, sure, profiles, gaps, palette)
    views = [view._replace(centres=numbered_centres(subject, view)) for view in views]
    return str(
        template().render(
            title=words.title(subject),
            found=words.found(subject, sure),
            notes=subject.notes,
            outliers=subject.outliers,
            clusters=every,
            colours=palette,
            sized=SIZED if len(every) > SIZED + 1 else len(every),
            rest_share=words.share(sum(one.size for one in every[SIZED:]) / subject.n_rows),
            missing=gaps is not None,
            by_groups=by_groups(subject),
            groups=groups(subject, palette),
            n_groups=0 if subject.groups is None else subject.groups.suggested,
            known=known(subject),
            n_numbered=len(views[0].centres),
            n_clusters=subject.n_clusters,
            open_profiles=OPEN,
            looked_at=None if profiles is None or profiles.looked_at == subject.n_rows else f"{profiles.looked_at:,}",
            counts=words.is_counts(subject),
            categories=subject.model.mixture_.columns is not None,
            listed_below=SURE,
            n_rows=f"{subject.n_rows:,}",
            n_drawn=f"{len(rows):,}",
            all_drawn=len(rows) == subject.n_rows,
            of_each=maps.of_each(subject.labels, subject.points.shape[1]),
            id_name=subject.id_name,
            numbered=subject.numbered,
            views=views,
            drawing=(maps.WIDTH, maps.HEIGHT),
            points=drawn_points(subject, rows, views, palette),
            radius=max(3.0, min(8.0, 260 / len(rows) ** 0.5)),
            data=as_json(drawing_data(subject, rows, views, sure)),
            sure=sure,
            sure_bars=certainty_bars(sure),
            looked_at_rows=f"{len(sure.rows):,}",
            all_looked_at=len(sure.rows) == subject.n_rows,
            doubtful=doubtful(subject, sure),
            posterior=posterior_bars(subject),
            chains=0 if subject.model.draws_ is None else subject.model.draws_.n_chains,
            draws=0 if subject.model.draws_ is None else subject.model.draws_.n_draws,
            charts=trace_charts(subject),
            n_traces=len(subject.model.traces_),
            settings=words.settings(subject),
            command=subject.command,
            python=words.in_python(subject.model),
        )
    )


@lru_cache(maxsize=1)
def template() -> Any:
    """The page's template, with its style and its script beside it."""
    from jinja2 import Environment, FunctionLoader

    folder = files("dpmmwrap.describe.report")
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["share"] = words.share
    return environment.get_template("page.html")


def profiled(subject: Subject, labels: IntArray, count: int) -> Profiles:
    """What sets clusters or groups apart, in the units of the data."""
    found = profiles_of(
        subject.points,
        labels,
        count,
        names=subject.names,
        columns=subject.model.mixture_.columns,
        counts=words.is_counts(subject),
    )
    return in_units(found, subject.preparation)


def by_groups(subject: Subject) -> bool:
    """Whether colours tell groups apart first: where there are more clusters than colours that everyone can tell."""
    return subject.n_clusters > len(COLOURS) and subject.component_groups is not None


def colours(subject: Subject, view: maps.Map) -> list[str]:
    """Of each cluster, such that neighbours on the map differ; of many clusters shades of their groups' colours."""
    centres = np.zeros((subject.n_clusters, 2))
    for number, x, y in view.centres:
        centres[number] = x, y
    own = subject.component_groups
    if own is None or not by_groups(subject):
        return spread_colours(centres) or [COLOURS[0]]
    sizes = np.bincount(own, weights=subject.sizes)
    middles = [np.bincount(own, weights=subject.sizes * along) / np.maximum(sizes, 1) for along in centres.T]
    # The largest groups take the colours that are told apart most easily.
    order = np.argsort(-sizes, kind="stable")
    found = dict(zip(order.tolist(), spread_colours(np.column_stack(middles)[order]), strict=True))
    palette = [""] * subject.n_clusters
    for group, colour in found.items():
        members = np.flatnonzero(own == group)
        for place, k in enumerate(members[np.argsort(-subject.sizes[members], kind="stable")].tolist()):
            palette[k] = shade(colour, place)
    return palette


def numbered_centres(subject: Subject, view: maps.Map) -> list[tuple[int, int, int]]:
    """Of the largest clusters: more numbers would hide the map."""
    largest = set(np.argsort(-subject.sizes, kind="stable")[:NUMBERED].tolist())
    return [centre for centre in view.centres if centre[0] in largest]


def groups(subject: Subject, palette: list[str]) -> list[Group]:
    """The largest groups, where there are fewer than clusters, and many of these."""
    own = subject.component_groups
    if own is None or not by_groups(subject):
        return []
    count = int(own.max()) + 1
    sizes = np.bincount(own, weights=subject.sizes).astype(np.int64)
    labels = np.where(subject.labels < 0, -1, own[subject.labels])
    profiles = profiled(subject, labels, count) if count > 1 else None
    found = []
    for group in np.argsort(-sizes, kind="stable")[:GROUPED].tolist():
        members = np.flatnonzero(own == group)
        members = members[np.argsort(-subject.sizes[members], kind="stable")]
        short = "" if profiles is None else words.in_short(profiles.traits(group, FEATURES))
        told = listed([str(k) for k in members.tolist()], 12)
        found.append(
            Group(
                group, int(sizes[group]), words.share(sizes[group] / subject.n_rows), palette[members[0]], told, short
            )
        )
    return found


def known(subject: Subject) -> Known | None:
    """Clusters beside labels that were known before."""
    if subject.truth is None:
        return None
    truth = np.where(subject.absent, -1, np.asarray(subject.truth))
    if not (truth >= 0).any():
        return None
    return known_table(subject.labels, truth, subject.classes, subject.n_clusters)


def clusters(
    subject: Subject, sure: Certainty, profiles: Profiles | None, gaps: Gaps | None, palette: list[str]
) -> list[Cluster]:
    """The largest first."""
    own = np.asarray(subject.labels)[sure.rows]
    groups = None if subject.groups is None else subject.groups.component_groups
    found = []
    for place, number in enumerate(np.argsort(-subject.sizes, kind="stable").tolist()):
        members = sure.probability[own == number]
        traits = [] if profiles is None or place >= PROFILED else profiles.traits(number, FEATURES)
        largest = max((abs(trait.apart) for trait in traits), default=0.0) or 1.0
        found.append(
            Cluster(
                number=number,
                size=int(subject.sizes[number]),
                share=words.share(subject.sizes[number] / subject.n_rows),
                part=round(float(subject.sizes[number] / subject.sizes.max()), 3),
                colour=palette[number],
                certainty=f"{members.mean():.2f}" if len(members) else "–",
                group=None if groups is None else int(groups[number]),
                missing="" if gaps is None else words.share(float(gaps.shares[number])),
                gap="" if gaps is None else words.gap(gaps.gaps.get(number)),
                short=words.in_short(traits),
                traits=[
                    {
                        "name": str(trait.feature),
                        "here": words.here(trait),
                        "elsewhere": words.elsewhere(trait),
                        "difference": words.difference(trait),
                        "width": round(50 * abs(trait.apart) / largest, 1),
                        "more": trait.apart > 0,
                    }
                    for trait in traits
                ],
            )
        )
    return found


def drawn_points(
    subject: Subject, rows: IntArray, views: list[maps.Map], palette: list[str]
) -> list[tuple[int, int, str]]:
    """Where each drawn row stands on the first map, and its colour."""
    labels = subject.labels[rows]
    return [
        (int(x), int(y), OUTLIERS if k < 0 else palette[k])
        for (x, y), k in zip(views[0].places.tolist(), labels.tolist(), strict=True)
    ]


def drawing_data(subject: Subject, rows: IntArray, views: list[maps.Map], sure: Certainty) -> dict[str, Any]:
    """What the script needs to know of the drawn rows."""
    probability = sure.of_rows(rows)
    return {
        "kind": subject.id_name,
        "ids": [subject.id_of(row) for row in rows.tolist()],
        "clusters": subject.labels[rows].tolist(),
        "sure": [None if np.isnan(value) else round(float(value), 3) for value in probability],
        "views": [
            {"places": view.places.ravel().tolist(), "centres": view.centres, "across": view.across, "up": view.up}
            for view in views
        ],
    }


def as_json(value: Any) -> str:
    """JSON that cannot end the element in which it stands."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def certainty_bars(sure: Certainty) -> list[Bar]:
    whole = max(1, len(sure.rows))
    return [Bar(name, f"{count:,} ({words.share(count / whole)})", count / whole) for name, count in sure.classes()]


def doubtful(subject: Subject, sure: Certainty) -> list[dict[str, Any]]:
    return [
        {
            "row": subject.id_of(one.row),
            "cluster": "outlier" if one.cluster < 0 else one.cluster,
            "probability": f"{one.probability:.2f}",
            "candidates": ", ".join(
                f"{'outlier' if k < 0 else k} ({probability:.2f})" for k, probability in one.candidates
            ),
        }
        for one in sure.doubtful
    ]


def posterior_bars(subject: Subject) -> list[Bar]:
    """How probable each number of clusters is; neighbours share a bar where there are many."""
    draws = subject.model.draws_
    if draws is None:
        return []
    values = np.asarray(draws.n_clusters).ravel()
    low, high = int(values.min()), int(values.max())
    width = -(-(high - low + 1) // BARS)
    found = []
    for begin in range(low, high + 1, width):
        chance = float(((values >= begin) & (values < begin + width)).mean())
        name = str(begin) if width == 1 else f"{begin} to {begin + width - 1}"
        found.append(Bar(name, words.share(chance), chance))
    return found


def trace_charts(subject: Subject) -> list[Chart]:
    traces = subject.model.traces_
    wanted = [("Clusters", "n_clusters", True), ("Log posterior", "log_posterior", False)]
    found = [chart_of(name, [trace[column] for trace in traces], whole=whole) for name, column, whole in wanted]
    return [chart for chart in found if chart is not None]
