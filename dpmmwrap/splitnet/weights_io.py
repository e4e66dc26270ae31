"""Weights on disk: a safetensors file that describes its architecture, and a model card (JSON) beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dpmmwrap.files import read_json, write_atomically, write_json
from dpmmwrap.splitnet.network import KINDS, Sizes, SplitNet

FORMAT = "dpmmwrap-splitnet-2"
FOLDER = Path(__file__).parent / "weights"
CHECKSUM = "sha256"
"""Key of the weights file's checksum in its card: damaged numbers look like any others."""


def shipped_path() -> Path:
    """The shipped weights, which serve all dimensions."""
    return FOLDER / "splitnet.safetensors"


def card_path(path: Path) -> Path:
    return path.with_suffix(".json")


def save_weights(path: Path, network: SplitNet, card: dict[str, Any]) -> None:
    """Write the weights, then the card, so that a card never describes missing weights."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    metadata = {"format": FORMAT, "architecture": json.dumps(network.describe())}
    content = save(tensors, metadata)
    write_atomically(path, lambda file: file.write(content))
    write_json(card_path(path), card | {CHECKSUM: hashlib.sha256(content).hexdigest()})


def load_weights(path: str | Path) -> SplitNet:
    """Load the network from a weights file; raise a ValueError that says what is wrong with it."""
    path = Path(path)
    tensors, metadata = read_tensors(path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} does not hold SplitNet weights of this version of dpmmwrap")
    sizes = _architecture(path, metadata.get("architecture", ""))
    network = SplitNet(sizes)
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if expected != {name: tensor.shape for name, tensor in tensors.items()}:
        raise ValueError(f"the weights in {path} do not fit the architecture that the file describes")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError(f"the weights in {path} are damaged: some are not finite")
    check_sum(path)
    network.load_state_dict(tensors)
    return network.eval()


def check_sum(path: Path) -> None:
    """Reject a file that differs from the one its card describes. Without a card there is nothing to compare."""
    card = card_path(path)
    known = read_json(card) if card.is_file() else {}
    expected = known.get(CHECKSUM) if isinstance(known, dict) else None
    if expected is not None and hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise ValueError(f"the weights in {path} are damaged: their checksum is not the one in {card.name}")


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file, a format without code: nothing is unpickled."""
    if not path.is_file():
        raise ValueError(f"there is no weights file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise ValueError(f"the weights file {path} is damaged or not a safetensors file ({error})") from error


def _architecture(path: Path, text: str) -> Sizes:
    try:
        sizes = json.loads(text)
        kind = KINDS[sizes.pop("kind")]
        if set(sizes) != {field.name for field in fields(kind)}:
            raise ValueError("other names")
        if not all(isinstance(size, int) and 0 < size <= 1 << 14 for size in sizes.values()):
            raise ValueError("no sizes")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the weights in {path} have an unknown architecture") from error
    return kind(**sizes)
