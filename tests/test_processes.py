"""A program that does not hear its signal does not hang the suite."""

import signal
import subprocess
import sys

import pytest
from processes import running

DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"


def test_a_lost_signal_hangs_nobody() -> None:
    with running([sys.executable, "-c", DEAF], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
    assert process.returncode == -signal.SIGKILL
    with running([sys.executable, "-c", DEAF], longest=1, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        # Without the watch this would take ten minutes.
        assert process.stdout.read() in ("", "ready\n")
        assert process.wait() == -signal.SIGKILL
