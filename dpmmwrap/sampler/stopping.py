"""When a search stops, and why: judged from its trace."""

from __future__ import annotations

import numpy as np

from dpmmwrap.sampler.trace import Trace

WINDOW, SHORTEST_WINDOW = 30, 5
"""Length of the windows of iterations whose log posteriors are compared; shorter in a short search."""
TINY = 1e-5
"""Relative rise of the log posterior that does not count."""
GREEDY_STEPS = 5
"""The last iterations of a search take the most likely labels and make no splits or merges, as in the reference
package. There are none if draws follow."""


def is_flat(trace: Trace, window: int = WINDOW) -> bool:
    """Whether the mean log posterior has risen by less than a nat, its standard deviation, or 1e-5 of its value,
    whichever is the largest."""
    return len(trace) >= 2 * window and not rises(trace, window, len(trace))


def still_rising(trace: Trace) -> bool:
    """Whether the search ended while the log posterior was rising, at least a nat above all earlier values. Gains from
    the greedy steps do not count."""
    end = len(trace) - GREEDY_STEPS
    window = WINDOW if end >= 2 * WINDOW else end // 4
    if window < SHORTEST_WINDOW or not rises(trace, window, end):
        return False
    values = trace.log_posterior
    return bool(values[end - window : end].max() >= values[: end - window].max() + 1.0)


def rises(trace: Trace, window: int, end: int) -> bool:
    """Whether the mean log posterior of the window that ends at `end` exceeds that of the window before it."""
    last = np.array([iteration.log_posterior for iteration in trace.iterations[end - 2 * window : end]])
    before, now = last[:window], last[window:]
    return bool(now.mean() - before.mean() >= max(1.0, float(now.std()), TINY * abs(float(now.mean()))))


def stopped_by(trace: Trace, most: int, stop_when_flat: bool) -> str:
    """What ended a search that was not interrupted: "flat", "limit" (a search that stops when it is flat, but never
    was), or "max_iter"."""
    if not stop_when_flat:
        return "max_iter"
    return "flat" if len(trace) < most else "limit"
