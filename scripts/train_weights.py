"""Trains the weights that are shipped in dpmmwrap/splitnet/weights, one dimension after the other.

    python scripts/train_weights.py            # all dimensions
    python scripts/train_weights.py 2 10       # some

Each is one command, printed before it runs; a run that was stopped goes on where it was. On two cores of a shared
machine a thousand steps take about six minutes. The weights depend on the seed, the number of steps and the machine
(the order of sums differs between processors); their quality does not.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

WEIGHTS = Path(__file__).parents[1] / "dpmmwrap" / "splitnet" / "weights"
STEPS = {2: 6000, 3: 3000, 5: 2500, 10: 2500, 20: 2500}


def command(dim: int) -> list[str]:
    """The exact command behind the weights of one dimension."""
    out = WEIGHTS / f"splitnet_d{dim}.safetensors"
    words = ["train", "--dim", str(dim), "--preset", "compact", "--steps", str(STEPS[dim]), "--batch", "32"]
    words += ["--seed", "0", "--device", "cpu", "--out", str(out)]
    if Path(f"{out}.checkpoint").exists():
        words.append("--resume")
    return [sys.executable, "-m", "dpmmwrap", *words]


def main(arguments: list[str]) -> None:
    dims = [int(argument) for argument in arguments] or list(STEPS)
    for dim in dims:
        if dim not in STEPS:
            sys.exit(f"weights are shipped for D = {', '.join(map(str, STEPS))}, not {dim}")
        words = command(dim)
        print(shlex.join(words), flush=True)
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
