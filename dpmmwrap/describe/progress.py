"""What `verbose=1` shows during a fit: a bar on a terminal and in a notebook, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmmwrap.sampler.settings import Progress, Settings
    from dpmmwrap.sampler.trace import Iteration

EVERY = 10
"""Iterations from one plain line to the next; among draws, a tenth of them."""


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


@contextlib.contextmanager
def shown_progress(verbose: int, settings: Settings) -> Iterator[Progress | None]:
    """What a backend should tell of its iterations; None where nothing is to be shown."""
    if not verbose:
        yield None
    elif sys.stderr.isatty() or in_notebook():
        with bar(settings) as progress:
            yield progress
    else:
        yield partial(plain_line, settings, verbose)


def told(iteration: Iteration) -> str:
    clusters = "1 cluster" if iteration.n_clusters == 1 else f"{iteration.n_clusters} clusters"
    return f"{clusters}, log posterior {iteration.log_posterior:.1f}"


def plain_line(settings: Settings, verbose: int, number: int, iteration: Iteration) -> None:
    """A line now and then, of the first chain."""
    search, total = settings.max_iter, settings.total_iterations
    among_draws = max(EVERY, (total - search) // 10)
    due = number % EVERY == 0 if number <= search else (number - search) % among_draws == 0
    if due or number in (search, total) or verbose > 1:
        # Where nobody knows how long the search will be, what comes after it is counted from its end.
        sampling = settings.stop_when_flat and number > search
        index = f"sampling, iteration {number - search}" if sampling else f"iteration {number}"
        print(f"{index}: {told(iteration)}", flush=True)


class Bar:
    """Hears of all chains, from any thread, and moves one bar."""

    def __init__(self, line: Any, skipped: int = 0) -> None:
        """Iterations of a chain up to `skipped` are not counted."""
        self.line, self.skipped, self.reached, self.lock = line, skipped, dict[int, int](), threading.Lock()

    def __call__(self, number: int, iteration: Iteration) -> None:
        self.hear(0, number, iteration)

    def of_chain(self, chain: int) -> Callable[[int, Iteration], None]:
        return partial(self.hear, chain)

    def hear(self, chain: int, number: int, iteration: Iteration) -> None:
        with self.lock:
            self.line.set_postfix_str(told(iteration), refresh=False)
            # After a checkpoint the first iteration is not number 1.
            counted = max(0, number - self.skipped)
            self.line.update(counted - self.reached.get(chain, 0))
            self.reached[chain] = counted


@contextlib.contextmanager
def bar(settings: Settings) -> Iterator[Bar]:
    with warnings.catch_warnings():
        # Without ipywidgets a notebook has a bar of text.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    # How long a search is that ends when it is flat is not known: draws are, and only they are counted.
    skipped = settings.max_iter if settings.stop_when_flat and settings.n_draws else 0
    total = (settings.total_iterations - skipped) * settings.n_chains
    known = None if settings.stop_when_flat and not skipped else total
    with tqdm(total=known, unit="it", desc="dpmmwrap", dynamic_ncols=True, file=sys.stderr) as line:
        yield Bar(line, skipped)
