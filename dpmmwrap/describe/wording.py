"""Numbers as people read them."""

from __future__ import annotations

import math


def counted(number: int, what: str) -> str:
    """1 cluster, 2 clusters."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def share(value: float) -> str:
    """A percentage. Only 0 is shown as 0%, and only 1 as 100%."""
    if 0 < value < 0.001:
        return "<0.1%"
    if 0.999 < value < 1:
        return ">99.9%"
    percent = 100 * value
    exact = percent < 10 or percent > 99
    return f"{percent:.1f}%" if exact and percent != round(percent) else f"{percent:.0f}%"


def number(value: float, digits: int = 4) -> str:
    """The digits that matter, with a true minus sign."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        text = f"{value:.{digits - 1}e}"
    elif size >= 10**digits / 10:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")
