"""The device on which the network runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def choose_device(device: str) -> torch.device:
    """A device by name; "auto" is CUDA if available."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device should be auto, cpu or cuda, not {device!r}") from error
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device should be auto, cpu or cuda, not {device!r}")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but there is no CUDA device")
    return chosen


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies matrices faster in bfloat16 than in float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Versions of torch that cannot say compute in float32.
    capabilities = getattr(torch.cpu, "get_capabilities", dict[str, Any])()
    return bool(capabilities.get("avx512_bf16"))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread in this context: a start makes many small steps, and waiting for a busy core at each
    of them costs more than a second core gains."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
