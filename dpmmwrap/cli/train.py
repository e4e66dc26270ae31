"""`dpmmwrap train`: train a SplitNet."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpmmwrap.cli import INTERRUPTED
from dpmmwrap.cli.common import A_PATH, ABOVE_ZERO, POSITIVE, option, say_note
from dpmmwrap.describe.progress import live_line

if TYPE_CHECKING:
    from dpmmwrap.splitnet.progress import TrainingProgress

EXAMPLES = """
\b
Examples:
  dpmmwrap train --dim 4 --minutes 20 --out d4.safetensors
  dpmmwrap train --dim 4 --out d4.safetensors --resume
  dpmmwrap train --dim 4 --out d4.safetensors --resume --minutes 10
  dpmmwrap fit data.npy --init splitnet --weights d4.safetensors --out result
"""


COLLAPSED = (
    "every ARI is 0, so the network puts all points on one side, and it may not recover: if that lasts, start again "
    "with another --seed"
)


@click.command("train", epilog=EXAMPLES)
@click.option(
    "--dim",
    "dims",
    type=POSITIVE,
    multiple=True,
    help="Features of a point; may be given several times, to mix dimensions.  [default: 1 to 20, mixed]",
)
@option(
    "--preset",
    "compact",
    "The size of the network: compact, for a CPU, or the paper's.",
    type=click.Choice(["compact", "paper"]),
)
@click.option("--steps", type=POSITIVE, help="Training steps.  [default: 4000]")
@click.option(
    "--minutes", type=ABOVE_ZERO, help="Train for about this long instead; with --resume, for about this long more."
)
@option("--batch", 32, "Sets of 256 points per step.", type=POSITIVE)
@option("--device", "auto", "auto, cpu or cuda.")
@click.option(
    "--out",
    type=A_PATH,
    metavar="FILE.safetensors",
    help="Write the weights here, and the model card beside them.  [default: splitnet.safetensors]",
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint beside --out.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def command(
    dims: tuple[int, ...],
    preset: str,
    steps: int | None,
    minutes: float | None,
    batch: int,
    device: str,
    out: Path | None,
    resume: bool,
    seed: int,
) -> int:
    """Train a SplitNet for D dimensions on synthetic clusters; no data are needed.

    After two minutes the network is compared with the shipped one, whose training time is shown. Ctrl-C keeps the best
    weights so far, and --resume continues from there. On one machine, the same seed and number of steps give the same
    weights.
    """
    if steps is not None and minutes is not None:
        raise click.UsageError("give --steps or --minutes, not both")
    out = Path("splitnet.safetensors") if out is None else out
    if out.suffix != ".safetensors":
        raise click.UsageError(f"--out should be a .safetensors file, not {out}")
    from dpmmwrap.files import check_writable
    from dpmmwrap.splitnet.training import CURVE_NOTE, MIXED_DIMS, TrainingSettings, train

    check_writable(out)
    settings = TrainingSettings(
        dims or MIXED_DIMS, preset, 4000 if steps is None else steps, batch, seed, device=device
    )
    with progress_bar(CURVE_NOTE) as progress:
        card = train(settings, out, resume=resume, minutes=minutes, progress=progress)
    agreement = ", ".join(f"{name.removeprefix('ari_')} {value:.2f}" for name, value in card["metrics"].items())
    click.echo(f"Written to {out}: the weights after {card['best_step']:,} steps; ARI {agreement}")
    if card["steps_done"] >= card["steps"]:
        return 0
    why = "Time is up" if card["ended_by"] == "time" else "Interrupted"
    click.echo(f"{why} after {card['steps_done']:,} of {card['steps']:,} steps; --resume continues", err=True)
    return 0 if card["ended_by"] == "time" else INTERRUPTED


@contextlib.contextmanager
def progress_bar(note: str) -> Iterator[Callable[[TrainingProgress], None]]:
    """Step, loss, ARI and time left: a live bar on a terminal, else a line for each validation.

    The note, the comparison with the shipped network and the sentence about a network that has collapsed are printed
    once.
    """
    shown, said = dict[str, float](), [""]

    def say(moment: TrainingProgress) -> None:
        failed = bool(moment.validation) and not any(moment.validation.values())
        for sentence in (note, moment.remark, COLLAPSED if failed else ""):
            if sentence not in said:
                said.append(sentence)
                say_note(sentence)

    def write_line(moment: TrainingProgress) -> None:
        nonlocal shown
        # Each validation is an object of its own, also one with the same figures as that before it.
        if moment.validation and moment.validation is not shown:
            shown = moment.validation
            click.echo(f"step {moment.step:,}/{moment.steps:,}: {describe(moment)}", err=True)
        say(moment)

    if not sys.stderr.isatty():
        yield write_line
        return
    with live_line("step {n:,}/{total:,}{postfix} |{bar:16}|", 1, leave=False) as line:

        def redraw(moment: TrainingProgress) -> None:
            say(moment)
            line.total = moment.steps
            line.set_postfix_str(describe(moment), refresh=False)
            line.update(moment.step - line.n)

        yield redraw


def describe(moment: TrainingProgress) -> str:
    parts = [f"loss {moment.loss:.3f} at difficulty {moment.difficulty:.0%}"]
    if moment.validation:
        parts.append("ARI " + " ".join(f"{name} {value:.2f}" for name, value in moment.validation.items()))
    minutes, seconds = divmod(int(moment.seconds_left), 60)
    return ", ".join([*parts, f"{minutes}:{seconds:02d} left"])
