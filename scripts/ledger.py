"""The ledger: everything we can fit, with default settings, and what rose and what fell against docs/ledger.csv.

    python scripts/ledger.py --jobs 2                  everything; Ctrl-C, and the same command goes on where it stopped
    python scripts/ledger.py --small --seeds 1         the part that the tests run
    python scripts/ledger.py --only 'sipu_*'           some sets (patterns, separated by commas); --kind cells,generate
    python scripts/ledger.py --options covariance_type=full          other settings, against the same figures
    python scripts/ledger.py --starts                  also other covariance types, and begun with the classes:
                                                       they only raise the best evidence that is known
    python scripts/ledger.py --jobs 2 --write          make the result the committed figures, docs/ledger.csv

Figures are medians over the seeds, noise is the range of the ARI over them. A row has risen or fallen if its ARI has
by more than the noise of the committed row and .02. Public sets have at most 4,000 rows; names that end in /10 are
the same sets at a tenth of their rows. Each fit is kept (--cache) with a digest of the package's sources, so that only
what may have changed is fitted again. Without the folder of public sets (--data) the rest runs.
"""

from __future__ import annotations

import argparse
import ast
import csv
import fnmatch
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ledger_fits import MEASURES, Cache, Fit, Record, complete, source_digest
from ledger_sets import Entry, all_entries

from dpmmwrap.evaluation.samplers import TRUTH

ROOT = Path(__file__).resolve().parents[1]
COMMITTED = ROOT / "docs" / "ledger.csv"
COLUMNS = (
    *("name", "kind", "rows", "dim", "classes", "family", "clusters", "ari", "nmi", "groups_ari", "oracle", "share"),
    *("log_evidence", "best_evidence", "cpu_seconds", "covariance_type", "noise", "notes", "problem"),
)
WORDS = ("name", "kind", "family", "covariance_type", "problem")
DIGITS = {"log_evidence": 1, "best_evidence": 1, "cpu_seconds": 2, "clusters": 1, "notes": 1}
"""Decimals of the figures; others have four."""
SLACK = 0.02
"""What an ARI may change beyond the noise of three seeds."""
SHARE = 0.97
"""Of the oracle: as good as can be hoped for."""
CLOSE_NATS, CLOSE_SHARE = 10.0, 0.001
STARTS: tuple[dict[str, Any], ...] = (
    {"covariance_type": "full"},
    {"covariance_type": "diag"},
    {"covariance_type": "spherical"},
    {"init_clusters": "many"},
    {"init_clusters": TRUTH},
)
SMALL = (
    *("d1_k3_n300_ball", "d2_k5_n100_ball", "d2_k10_n1000_ellipsoid", "d2_k10_n3000_ball_power_noise"),
    *("d3_k8_n1000_axes", "d5_k1_n3000_ellipsoid", "d5_k5_n500_ball", "d10_k3_n1000_ellipsoid", "d20_k5_n1000_ball"),
    *("hundred_curve", "hundred_grid", "generate_2_20_50_1/10", "generate_5_40_10_1/10", "generate_10_20_10_3/10"),
    *("iris", "wine", "fcps_hepta", "fcps_lsun", "sipu_r15", "sipu_compound", "graves_line", "wut_x1", "uci_ecoli"),
    *("olive_region3", "scmix_celseq2_5cl_pca20", "g2mg_2_30", "h2mg_2_10", "text_gsdmm_Tweet/10"),
)
"""Every kind of data, in less than two minutes of one core."""


def main(given: Sequence[str] | None = None) -> int:
    arguments = parse(given)
    options = options_in(arguments.options)
    entries = wanted(all_entries(arguments.data), arguments)
    cache, digest = Cache(arguments.cache), source_digest()
    fits = [Fit(entry, seed, options) for seed in range(arguments.seeds) for entry in entries]
    others = [Fit(entry, 0, start) for entry in entries for start in starts_for(entry)] if arguments.starts else []
    known = sum(cache.get(fit, digest) is not None for fit in (*fits, *others))
    print(f"{len(entries)} rows, {len(fits) + len(others)} fits, {known} of them known (program {digest})", flush=True)
    complete([*fits, *others], cache, arguments.jobs, arguments.timeout, digest, announce)
    committed = read_table(arguments.against)
    rows = [row_of(entry, fits_of(entry, fits, cache, digest), cache, committed) for entry in entries]
    print(*summary(rows), *differences(rows, committed), sep="\n")
    if arguments.out:
        write_table(arguments.out, rows)
    if arguments.write:
        # Rows that were not run now stay as they were.
        write_table(COMMITTED, list({**read_table(COMMITTED), **{row["name"]: row for row in rows}}.values()))
    return 1 if arguments.strict and any(change.fell for change in changes(rows, committed)) else 0


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="has public/*.npz; default: ../shared/data")
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="patterns of names, separated by commas")
    parser.add_argument("--kind", default="", help="kinds, separated by commas")
    parser.add_argument("--small", action="store_true", help="the part that the tests run")
    parser.add_argument("--options", default="", help="settings, as in covariance_type=full,init=kmeans")
    parser.add_argument("--starts", action="store_true", help="other settings and starts, for the best evidence")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds of processor time that a fit may take")
    parser.add_argument(
        "--cache", type=Path, default=ROOT / ".ledger" / "fits.jsonl", help="where single fits are kept"
    )
    parser.add_argument("--against", type=Path, default=COMMITTED, help="the table to compare with")
    parser.add_argument("--out", type=Path, help="write the table here")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/ledger.csv")
    parser.add_argument("--strict", action="store_true", help="return 1 if a row fell")
    return parser.parse_args(given)


def data_folder() -> Path:
    """Beside the clone, unless the environment says where: continuous integration works in a copy."""
    return Path(os.environ.get("DPMMWRAP_DATA") or ROOT.parent / "shared" / "data")


def options_in(text: str) -> dict[str, Any]:
    """Settings as they are written on the command line: numbers as numbers, the rest as words."""
    return {name: value_in(value) for name, _, value in (part.partition("=") for part in text.split(",") if part)}


def value_in(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def wanted(entries: Iterable[Entry], arguments: argparse.Namespace) -> list[Entry]:
    patterns, kinds = (part.split(",") if part else [] for part in (arguments.only, arguments.kind))
    return [
        entry
        for entry in entries
        if (not arguments.small or entry.name in SMALL)
        and (not kinds or entry.kind in kinds)
        and (not patterns or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns))
    ]


def starts_for(entry: Entry) -> list[dict[str, Any]]:
    counts = entry.kind == "counts" or entry.name.startswith("text_")
    return [start for start in STARTS if not (counts and "covariance_type" in start)]


def announce(fit: Fit, record: Record) -> None:
    told = record["problem"] or f"{record['clusters']} of {record['classes']}, ARI {record['ari']:.2f}"
    settings = " ".join(f"{name}={value}" for name, value in fit.options.items())
    print(f"  {fit.entry.name} {settings} seed {fit.seed}: {told}, {record['cpu_seconds']:.1f} s", flush=True)


def fits_of(entry: Entry, fits: Iterable[Fit], cache: Cache, digest: str) -> list[Record]:
    found = [cache.records.get(tuple(fit.identity(digest).values())) for fit in fits if fit.entry is entry]
    return [record for record in found if record is not None]


Row = dict[str, Any]
Table = dict[str, Row]


def row_of(entry: Entry, records: Sequence[Record], cache: Cache, committed: Table) -> Row:
    """Medians over the seeds; of words, those of the first seed that was fitted."""
    good = [record for record in records if not record["problem"]]
    first = (good or records)[0]
    row: Row = {name: first[name] for name in ("rows", "dim", "classes", "family", "covariance_type")}
    row |= {name: median(record[name] for record in good) for name in MEASURES}
    known = (cache.best_evidence(entry), committed.get(entry.name, {}).get("best_evidence", math.nan))
    row["best_evidence"] = max((value for value in known if not math.isnan(value)), default=math.nan)
    row["share"] = row["ari"] / row["oracle"]
    row["noise"] = float(np.ptp([record["ari"] for record in good])) if good else math.nan
    row["problem"] = next((record["problem"] for record in records if record["problem"]), "")
    row |= {"name": entry.name, "kind": entry.kind}
    return {name: row[name] for name in COLUMNS}


def median(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.median(found)) if found else math.nan


def read_table(path: Path) -> Table:
    """By name; a table that does not exist has no rows."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["name"]: {name: understood(name, row[name]) for name in row} for row in csv.DictReader(file)}


def understood(name: str, value: str) -> Any:
    return value if name in WORDS else float(value or "nan")


def write_table(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows([written(name, row[name]) for name in COLUMNS] for row in rows)


def written(name: str, value: Any) -> str:
    if name in WORDS:
        return str(value)
    return "" if math.isnan(value) else f"{round(value, DIGITS.get(name, 4)):g}" if abs(value) < 1e5 else f"{value:.1f}"


class Change(NamedTuple):
    """A row that is not what it was."""

    name: str
    before: Row
    now: Row

    @property
    def by(self) -> float:
        """In ARI; a row that could not be fitted has none."""
        return scored(self.now) - scored(self.before)

    @property
    def fell(self) -> bool:
        return self.by < 0


def scored(row: Row) -> float:
    return 0.0 if math.isnan(row["ari"]) else float(row["ari"])


def changes(rows: Iterable[Row], committed: Table) -> list[Change]:
    """Rows whose ARI has changed by more than the noise that was committed, those that fell most first."""
    both = [Change(row["name"], committed[row["name"]], row) for row in rows if row["name"] in committed]
    return sorted((one for one in both if abs(one.by) > allowed(one.before)), key=lambda one: one.by)


def allowed(row: Row) -> float:
    return SLACK + (0.0 if math.isnan(row["noise"]) else float(row["noise"]))


def differences(rows: Sequence[Row], committed: Table) -> list[str]:
    if not committed:
        return ["", "There are no figures to compare with."]
    found = changes(rows, committed)
    told = [f"{'fell' if one.fell else 'rose'}  {one.name}: ARI {before_and_now(one)}" for one in found]
    fell, shared = sum(one.fell for one in found), [row for row in rows if row["name"] in committed]
    before = sum(value_or_zero(committed[row["name"]]["cpu_seconds"]) for row in shared)
    now = sum(value_or_zero(row["cpu_seconds"]) for row in shared)
    counted = f"{fell} fell, {len(found) - fell} rose, {len(shared) - len(found)} are as they were"
    return ["", *told, f"Of {len(shared)} rows {counted}. Seconds: {before:.0f} before, {now:.0f} now."]


def before_and_now(change: Change) -> str:
    def shown(row: Row) -> str:
        return row["problem"] or f"{row['ari']:.2f} ({row['clusters']:.0f} clusters, {row['covariance_type']})"

    return f"{shown(change.before)} -> {shown(change.now)}"


def value_or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def summary(rows: Sequence[Row]) -> list[str]:
    """Kind by kind, and what stands out."""
    by_kind: Mapping[str, list[Row]] = {kind: [r for r in rows if r["kind"] == kind] for kind in kinds_of(rows)}
    lines = ["", f"{'kind':10} rows   ARI   NMI groups  seconds"]
    for kind, those in {**by_kind, "all": list(rows)}.items():
        means = [mean(row[name] for row in those) for name in ("ari", "nmi", "groups_ari")]
        seconds = sum(value_or_zero(row["cpu_seconds"]) for row in those)
        lines.append(f"{kind:10} {len(those):4} {means[0]:5.3f} {means[1]:5.3f}  {means[2]:5.3f} {seconds:8.1f}")
    for kind in ("cells", "generate", "hundred"):
        if those := by_kind.get(kind, []):
            good = sum(row["share"] >= SHARE for row in those)
            lines.append(f"{kind}: {good} of {len(those)} at {SHARE} of the oracle or more")
    if those := by_kind.get("generate", []):
        near = sum(abs(row["clusters"] - row["classes"]) <= 1 for row in those)
        lines.append(f"generate: {near} of {len(those)} with the number of clusters within 1")
    low = sorted((row for row in rows if row["share"] < SHARE), key=lambda row: row["share"])
    lines += [f"  short of the oracle: {row['name']} {told(row)}, oracle {row['oracle']:.2f}" for row in low]
    short = sorted((row for row in rows if behind(row) > closeness(row)), key=behind, reverse=True)
    lines.append(f"{len(short)} rows have less than the best evidence known")
    lines += [f"  behind: {row['name']} by {behind(row):,.0f} nats" for row in short[:10]]
    slow = sorted(rows, key=lambda row: -value_or_zero(row["cpu_seconds"]))[:5]
    lines.append("slowest: " + ", ".join(f"{row['name']} {value_or_zero(row['cpu_seconds']):.0f} s" for row in slow))
    return lines + [f"  not fitted: {row['name']}: {row['problem']}" for row in rows if row["problem"]]


def told(row: Row) -> str:
    return f"ARI {row['ari']:.2f}, {row['clusters']:.0f} of {row['classes']:.0f} clusters, {row['covariance_type']}"


def kinds_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["kind"] for row in rows))


def mean(values: Iterable[float]) -> float:
    """Of those that are known."""
    found = [value for value in values if not math.isnan(value)]
    return float(np.mean(found)) if found else math.nan


def behind(row: Row) -> float:
    return value_or_zero(row["best_evidence"] - row["log_evidence"])


def closeness(row: Row) -> float:
    return max(CLOSE_NATS, CLOSE_SHARE * abs(value_or_zero(row["best_evidence"])))


if __name__ == "__main__":
    sys.exit(main())
