"""Ctrl-C that lets the current iteration, or what must not be left half done, finish."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Within this context the first Ctrl-C sets `requested`; a second one raises KeyboardInterrupt at once.

    Signals reach the main thread only: in any other thread this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Within this context the first Ctrl-C waits until the end, and then does what it would have done; a second raises.

    For steps that call back from C into Python: an exception is lost there, and what it has cut short is used.
    """
    interrupt = Interrupt()
    try:
        with interrupt:
            yield
    finally:
        if interrupt.requested:
            signal.raise_signal(signal.SIGINT)
