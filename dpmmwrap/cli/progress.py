"""The live line of a fit: iteration, clusters, log posterior, time left."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dpmmwrap.trace import Iteration


@contextlib.contextmanager
def progress_line(iterations: int, *, shown: bool) -> Iterator[Callable[[int, Iteration], None] | None]:
    """A callable for `DPMM.fit(progress=…)` that redraws a line on stderr; None where nobody would see it."""
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("iteration {task.completed}/{task.total}"),
        BarColumn(bar_width=16),
        TextColumn("{task.description}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("getting ready", total=iterations)

        def update(number: int, iteration: Iteration) -> None:
            clusters = "1 cluster" if iteration.n_clusters == 1 else f"{iteration.n_clusters} clusters"
            said = f"{clusters}, log posterior {iteration.log_posterior:,.0f},"
            line.update(task, completed=number, description=said)

        yield update


@contextlib.contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """Collects what is warned of, each sentence once, without the lines of code that raised it.

    If there is no result to say it with, it is said on stderr.
    """
    heard: list[str] = []

    def hear(message: Warning | str, *arguments: Any, **options: Any) -> None:
        sentence = " ".join(str(message).split())
        if sentence not in heard:
            heard.append(sentence)

    with warnings.catch_warnings():
        showwarning: Any = hear
        warnings.showwarning = showwarning
        try:
            yield heard
        except BaseException:
            for sentence in heard:
                click.echo(f"dpmmwrap: note: {sentence}", err=True)
            raise
