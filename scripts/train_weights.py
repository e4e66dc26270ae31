"""Trains the weights that are shipped in dpmmwrap/splitnet/weights: one network, for all dimensions.

    python scripts/train_weights.py
    python scripts/train_weights.py --steps 180 --out short.safetensors    a short run, as a check

A run that was stopped continues. A step takes about a tenth of a second on one core; training used one thread
(OMP_NUM_THREADS=1). The weights depend on the seed, the number of steps and the machine (other processors order sums
differently). The model card has all of these, the minutes of training, and the rise of the ARI.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.splitnet.progress import TrainingProgress
from dpmmwrap.splitnet.training import Budget, Training, TrainingSettings, checkpoint_path, run

WEIGHTS = Path(__file__).parents[1] / "dpmmwrap" / "splitnet" / "weights" / "splitnet.safetensors"
ROUNDS = ((13_000, 12_992), (18_000, 18_000))
"""Steps that the learning rate was planned for, and the step at which the round ended. The second round continues the
first with a higher rate."""
STEPS = ROUNDS[-1][-1]
SETTINGS = TrainingSettings(steps=ROUNDS[0][0], batch=16, seed=0, device="cpu", validations=16)


class RoundEnded(Exception):
    """Raised at the end of a round."""


def train(out: Path, steps: int) -> None:
    training, checkpoint = Training(SETTINGS), checkpoint_path(out)
    if checkpoint.exists():
        training.load_checkpoint(checkpoint)
    for planned, last in ((planned * steps // STEPS, last * steps // STEPS) for planned, last in ROUNDS):
        if training.step >= last:
            continue
        training.settings = replace(training.settings, steps=planned)

        def look(now: TrainingProgress, last: int = last) -> None:
            if now.step % 100 == 0 or now.step == last:
                print(f"step {now.step:,}: loss {now.loss:.3f}, ARI {now.validation}", flush=True)
            if now.step == last:
                raise RoundEnded

        try:
            with Interrupt() as interrupt:
                run(training, checkpoint, Budget(None, time.perf_counter()), look, interrupt)
        except RoundEnded:
            training.save_checkpoint(checkpoint)
        if training.step < last:
            return
    training.save_best(out)
    checkpoint.unlink(missing_ok=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS, help="of both rounds together (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=WEIGHTS, help="where the weights go (default: where they are shipped)"
    )
    given = parser.parse_args()
    if given.steps < len(ROUNDS):
        parser.error(f"two rounds take at least {len(ROUNDS)} steps, not {given.steps}")
    train(given.out, given.steps)
