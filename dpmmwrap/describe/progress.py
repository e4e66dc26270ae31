"""What `verbose=1` shows during a fit: a bar on a terminal and in a notebook, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dpmmwrap.describe.wording import counted

if TYPE_CHECKING:
    from dpmmwrap.sampler.settings import Progress, Settings
    from dpmmwrap.sampler.trace import Iteration

EVERY = 10
"""Iterations from one plain line to the next; among draws, a tenth of them."""


def in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


@contextlib.contextmanager
def shown_progress(verbose: int, settings: Settings) -> Iterator[Progress | None]:
    """A callable for the progress of a backend; None if nothing should be shown."""
    if not verbose:
        yield None
    elif sys.stderr.isatty() or in_notebook():
        with bar(FitPlan.of(settings, settings.n_chains), leave=True) as progress:
            yield progress
    else:
        yield partial(plain_line, settings, verbose)


def plain_line(settings: Settings, verbose: int, number: int, iteration: Iteration) -> None:
    """Print a line every few iterations of the first chain."""
    search, total = settings.max_iter, settings.total_iterations
    among_draws = max(EVERY, (total - search) // 10)
    due = number % EVERY == 0 if number <= search else (number - search) % among_draws == 0
    if due or number in (search, total) or verbose > 1:
        # If the length of the search is unknown, iterations after it are counted from its end.
        sampling = settings.stop_when_flat and number > search
        where = f"sampling, iteration {number - search}" if sampling else f"iteration {number}"
        clusters = counted(iteration.n_clusters, "cluster")
        print(f"{where}: {clusters}, log posterior {iteration.log_posterior:.1f}", flush=True)


class FitPlan(NamedTuple):
    search: int
    """The iterations of a chain's search, or the largest number of them."""
    total: int = 0
    """All iterations of a chain."""
    draws: int = 0
    thin: int = 1
    chains: int = 1
    until_flat: bool = False
    """Whether the length of the search is unknown."""

    @classmethod
    def of(cls, settings: Settings, chains: int) -> FitPlan:
        lengths = (settings.max_iter, settings.total_iterations)
        return cls(*lengths, settings.n_draws, settings.thin, chains, settings.stop_when_flat)

    @property
    def steps(self) -> int | None:
        """The iterations of all chains, as far as their number is known; None if it is not."""
        each = self.total - self.search if self.until_flat else self.total
        return each * self.chains or None

    def done(self, number: int) -> int:
        """How many of these a chain has done after `number` iterations."""
        return max(0, number - self.search) if self.until_flat else number

    def position(self, number: int, chain: int = 0) -> str:
        """Where a chain is after `number` iterations."""
        chain_words = f"chain {chain + 1} of {self.chains}, " if self.chains > 1 else ""
        if number < self.search or not self.draws:
            return f"{chain_words}iteration {number}" + ("" if self.until_flat else f"/{self.search}")
        if number == self.search:
            return f"{chain_words}warming up"
        return f"{chain_words}draw {self.draws - (self.total - number) // self.thin}/{self.draws}"

    def words(self, number: int, iteration: Iteration) -> str:
        """How a chain is doing."""
        if number == self.total and self.draws:
            return "done, summing up,"
        return f"{counted(iteration.n_clusters, 'cluster')}, log posterior {iteration.log_posterior:,.0f},"


class Chains:
    """Receives the progress of all chains, and reports on the first one that is still running."""

    def __init__(self, plan: FitPlan, tell: Callable[..., None]) -> None:
        self.plan, self.tell = plan, tell
        self.reached: dict[int, int] = {}
        self.over: set[int] = set()

    def __call__(self, number: int, iteration: Iteration) -> None:
        self.receive(0, number, iteration)

    def of_chain(self, chain: int) -> Callable[[int, Iteration], None]:
        return partial(self.receive, chain)

    def ended(self, chain: int) -> None:
        self.over.add(chain)

    def waits_for(self, words: str) -> None:
        self.tell(waiting=words)

    def receive(self, chain: int, number: int, iteration: Iteration) -> None:
        """Receive an iteration of a chain, from any thread."""
        self.reached[chain] = number
        at_work = [
            one for one, reached in sorted(self.reached.items()) if one not in self.over and reached < self.plan.total
        ]
        news: dict[str, Any] = {"completed": sum(map(self.plan.done, self.reached.values()))}
        if chain == (at_work or [chain])[0]:
            news |= {"description": self.plan.words(number, iteration), "position": self.plan.position(number, chain)}
        self.tell(**news)


@contextlib.contextmanager
def bar(plan: FitPlan, *, leave: bool = False) -> Iterator[Chains]:
    """A line that is redrawn as chains progress, with a bar if the number of steps is known."""
    known = "{desc}{postfix} |{bar:16}| {remaining} left" if plan.steps else "{desc}{postfix} {elapsed}"
    lock = threading.Lock()
    with live_line(known, plan.steps, desc=plan.position(0), leave=leave) as line:

        def tell(completed: int = 0, description: str = "", waiting: str = "", position: str = "") -> None:
            with lock:
                if position:
                    line.set_description_str(position, refresh=False)
                if waiting or description:
                    line.set_postfix_str(waiting or description, refresh=bool(waiting))
                line.update(max(0, completed - line.n))

        yield Chains(plan, tell)


def live_line(layout: str, total: int | None, **options: Any) -> Any:
    """tqdm's line on a terminal or in a notebook."""
    # It warns that a notebook without ipywidgets has a bar of text.
    with warnings.catch_warnings(action="ignore"):
        from tqdm.auto import tqdm
    # Redraw by time alone: often only the text changes.
    return tqdm(total=total, bar_format=layout, dynamic_ncols=True, miniters=0, file=sys.stderr, **options)
