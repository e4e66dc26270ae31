"""The folder of a battery: tables, a figure, and the words around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import NamedTuple

from dpmmwrap.describe import plotting
from dpmmwrap.evaluation.baselines import BIC, OWN_PRIOR, SCALED, SILHOUETTE
from dpmmwrap.evaluation.battery import OURS
from dpmmwrap.evaluation.battery_figure import battery_figure
from dpmmwrap.evaluation.battery_tables import (
    behind_table,
    long_table,
    means_table,
    methods_in,
    published_table,
    sets_table,
)
from dpmmwrap.evaluation.experiments import TABLE, Plan
from dpmmwrap.evaluation.figures import save_both
from dpmmwrap.evaluation.pages import Picture, Report, Section, write_report
from dpmmwrap.evaluation.report import NO_MATPLOTLIB
from dpmmwrap.evaluation.rivals import LEAST_CLUSTER, POINTS_PER_COMPONENT
from dpmmwrap.evaluation.samplers import DEFAULTS
from dpmmwrap.evaluation.scores import CLOSE_NATS, CLOSE_SHARE, Score, mean_ranks, scores_of
from dpmmwrap.evaluation.sets import Published
from dpmmwrap.evaluation.store import Store
from dpmmwrap.evaluation.summary import Table
from dpmmwrap.files import write_csv

ABOUT = {
    OURS: "DPMM with default settings; names behind a hyphen change one of them. Sparse counts are multinomial.",
    "EM-GMM": "EM-GMM: scikit-learn's GaussianMixture, full covariances, told the number of classes.",
    OWN_PRIOR: f"{OWN_PRIOR}: scikit-learn's BayesianGaussianMixture with its default prior and stopping rule.",
    BIC: f"{BIC}: scikit-learn's GaussianMixture, full or diagonal, with the best BIC.",
    "K-means": "K-means: scikit-learn's, told the number of classes; counts as tf-idf.",
    SILHOUETTE: f"{SILHOUETTE}: the number of clusters with the highest mean silhouette; counts as tf-idf.",
    "HDBSCAN": f"HDBSCAN: scikit-learn's, clusters of {LEAST_CLUSTER} points or more; noise counts as one cluster.",
}


class Tables(NamedTuple):
    """What a terminal shows of a battery."""

    sets: Table
    means: Table


def report_battery(
    folder: Path, store: Store, plan: Plan, command: str, groups: dict[str, tuple[str, ...]], published: Published
) -> Tables:
    """Write sets.csv, means.csv, the figure, report.html and report.md."""
    scores = scores_of(store.finished(TABLE), store.kept(), groups)
    ranks = mean_ranks(scores)
    means, sets = means_table(scores, ranks), sets_table(scores)
    write_scores(folder / "sets.csv", scores)
    write_table(folder / "means.csv", means)
    words = ["Mean over the sets of a battery of each method's ARI, which is the median of its runs on a set."]
    sections = [about(plan, scores), Section("Batteries", words, means)]
    if plotting.available():
        file = save_both(folder, "battery", battery_figure(scores, ranks))
        caption = "ARI by set and method, and mean ranks. Hollow dots are told the number of classes."
        sections[1].pictures.append(Picture(file, caption))
    sections += where_behind(scores)
    sections += beside_published(scores, published)
    sections.append(Section("Sets", ["ARI and, in brackets, the number of clusters found."], sets))
    sections.append(
        Section("Sets and methods", [MEASURES, *posterior_words(scores), *problems(scores)], long_table(scores))
    )
    count = len({entry.data for entry in scores})
    write_report(folder, Report(f"A battery of {plotting.counted(count, 'set')}", command, sections))
    return Tables(sets, means)


MEASURES = (
    "Medians over runs. The log posterior is that of the method's own model; beside it stands how many nats it is "
    "below the best one of the same set and model that any run in this folder has reached. Every method runs on one "
    "thread."
)


def about(plan: Plan, scores: Sequence[Score]) -> Section:
    """What was run, on what, and what could not be."""
    methods = methods_in(scores)
    runs = max(entry.runs for entry in scores)
    words = [
        f"{plotting.counted(runs, 'run')} of each method on each set{'' if runs == 1 else '; medians are reported'}."
    ]
    words += [ABOUT[name] for name in dict.fromkeys(OURS if name in DEFAULTS else name for name in methods)]
    scaled = [name for name in methods if name in SCALED]
    if scaled:
        words.append(f"{', '.join(scaled)}: columns scaled to variance one. The others get the points as they are.")
    if OWN_PRIOR in methods:
        most = plan.runs[0].settings.upper_bound
        words.append(f"DPGMM may use up to {most} clusters, and no more than one for {POINTS_PER_COMPONENT} points.")
    words += sample_words(scores)
    missing = [] if plotting.available() else [NO_MATPLOTLIB]
    return Section("What was run", [*words, *(f"{note}." for note in plan.notes), *missing])


def sample_words(scores: Sequence[Score]) -> list[str]:
    """Which sets were too large."""
    cut = {
        entry.data: f"{entry.data} ({entry.points:,} of {entry.total:,})"
        for entry in scores
        if entry.points < entry.total
    }
    return [f"A random sample, always the same one, of the points of: {', '.join(cut.values())}."] if cut else []


def where_behind(scores: Sequence[Score]) -> list[Section]:
    table = behind_table(scores)
    words = [f"Where another method's ARI is furthest above that of {OURS}."]
    return [] if table is None else [Section(f"Where {OURS} is behind", words, table)]


def beside_published(scores: Sequence[Score], published: Published) -> list[Section]:
    table = published_table(scores, published)
    words = ["Scores from index.csv, on all points of a set and as others have scaled them."]
    return [] if table is None else [Section("Beside published scores", words, table)]


def posterior_words(scores: Sequence[Score]) -> list[str]:
    """How often our default comes close to the best log posterior known."""
    ours = [entry for entry in scores if entry.method == OURS and entry.runs]
    if not ours:
        return []
    close, runs = sum(entry.close for entry in ours), sum(entry.runs for entry in ours)
    near = f"within {CLOSE_NATS:g} nats or {100 * CLOSE_SHARE:g}% of the best one known"
    return [f"{close} of {plotting.counted(runs, 'run')} of {OURS} end {near}."]


def problems(scores: Sequence[Score]) -> list[str]:
    return [f"{entry.method} gave up on {entry.data}: {entry.problem}." for entry in scores if entry.problem]


def write_scores(path: Path, scores: Sequence[Score]) -> None:
    """A row per set and method."""
    rows = [asdict(entry) for entry in scores]
    write_csv(path, {field.name: [row[field.name] for row in rows] for field in fields(Score)})


def write_table(path: Path, table: Table) -> None:
    write_csv(path, {name: [line[place] for line in table.lines] for place, name in enumerate(table.header)})
