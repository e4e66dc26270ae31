"""The live line of a fit: iteration, clusters, log posterior, time left."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from dpmmwrap.trace import Iteration


@contextlib.contextmanager
def progress_line(iterations: int, *, shown: bool) -> Iterator[Callable[[int, Iteration], None] | None]:
    """A callable for `DPMM.fit(progress=…)` that redraws a line on stderr; None where nobody would see it."""
    with plain_warnings():
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
                said = f"{iteration.n_clusters} clusters, log posterior {iteration.log_posterior:,.0f},"
                line.update(task, completed=number, description=said)

            yield update


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Say a warning as one line on stderr, without the line of code that raised it."""

    def say(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        click.echo(f"dpmmwrap: note: {message}", err=True)

    with warnings.catch_warnings():
        showwarning: Any = say
        warnings.showwarning = showwarning
        yield
