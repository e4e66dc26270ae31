"""Trains the weights that are shipped in dpmmwrap/splitnet/weights: one network, for all dimensions.

    python scripts/train_weights.py

It is one command, printed before it runs; a run that was stopped goes on where it was. A step takes about a tenth of a
second of one core; training was done with one thread (OMP_NUM_THREADS=1). The weights depend on the seed, the number of
steps and the machine (sums are ordered differently on other processors). The model card has all of these, the minutes
that it took, and how the ARI rose.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

WEIGHTS = Path(__file__).parents[1] / "dpmmwrap" / "splitnet" / "weights" / "splitnet.safetensors"
STEPS, BATCH = 13_000, 16


def command() -> list[str]:
    """The exact command behind the weights."""
    words = ["train", "--steps", str(STEPS), "--batch", str(BATCH), "--seed", "0", "--device", "cpu"]
    words += ["--out", str(WEIGHTS)]
    if Path(f"{WEIGHTS}.checkpoint").exists():
        words.append("--resume")
    return [sys.executable, "-m", "dpmmwrap", *words]


if __name__ == "__main__":
    print(shlex.join(command()), flush=True)
    subprocess.run(command(), check=True)
