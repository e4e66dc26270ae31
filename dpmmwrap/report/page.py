"""From a fit to one HTML file that needs no network."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import IntArray
from dpmmwrap.files import write_atomically
from dpmmwrap.plotting import COLOURS, counted, spread_colours
from dpmmwrap.profiles import Profiles, in_units, profiles_of
from dpmmwrap.report import maps, words
from dpmmwrap.report.certainty import SURE, Certainty, certainty_of
from dpmmwrap.report.charts import Chart, chart_of
from dpmmwrap.report.subject import Subject

PROFILED = 100
"""Clusters that have a profile, the largest first; those after the first few are folded."""
OPEN = 8
FEATURES = 6
"""Of a profile."""
BARS = 30
"""Numbers of clusters up to which each has a bar of its own."""
OUTLIERS = "#595959"


class Bar(NamedTuple):
    name: str
    told: str
    share: float
    """From 0 to 1: its length."""


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
        profiles = profiles_of(
            subject.points,
            subject.labels,
            subject.n_clusters,
            names=subject.names,
            columns=subject.model.mixture_.columns,
            counts=words.is_counts(subject),
        )
        profiles = in_units(profiles, subject.preparation)
    return str(
        template().render(
            title=words.title(subject),
            found=words.found(subject, sure),
            notes=subject.notes,
            outliers=subject.outliers,
            clusters=clusters(subject, sure, profiles, palette),
            n_clusters=subject.n_clusters,
            open_profiles=OPEN,
            looked_at=None if profiles is None or profiles.looked_at == subject.n_rows else f"{profiles.looked_at:,}",
            counts=words.is_counts(subject),
            categories=subject.model.mixture_.columns is not None,
            listed_below=SURE,
            n_rows=f"{subject.n_rows:,}",
            n_drawn=f"{len(rows):,}",
            all_drawn=len(rows) == subject.n_rows,
            of_each=maps.OF_EACH,
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

    folder = files("dpmmwrap.report")
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    return environment.get_template("page.html")


def colours(subject: Subject, view: maps.Map) -> list[str]:
    """Of each cluster, such that neighbours on the map differ."""
    centres = np.zeros((subject.n_clusters, 2))
    for number, x, y in view.centres:
        centres[number] = x, y
    return spread_colours(centres) or [COLOURS[0]]


def clusters(subject: Subject, sure: Certainty, profiles: Profiles | None, palette: list[str]) -> list[Cluster]:
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
