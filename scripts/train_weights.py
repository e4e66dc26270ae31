"""Trains the weights that are shipped in dpmmwrap/splitnet/weights, one dimension after the other.

    python scripts/train_weights.py            # all dimensions
    python scripts/train_weights.py 2 10       # some

Each is one command, printed before it runs; a run that was stopped goes on where it was. A step of 16 sets takes a
tenth of a second of one core: the shipped weights were trained with one thread each (OMP_NUM_THREADS=1), D = 2 in
28 minutes and the others in 3 to 7 each, on a busy machine with two cores. The weights depend on the seed, the number
of steps and the machine (sums are ordered differently on other processors).
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

WEIGHTS = Path(__file__).parents[1] / "dpmmwrap" / "splitnet" / "weights"
SCHEDULES = {2: (6000, 32), 3: (1600, 16), 5: (1400, 16), 10: (2600, 16), 20: (1400, 16)}
"""Steps and sets per step. Two dimensions are the hardest: their sets overlap most."""


def command(dim: int) -> list[str]:
    """The exact command behind the weights of one dimension."""
    out = WEIGHTS / f"splitnet_d{dim}.safetensors"
    steps, batch = SCHEDULES[dim]
    words = ["train", "--dim", str(dim), "--preset", "compact", "--steps", str(steps), "--batch", str(batch)]
    words += ["--seed", "0", "--device", "cpu", "--out", str(out)]
    if Path(f"{out}.checkpoint").exists():
        words.append("--resume")
    return [sys.executable, "-m", "dpmmwrap", *words]


def main(arguments: list[str]) -> None:
    dims = [int(argument) for argument in arguments] or list(SCHEDULES)
    for dim in dims:
        if dim not in SCHEDULES:
            sys.exit(f"weights are shipped for D = {', '.join(map(str, SCHEDULES))}, not {dim}")
        words = command(dim)
        print(shlex.join(words), flush=True)
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
