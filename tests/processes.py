"""Programs that tests start: whatever happens to a signal, they end, and so does the suite."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

LONGEST = 240
"""Seconds after which a program is killed; whoever waits for it or reads from it then goes on, and fails."""


@contextlib.contextmanager
def running(command: Sequence[object], longest: float = LONGEST, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that is killed at the end of the context if it is still there, or after a few minutes."""
    words = [str(word) for word in command]
    process = subprocess.Popen(words, text=True, **options)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            if options.get("start_new_session"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()

    watch = threading.Timer(longest, kill)
    watch.daemon = True
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        if process.poll() is None:
            kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
