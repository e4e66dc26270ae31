"""The live line of a fit: iteration or draw, clusters, log posterior, time left."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from dpmmwrap.cli.common import say_note
from dpmmwrap.describe.progress import Chains, FitPlan, bar

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.sampler.trace import Iteration

EVERY = 10.0
"""The seconds between two lines if stderr is not a terminal."""


def plan_of(model: DPMM, points: int, columns: int = 1) -> FitPlan:
    """The length of a fit of `points` rows."""
    from dpmmwrap.backends import as_backend
    from dpmmwrap.sampler.settings import Settings, chain_count, search_length

    nothing: Any = None
    # Only the lengths matter here.
    lengths = {"n_draws": model.n_draws, "thin": model.thin, **search_length(model.max_iter)}
    settings = Settings(nothing, nothing, nothing, min_cluster_age=1, seed=0, **lengths)
    julia = as_backend(model.backend).name == "julia"
    return FitPlan.of(settings, 1 if julia else chain_count(model.n_chains, model.n_draws, points, columns))


class Lines:
    """Prints a line on stderr every few seconds, for a pipe or a file."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self.due = clock() + seconds

    def tell(self, position: str = "", description: str = "", waiting: str = "", **news: Any) -> None:
        if waiting:
            click.echo(f"dpmmwrap: {waiting}", err=True)
        now = self.clock()
        if position and now >= self.due:
            self.due = now + self.seconds
            click.echo(f"dpmmwrap: {position}: {description.rstrip(',')}", err=True)


@contextlib.contextmanager
def progress_line(plan: FitPlan, *, shown: bool) -> Iterator[Callable[[int, Iteration], None] | None]:
    """A callable for `DPMM.fit(progress=…)`; None if nothing should be shown.

    It redraws a line on stderr, or writes a line every ten seconds if that is not a terminal.
    """
    if not shown:
        yield None
    elif not sys.stderr.isatty():
        yield Chains(plan, Lines(EVERY).tell)
    else:
        with bar(plan) as progress:
            yield progress


@contextlib.contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the sentences of warnings, each once. If an error follows, they are printed on stderr."""
    sentences: list[str] = []

    def collect(message: Warning | str, *arguments: Any, **options: Any) -> None:
        sentence = " ".join(str(message).split())
        if sentence not in sentences:
            sentences.append(sentence)

    with warnings.catch_warnings():
        showwarning: Any = collect
        warnings.showwarning = showwarning
        try:
            yield sentences
        except BaseException:
            for sentence in sentences:
                say_note(sentence)
            raise
