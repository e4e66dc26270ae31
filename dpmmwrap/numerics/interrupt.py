"""Ctrl-C that lets the current iteration, or another step that must not be left unfinished, complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Within this context the first Ctrl-C sets `requested`, and a second one raises KeyboardInterrupt at once.

    Python delivers signals to the main thread only, so in any other thread this does nothing.
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
    """Delay the first Ctrl-C until the end of this context; a second one raises at once.

    For steps that call back from C into Python: an exception would be lost there and the incomplete result used.
    """
    interrupt = Interrupt()
    try:
        with interrupt:
            yield
    finally:
        if interrupt.requested:
            signal.raise_signal(signal.SIGINT)
