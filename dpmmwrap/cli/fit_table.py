"""The table that `dpmmwrap fit` prints: a summary in a few lines."""

from __future__ import annotations

from typing import Any

import click

from dpmmwrap.describe import facts
from dpmmwrap.describe.wording import counted

SHORT = 0.05
"""Shorter waits (in seconds) are not mentioned."""


def show(summary: dict[str, Any], source: str) -> None:
    click.echo(f"{source}: {counted(summary['points'], 'point')} {facts.width_text(summary)}")
    for name, value in rows(summary):
        click.echo(f"  {click.style(f'{name:<14}', bold=True)} {value}")
    for note in summary["notes"]:
        click.echo(f"note: {note}")


def rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the table, each a name and a text; lines without a text are left out."""
    texts, why = facts.texts(summary), summary["backend_reason"]
    reason = f" ({why})" if why.startswith("Julia is set up") else ""
    done = [f"logarithm of {', '.join(summary['logged'])}"] if summary["logged"] else []
    done += ["rows of length 1"] if summary["normalized"] else []
    done += ["standardised"] if summary["scaled"] else []
    done += [counted(summary["components"], "principal component")] if summary["components"] else []
    table = [
        ("clusters", facts.clusters_text(summary)),
        *((name, texts[name]) for name in ("sizes", "outliers", "groups", "confidence", "log posterior")),
        *(facts.diagnostics_text(summary) if summary["diagnostics"] is not None else []),
        ("NMI, ARI", f"{summary['nmi']:.3f}, {summary['ari']:.3f}" if "nmi" in summary else ""),
        ("family", texts["family"]),
        ("prior", texts["prior"]),
        *(("sensitivity", line) for line in facts.sensitivity_text(summary)),
        ("time", time(summary)),
        # Why the backend was chosen, if Julia is set up.
        ("sampler", f"{summary['backend']}{reason}, {summary['init']} subclusters, seed {summary['seed']}"),
        ("missing", texts["missing"]),
        ("left out", f"{counted(summary['skipped'], 'row')} with missing values" if summary["skipped"] else ""),
        ("prepared", ", ".join(done)),
        ("data", f"converted from {summary['converted_from']} to float32, once" if summary["converted_from"] else ""),
        ("interrupted", "this is the result so far" if summary["interrupted"] else ""),
    ]
    return [(name, words) for name, words in table if words]


def time(summary: dict[str, Any]) -> str:
    """The duration, and separately that of the start of Julia and of the network."""
    startup = summary["startup_seconds"]
    steps = ["start and compile Julia"] if summary["backend"] == "julia" else []
    steps += ["load the network"] if summary["init"] == "splitnet" else []
    before = f"; {startup:.1f} s to {' and '.join(steps)}" if steps and startup >= SHORT else ""
    return f"{summary['seconds']:.1f} s, {facts.search_text(summary)}{before}"
