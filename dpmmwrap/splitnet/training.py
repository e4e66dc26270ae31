"""The training loop: batches prepared ahead, AdamW with warm-up and linear decay, validation, checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dpmmwrap import __version__
from dpmmwrap.files import write_atomically
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.splitnet.batches import Batch, Stage, Validation, training_batch, validation_sets
from dpmmwrap.splitnet.device import choose_device, has_bfloat16
from dpmmwrap.splitnet.loss import proposal_loss
from dpmmwrap.splitnet.network import SplitNet, architecture
from dpmmwrap.splitnet.progress import (
    COMPARED,
    COMPARED_AFTER,
    MOST_FEATURES,
    TrainingProgress,
    beside_shipped,
    shipped_card,
)
from dpmmwrap.splitnet.set_transformer import Architecture
from dpmmwrap.splitnet.weights_io import read_tensors, save_weights

COMPACT_RATE = 2e-3
PAPER_RATE = 0.128
"""The learning rate of the paper's network times its hidden size. With four times as much, the one for 20 dimensions
soon puts all points on one side, in small and in large batches."""
WARM_UP = 100
"""Steps of warm-up. The curriculum starts after it, so that the first steps do not depend on the total."""
TIMED = (5, 15)
"""The steps of a run that are timed to convert minutes into a number of steps."""
VALIDATIONS, VALIDATION_SHARE = 25, 0.2
"""Number of validations, and the share of a given time that they may take."""
GRACE = 1.1
"""A training that takes this much longer than planned stops before its last steps."""
FULL_DIFFICULTY = 1000
"""The first step whose sets may be of full difficulty."""
DECAY = 0.6
"""Final share of the steps during which the learning rate decreases. Until then a run can be extended at no cost."""
MIXED_DIMS = (2, 2, 2, 2, 3, 3, 5, 5, 10, 10, 10, 10, 20, 20, 20, 1, 4, 7, 15)
OTHER_DIMS = (3, 3, 5, 5, 1, 4, 7, 15)
MIXED_STAGES = (
    Stage(0, MIXED_DIMS, regular=False, hardness=2.0),
    Stage(2400, (2,) * 10 + (10,) * 5 + (20,) * 3 + OTHER_DIMS, regular=True, hardness=2.0),
    Stage(7308, (2,) * 10 + (10,) * 8 + (20,) + OTHER_DIMS, regular=True, hardness=5.0),
)
"""The stages of training for all dimensions. What they have in common is learned early; two dimensions and hard sets
take longest."""
ONE_STAGE = Stage(0, (), regular=True, hardness=3.0)
"""The training of a network for particular dimensions."""
VALIDATED_DIMS = 3
CURVE_NOTE = (
    f"the training sets get harder during the first {FULL_DIFFICULTY:,} steps, and the loss may rise "
    "meanwhile; the ARI always refers to the same validation sets"
)


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that determines the weights."""

    dims: tuple[int, ...] = MIXED_DIMS
    """Dimensions of the training sets; each step draws one of these."""
    preset: str = "compact"
    steps: int = 4000
    batch: int = 32
    seed: int = 0
    device: str = "auto"
    validations: int = VALIDATIONS

    def __post_init__(self) -> None:
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"dims should be at least 1, not {', '.join(map(str, self.dims)) or 'none'}")
        if self.preset == "paper" and len(self.dims) > 1:
            raise ValueError(
                f"the paper's network works in a single dimension, not in {', '.join(map(str, self.dims))}"
            )
        for name, least in (("steps", 1), ("batch", 1), ("seed", 0), ("validations", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} should be at least {least}, not {getattr(self, name)}")
        architecture(self.preset, self.dims[0])

    @property
    def learning_rate(self) -> float:
        """The rate after the warm-up. Wide Set Transformers need a low one."""
        sizes = architecture(self.preset, self.dims[0])
        return PAPER_RATE / sizes.hidden if isinstance(sizes, Architecture) else COMPACT_RATE

    def identity(self) -> dict[str, Any]:
        """The settings that must agree with those of a checkpoint to resume from it."""
        free = ("device", "steps", "validations")
        found = {name: value for name, value in asdict(self).items() if name not in free}
        return found | {"dims": list(self.dims), "learning_rate": self.learning_rate}

    def stage_at(self, step: int) -> Stage:
        """The distribution of training sets at a step."""
        if self.dims != MIXED_DIMS:
            return ONE_STAGE._replace(dims=self.dims)
        return next(stage for stage in reversed(MIXED_STAGES) if step >= stage.begins)

    @property
    def validated_dims(self) -> list[int]:
        """The few dimensions that are drawn most often."""
        return [dim for dim, _ in Counter(self.dims).most_common(VALIDATED_DIMS)]


def checkpoint_path(out: Path) -> Path:
    return out.with_name(out.name + ".checkpoint")


class Training:
    """The state of a training run: network, optimiser, best weights so far. A checkpoint saves all of it."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings = settings
        self.device = choose_device(settings.device)
        with torch.random.fork_rng():
            torch.manual_seed(settings.seed)
            self.network = SplitNet(architecture(settings.preset, settings.dims[0])).to(self.device)
        # Most of a Set Transformer's time goes into large products of matrices, of the compact network's it does not.
        self.bfloat16 = settings.preset == "paper" and has_bfloat16(self.device)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, betas=(0.9, 0.98)
        )
        self.step = 0
        self.seconds = 0.0
        self.loss = math.nan
        self.best_score = -math.inf
        self.best_step = 0
        self.best: dict[str, Tensor] = {}
        self.best_metrics: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.curve: list[dict[str, float]] = []
        self.ended_by = "steps"
        self.shipped: dict[str, float] = {}
        """The scores of the shipped network on the same sets, once it has been compared."""

    @property
    def difficulty(self) -> float:
        return curriculum_progress(self.step)

    def advance(self, batch: Batch) -> float:
        """One step of AdamW."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * schedule(self.step, self.settings.steps)
        X, targets, known = (part.to(self.device) for part in (batch.X, batch.targets, batch.known))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.network(X)
        loss = proposal_loss(logits.float(), targets, known)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.step += 1
        value = float(loss.detach())
        self.loss = value if math.isnan(self.loss) else 0.98 * self.loss + 0.02 * value
        return value

    def validate(self, sets: list[Validation]) -> None:
        """Measure the ARI of the first proposal, and keep the weights if they are the best so far."""
        self.metrics = validate(self.network, sets)
        named = {f"ari_{name}": round(value, 4) for name, value in self.metrics.items()}
        now = {
            "step": self.step,
            "minutes": round(self.seconds / 60, 1),
            "difficulty": round(self.difficulty, 3),
            "loss": round(self.loss, 4),
        }
        self.curve = [*self.curve, now | named]
        score = sum(self.metrics.values()) / len(self.metrics)
        if score > self.best_score:
            self.best_score, self.best_step, self.best_metrics = score, self.step, self.metrics
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def compare(self, sets: list[Validation]) -> str:
        """A sentence that compares the network with the shipped one; empty if the latter cannot read the sets."""
        readable = [kind for kind in sets if kind.name.startswith(COMPARED) and kind.X.shape[-1] <= MOST_FEATURES]
        if not readable:
            return ""
        own, self.shipped = (validate(net, readable) for net in (self.network, SplitNet.load(readable[0].X.shape[-1])))
        return beside_shipped(own, self.shipped, self.step * self.settings.batch, self.seconds / 60, shipped_card())

    def save_checkpoint(self, path: Path) -> None:
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        for index, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        numbers = {
            name: getattr(self, name)
            for name in ("step", "seconds", "loss", "best_score", "best_step", "best_metrics", "metrics", "curve")
        }
        metadata = {
            "settings": json.dumps(self.settings.identity()),
            "steps": json.dumps(self.settings.steps),
            "validations": json.dumps(self.settings.validations),
            "numbers": json.dumps(numbers),
        }
        content = save({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, metadata)
        write_atomically(path, lambda file: file.write(content))

    def load_checkpoint(self, path: Path) -> None:
        """Resume a run with the same settings."""
        if not path.exists():
            raise ValueError(f"there is no checkpoint {path} to resume from")
        tensors, metadata = read_tensors(path)
        try:
            identity = json.loads(metadata["settings"])
            steps = int(json.loads(metadata["steps"]))
            validations = int(json.loads(metadata["validations"]))
            numbers = json.loads(metadata["numbers"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a checkpoint of SplitNet training") from error
        if identity != self.settings.identity():
            differing = [name for name, value in self.settings.identity().items() if identity.get(name) != value]
            raise ValueError(f"the checkpoint {path} is of a training run with a different {', '.join(differing)}")
        # The learning-rate schedule belongs to the run, so it keeps the number of steps it was started with.
        self.settings = replace(self.settings, steps=steps, validations=validations)
        for name, value in numbers.items():
            setattr(self, name, value)
        try:
            self.network.load_state_dict(_under("network.", tensors))
            self.best = {name: tensor.to(self.device) for name, tensor in _under("best.", tensors).items()}
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _under("optimiser.", tensors).items():
                index, key = name.split(".", 1)
                state.setdefault(int(index), {})[key] = tensor
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        except (KeyError, RuntimeError, ValueError) as error:
            raise ValueError(f"{path} is a damaged checkpoint: its parts do not belong together") from error

    def card(self) -> dict[str, Any]:
        """The model card that is stored beside the weights."""
        return {
            "dimensions": list(self.settings.dims),
            "preset": self.settings.preset,
            "architecture": self.network.describe(),
            "steps": self.settings.steps,
            "steps_done": self.step,
            "validations": self.settings.validations,
            "ended_by": self.ended_by,
            "best_step": self.best_step,
            "batch": self.settings.batch,
            "seed": self.settings.seed,
            "learning_rate": self.settings.learning_rate,
            "arithmetic": "bfloat16" if self.bfloat16 else "float32",
            "metrics": {f"ari_{name}": round(value, 4) for name, value in self.best_metrics.items()},
            "shipped": {f"ari_{name}": round(value, 4) for name, value in self.shipped.items()},
            "curve": self.curve,
            "curve_note": CURVE_NOTE,
            "training_minutes": round(self.seconds / 60, 1),
            "version": __version__,
        }

    def save_best(self, out: Path) -> None:
        best = SplitNet(self.network.sizes)
        best.load_state_dict({name: tensor.cpu() for name, tensor in self.best.items()})
        save_weights(out, best, self.card())


def schedule(step: int, steps: int) -> float:
    """The factor of the learning rate: linear warm-up, then constant, finally linear decay to 2%."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return max(0.02, min(1.0, (steps - step) / max(1.0, DECAY * steps)))


def curriculum_progress(step: int) -> float:
    """The largest difficulty of the training sets: a third during warm-up, 1 from FULL_DIFFICULTY on."""
    done = max(0, step - WARM_UP) / (FULL_DIFFICULTY - WARM_UP)
    return min(1.0, 0.33 + 0.67 * done)


@torch.inference_mode()
def validate(network: SplitNet, sets: list[Validation]) -> dict[str, float]:
    """The mean ARI of the first proposal on each kind of set."""
    device = next(network.parameters()).device
    network.eval()
    found = {}
    for kind in sets:
        # In slices, because a whole level at once would not fit the cache.
        logits = torch.cat([network(part.to(device))[..., 0] for part in torch.split(kind.X, 4)])
        splits = (logits > 0).cpu().numpy()
        found[kind.name] = float(
            np.mean([adjusted_rand_score(*pair) for pair in zip(kind.labels, splits, strict=True)])
        )
    network.train()
    return found


def train(
    settings: TrainingSettings,
    out: Path,
    *,
    resume: bool = False,
    minutes: float | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
) -> dict[str, Any]:
    """Train and write weights and card to `out`; return the card. Ctrl-C keeps the best weights so far.

    With `minutes`, the first steps (also of a resumed run) are timed to set the numbers of steps and validations. The
    card records these numbers, and passing them as settings gives the same weights.
    """
    budget = Budget(minutes, time.perf_counter())
    training = Training(settings)
    checkpoint = checkpoint_path(out)
    if resume and out.exists() and not checkpoint.exists():
        raise ValueError(
            f"the training of {out} has finished, so there is nothing to resume: without --resume it starts again"
        )
    if resume:
        training.load_checkpoint(checkpoint)
    with Interrupt() as interrupt:
        run(training, checkpoint, budget, progress, interrupt)
    training.save_best(out)
    if training.step == training.settings.steps:
        checkpoint.unlink(missing_ok=True)
    return training.card()


@dataclass
class Budget:
    """The total time that a training may take, and the number of steps it allows."""

    minutes: float | None
    begun: float
    timed_from: float = 0.0
    validation: float = math.inf
    """Seconds per validation; unknown before the steps have been timed."""

    def look(self, training: Training, done: int, sets: list[Validation]) -> None:
        """Time the first steps, then set the total number."""
        if self.minutes is None or done not in TIMED:
            return
        now = time.perf_counter()
        if done == TIMED[0]:
            self.timed_from = now
            return
        validate(training.network, sets)
        ended = time.perf_counter()
        per_step, self.validation = (now - self.timed_from) / (TIMED[1] - TIMED[0]), ended - now
        left = 60 * self.minutes - (ended - self.begun)
        validations = min(VALIDATIONS, max(1, int(VALIDATION_SHARE * left / self.validation)))
        more = max(0, int((left - validations * self.validation) / per_step))
        training.settings = replace(training.settings, steps=training.step + more, validations=validations)

    def is_spent(self) -> bool:
        """Whether only the last validation still fits into the time, in case the steps have become slower."""
        if self.minutes is None or math.isinf(self.validation):
            return False
        return time.perf_counter() - self.begun + self.validation > GRACE * 60 * self.minutes


def run(
    training: Training,
    checkpoint: Path,
    budget: Budget,
    progress: Callable[[TrainingProgress], None] | None,
    interrupt: Interrupt,
) -> None:
    """Train step by step to the end or to the first Ctrl-C, preparing the next batch meanwhile."""
    sets = validation_sets(training.settings.seed, training.settings.validated_dims)
    begun, done_before, seconds_before, remark = time.perf_counter(), training.step, training.seconds, ""
    # With more minutes a run may continue beyond its planned steps.
    if budget.minutes is not None:
        training.settings = replace(training.settings, steps=max(training.settings.steps, training.step + TIMED[1] + 1))
    with ThreadPoolExecutor(1) as ahead:
        coming = submit(ahead, training, training.step)
        while training.step < training.settings.steps:
            batch = coming.result()
            coming = submit(ahead, training, training.step + 1)
            training.advance(batch)
            now = time.perf_counter()
            training.seconds = seconds_before + now - begun
            budget.look(training, training.step - done_before, sets)
            # Checked only here: after a Ctrl-C during validation, one more step follows and is validated, too.
            training.ended_by = "interrupt" if interrupt.requested else "time" if budget.is_spent() else "steps"
            stop = training.ended_by != "steps" or training.step == training.settings.steps
            if stop or training.step % max(1, training.settings.steps // training.settings.validations) == 0:
                training.validate(sets)
                training.save_checkpoint(checkpoint)
            if not training.shipped and (stop or training.seconds >= COMPARED_AFTER):
                remark = training.compare(sets)
            if progress is not None:
                left = (now - begun) / (training.step - done_before) * (training.settings.steps - training.step)
                said = (training.step, training.settings.steps, training.loss, training.metrics, left)
                progress(TrainingProgress(*said, training.difficulty, remark))
            if stop:
                return


def submit(ahead: ThreadPoolExecutor, training: Training, step: int) -> Future[Batch]:
    settings = training.settings
    progress = curriculum_progress(step)
    return ahead.submit(training_batch, settings.seed, step, settings.stage_at(step), settings.batch, progress)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
