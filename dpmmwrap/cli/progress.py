"""The live line of a fit: iteration or draw, clusters, log posterior, time left."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.sampler.trace import Iteration

EVERY = 10.0
"""Seconds from one line to the next where there is no terminal."""
WIDE = 100
"""Columns of a terminal on which there is room for everything."""


class FitPlan(NamedTuple):
    """What a fit is going to do."""

    search: int
    """Iterations of a chain's search, or the most of them."""
    total: int = 0
    """Iterations of a chain in all."""
    draws: int = 0
    thin: int = 1
    chains: int = 1
    until_flat: bool = False
    """Whether nobody knows how long the search will be."""

    @classmethod
    def of(cls, model: DPMM, points: int, columns: int = 1) -> FitPlan:
        from dpmmwrap.backends import as_backend
        from dpmmwrap.sampler.settings import Settings, chain_count, search_length

        nothing: Any = None
        # Only its lengths are asked for.
        search = search_length(model.max_iter)
        settings = Settings(
            nothing, nothing, nothing, min_cluster_age=1, seed=0, n_draws=model.n_draws, thin=model.thin, **search
        )
        chains = (
            1
            if as_backend(model.backend).name == "julia"
            else chain_count(model.n_chains, model.n_draws, points, columns)
        )
        lengths = (settings.max_iter, settings.total_iterations)
        return cls(*lengths, model.n_draws, model.thin, chains, settings.stop_when_flat)

    @property
    def steps(self) -> int | None:
        """Iterations of all chains whose number is known beforehand; None if there are none."""
        own = self.total - self.search if self.until_flat else self.total
        return own * self.chains or None

    def done(self, number: int) -> int:
        """How many of these a chain has done after `number` iterations."""
        return max(0, number - self.search) if self.until_flat else number

    def place(self, number: int, chain: int = 0) -> str:
        """Where a chain is after `number` iterations."""
        own = f"chain {chain + 1} of {self.chains}, " if self.chains > 1 else ""
        if number < self.search or not self.draws:
            return f"{own}iteration {number}" + ("" if self.until_flat else f"/{self.search}")
        if number == self.search:
            return f"{own}warming up"
        return f"{own}draw {self.draws - (self.total - number) // self.thin}/{self.draws}"

    def words(self, number: int, iteration: Iteration) -> str:
        """How a chain is doing."""
        if number == self.total and self.draws:
            return "done, summing up,"
        clusters = "1 cluster" if iteration.n_clusters == 1 else f"{iteration.n_clusters} clusters"
        return f"{clusters}, log posterior {iteration.log_posterior:,.0f},"


class Chains:
    """Hears of all chains of a fit, and tells of the first that is at work."""

    def __init__(self, plan: FitPlan, tell: Callable[..., None]) -> None:
        self.plan, self.tell = plan, tell
        self.reached: dict[int, int] = {}
        self.over: set[int] = set()

    def __call__(self, number: int, iteration: Iteration) -> None:
        self.hear(0, number, iteration)

    def of_chain(self, chain: int) -> Callable[[int, Iteration], None]:
        return partial(self.hear, chain)

    def ended(self, chain: int) -> None:
        self.over.add(chain)

    def waits_for(self, words: str) -> None:
        self.tell(waiting=words)

    def hear(self, chain: int, number: int, iteration: Iteration) -> None:
        """What a chain says may come from any thread."""
        self.reached[chain] = number
        at_work = [
            one for one, reached in sorted(self.reached.items()) if one not in self.over and reached < self.plan.total
        ]
        news: dict[str, Any] = {"completed": sum(map(self.plan.done, self.reached.values()))}
        if chain == (at_work or [chain])[0]:
            news |= {"description": self.plan.words(number, iteration), "place": self.plan.place(number, chain)}
        self.tell(**news)


class Lines:
    """A line on stderr now and then, for a pipe or a file."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self.due = clock() + seconds

    def tell(self, place: str = "", description: str = "", waiting: str = "", **news: Any) -> None:
        if waiting:
            click.echo(f"dpmmwrap: {waiting}", err=True)
        now = self.clock()
        if place and now >= self.due:
            self.due = now + self.seconds
            click.echo(f"dpmmwrap: {place}: {description.rstrip(',')}", err=True)


@contextlib.contextmanager
def live_line(*columns: str, total: int | None, width: int = 16, **fields: Any) -> Iterator[Callable[..., None]]:
    """A line on a terminal's stderr that is redrawn whenever what this yields is called; it goes at the end.

    A column is a text, or one of the words spinner, bar, elapsed and left.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TimeElapsedColumn, TimeRemainingColumn

    kinds: dict[str, tuple[Any, ...]] = {
        "spinner": (SpinnerColumn(),),
        "bar": (BarColumn(bar_width=width),),
        "elapsed": (TimeElapsedColumn(),),
        "left": (TimeRemainingColumn(compact=True), "left"),
    }
    parts = [part for column in columns for part in kinds.get(column, (column,))]
    with Progress(*parts, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("getting ready", total=total, **fields)
        yield partial(line.update, task)


@contextlib.contextmanager
def progress_line(plan: FitPlan, *, shown: bool) -> Iterator[Callable[[int, Iteration], None] | None]:
    """A callable for `DPMM.fit(progress=…)` that redraws a line on stderr; where that is no terminal, it writes a line
    every ten seconds. None where nothing is to be seen."""
    if not shown:
        yield None
        return
    if not sys.stderr.isatty():
        yield Chains(plan, Lines(EVERY).tell)
        return
    from rich.console import Console

    # The number of the chain takes the bar's place where the line would be too long.
    bar = ["bar"] if plan.chains == 1 or Console(stderr=True).width >= WIDE else []
    columns = ["spinner", "{task.fields[place]}", *bar, "{task.description}", "left" if plan.steps else "elapsed"]
    with live_line(*columns, total=plan.steps, place=plan.place(0)) as update:

        def tell(waiting: str = "", **news: Any) -> None:
            update(**(news | {"description": waiting} if waiting else news))

        yield Chains(plan, tell)


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
