"""When a search is over, and what has ended it: read from its trace."""

from __future__ import annotations

import numpy as np

from dpmmwrap.sampler.trace import Trace

WINDOW, SHORTEST_WINDOW = 30, 5
"""Iterations whose log posteriors are compared with those of as many before them; fewer in a short search."""
TINY = 1e-5
"""A rise by this share of the log posterior does not count."""
GREEDY_STEPS = 5
"""The last iterations of a search make no splits or merges and take the most likely label, as the reference's do. There
are none before draws."""


def is_flat(trace: Trace, window: int = WINDOW) -> bool:
    """Whether the log posterior has not risen for a while: not by more than it varies anyway, not by a nat, and not by
    a hundred-thousandth of itself."""
    return len(trace) >= 2 * window and not rises(trace, window, len(trace))


def still_rising(trace: Trace) -> bool:
    """Whether the search ended while the log posterior was rising, at least a nat above all that it had been before.
    What the greedy steps brought does not count."""
    end = len(trace) - GREEDY_STEPS
    window = WINDOW if end >= 2 * WINDOW else end // 4
    if window < SHORTEST_WINDOW or not rises(trace, window, end):
        return False
    values = trace.log_posterior
    return bool(values[end - window : end].max() >= values[: end - window].max() + 1.0)


def rises(trace: Trace, window: int, end: int) -> bool:
    """Whether the mean log posterior of a window that ends there is above that of the window before it."""
    last = np.array([iteration.log_posterior for iteration in trace.iterations[end - 2 * window : end]])
    before, now = last[:window], last[window:]
    return bool(now.mean() - before.mean() >= max(1.0, float(now.std()), TINY * abs(float(now.mean()))))


def stopped_by(trace: Trace, most: int, stop_when_flat: bool) -> str:
    """What ended a search that was not interrupted: it was "flat", it reached the "limit" of a search that ends when it
    is flat, or it had its "max_iter" iterations."""
    if not stop_when_flat:
        return "max_iter"
    return "flat" if len(trace) < most else "limit"
