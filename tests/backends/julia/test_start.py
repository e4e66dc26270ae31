"""How Julia is started, with a module in juliacall's place. None of this starts Julia."""

import subprocess
import sys
from pathlib import Path

JULIACALL = """
import signal

print("it begins to start", flush=True)
signal.raise_signal(signal.SIGINT)
print("it has started", flush=True)


class Main:
    @staticmethod
    def seval(code):
        return "the bridge" if code.startswith("import") else print
"""
TWICE = """
from dpmmwrap.backends import julia

julia.julia_setup.find = lambda: type("Found", (), {"missing": None})
try:
    julia.start_julia()
except KeyboardInterrupt:
    print("Ctrl-C")
print(julia.start_julia())
"""


def test_ctrl_c_waits_until_julia_has_started(tmp_path: Path) -> None:
    """What is left of a start that was cut short would break every later fit of the process."""
    (tmp_path / "juliacall.py").write_text(JULIACALL)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{TWICE}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    said = [line for line in done.stdout.splitlines() if "DPMMWrapBridge" not in line]
    assert said == ["it begins to start", "it has started", "Ctrl-C", "the bridge"], done.stderr
