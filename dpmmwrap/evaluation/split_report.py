"""The folder of `dpmmwrap evaluate splits`: a table of starts, and the splits themselves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpmmwrap.describe import plotting
from dpmmwrap.evaluation.figures import SplitExample, save_both, splits_figure
from dpmmwrap.evaluation.pages import Picture, Report, Section, write_report
from dpmmwrap.evaluation.splits import START, SplitResult, splitters
from dpmmwrap.evaluation.summary import Table
from dpmmwrap.files import write_csv
from dpmmwrap.splitnet.synthesis import LEVELS, draw_test_sets

EXAMPLES = 2
"""Sets of each level in the figure: the first ones of the table's."""
SHOWN = {"2-means": "2-means", START: "SplitNet start"}


def write_splits(
    folder: Path, results: Sequence[SplitResult], dim: int, sets: int, seed: int, weights: Path | None, command: str
) -> None:
    """results.csv, the figure, report.html and report.md."""
    columns = {name: [getattr(row, name) for row in results] for name in vars(results[0])}
    same = {"dim": dim, "sets": sets, "seed": seed, "weights": "shipped" if weights is None else str(weights)}
    write_csv(folder / "results.csv", {name: [value] * len(results) for name, value in same.items()} | columns)
    words = [
        f"{sets} sets of each of the paper's levels, in {dim} dimensions: pairs of Gaussians. "
        "ARI is against the truth; H > 1 is the share of splits that the sampler would accept at once; "
        "milliseconds are per set; the calibration error says how far probabilities are from how often they come true. "
        "The oracle knows the true parameters."
    ]
    section = Section("Results", words, levels_table(results))
    if plotting.available() and dim > 1:
        examples = draw_examples(dim, sets, seed, weights)
        file = save_both(folder, "splits", splits_figure(examples))
        seen = "" if dim == 2 else ", on two principal components"
        section.pictures.append(Picture(file, f"The first sets of each level{seen}."))
    write_report(folder, Report(f"Splits in {dim} dimensions", command, [section]))


def levels_table(results: Sequence[SplitResult]) -> Table:
    cells = {(row.method, row.level): row for row in results}
    header = ["method"]
    for level in LEVELS:
        header += [f"{level}: ARI", f"{level}: H > 1", f"{level}: ms"]
    header.append("calibration error")
    lines = []
    for method in dict.fromkeys(row.method for row in results):
        line = [method]
        errors = [cells[method, level].calibration for level in LEVELS]
        for level in LEVELS:
            row = cells[method, level]
            spent = "" if np.isnan(row.milliseconds) else f"{row.milliseconds:.1f}"
            line += [f"{row.ari:.2f}", f"{row.positive:.2f}", spent]
        line.append("" if np.isnan(errors).any() else f"{np.mean(errors):.3f}")
        lines.append(line)
    return Table(header, lines)


def draw_examples(dim: int, sets: int, seed: int, weights: Path | None) -> list[SplitExample]:
    """The first sets of each level, drawn as `compare_splits` draws them."""
    from sklearn.metrics import adjusted_rand_score

    methods = splitters(dim, seed, weights, parts=False)
    examples = []
    for number, level in enumerate(LEVELS):
        _, X, truth = draw_test_sets(np.random.default_rng((seed, dim, number)), dim, level, sets)
        few = X[: min(EXAMPLES, sets)]
        found = {title: methods[name](few.astype(np.float32)) for name, title in SHOWN.items()}
        for i, points in enumerate(few):
            labellings = {"truth": truth[i]}
            for title, labels in found.items():
                agreement = adjusted_rand_score(truth[i], labels[i])
                # Which side is called 0 does not matter: the colours follow the truth's as far as they can.
                turned = (labels[i] == truth[i]).mean() < 0.5
                labellings[f"{title}: ARI {agreement:.2f}"] = 1 - labels[i] if turned else labels[i]
            examples.append(SplitExample(level, points, labellings))
    return examples
