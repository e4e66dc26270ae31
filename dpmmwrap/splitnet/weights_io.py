"""Weights on disk: one safetensors file, which describes its architecture, and one model card (JSON) beside it."""

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
from dpmmwrap.splitnet.network import Architecture, SplitNet

FORMAT = "dpmmwrap-splitnet-1"
FOLDER = Path(__file__).parent / "weights"
CHECKSUM = "sha256"
"""Of the weights file, in its card: numbers that are damaged look like any others."""


def shipped_dims(folder: Path = FOLDER) -> list[int]:
    """The dimensions that weights are shipped for."""
    found = (path.stem.removeprefix("splitnet_d") for path in folder.glob("splitnet_d*.safetensors"))
    return sorted(int(dim) for dim in found if dim.isdigit())


def shipped_path(dim: int, folder: Path = FOLDER) -> Path:
    return folder / f"splitnet_d{dim}.safetensors"


def network_dim(dim: int, available: list[int]) -> int:
    """The dimension whose weights serve D: its own, else the next one down (projected), else the least (padded).

    Projecting to the most telling axes loses less than padding: ARI of the network alone on easy / medium / hard sets
    with D = 7: 1.00 / 0.72 / 0.62 by the five-dimensional weights, 0.63 / 0.33 / 0.43 by the ten-dimensional ones.
    """
    if not available:
        raise ValueError("no SplitNet weights came with this installation; give a weights file")
    return max((d for d in available if d <= dim), default=min(available))


def card_path(path: Path) -> Path:
    return path.with_suffix(".json")


def save_weights(path: Path, network: SplitNet, card: dict[str, Any]) -> None:
    """Writes the weights, then the card: a card never describes weights that are not there."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    metadata = {"format": FORMAT, "architecture": json.dumps(network.sizes.to_dict())}
    content = save(tensors, metadata)
    write_atomically(path, lambda file: file.write(content))
    write_json(card_path(path), card | {CHECKSUM: hashlib.sha256(content).hexdigest()})


def load_weights(path: str | Path, dim: int | None = None) -> SplitNet:
    """The network in a weights file; a ValueError with one sentence if it is not what it should be."""
    path = Path(path)
    tensors, metadata = read_tensors(path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} does not hold SplitNet weights of this version of dpmmwrap")
    sizes = _architecture(path, metadata.get("architecture", ""))
    if dim is not None and sizes.dim != dim:
        raise ValueError(f"the weights in {path} are for {sizes.dim} dimensions, not {dim}")
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
    """Refuse a file that is not the one its card describes; one without a card cannot be compared."""
    card = card_path(path)
    known = read_json(card) if card.is_file() else {}
    expected = known.get(CHECKSUM) if isinstance(known, dict) else None
    if expected is not None and hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise ValueError(f"the weights in {path} are damaged: their checksum is not the one in {card.name}")


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file (a format without code: nothing is unpickled)."""
    if not path.is_file():
        raise ValueError(f"there is no weights file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise ValueError(f"the weights file {path} is damaged or no safetensors file ({error})") from error


def _architecture(path: Path, text: str) -> Architecture:
    try:
        sizes = json.loads(text)
        if set(sizes) != {field.name for field in fields(Architecture)}:
            raise ValueError("other names")
        if not all(isinstance(size, int) and 0 < size <= 1 << 14 for size in sizes.values()):
            raise ValueError("no sizes")
    except (TypeError, ValueError) as error:
        raise ValueError(f"the weights in {path} are of another architecture") from error
    return Architecture(**sizes)
