"""The folder that a fit is written to: what an earlier fit has left there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from dpmmwrap.files import InputError, read_json, write_json

MANIFEST = "dpmmwrap-files.json"
"""The names and sizes of the files that the last fit has written."""
SOMETIMES = ("rows.npy", "confidence.npy", "draws.npz", "groups.png", "posterior.png", "pairs.png", "chains.png")
"""Files that not every fit writes, so that they may be of an earlier one."""


def tidy(folder: Path, written: Sequence[str]) -> str:
    """Remove what an earlier fit has written and this one has not; the words about it.

    Only what is in the manifest, and as large as it was then, is known to be ours. What else has a name of ours is
    left where it is, and said.
    """
    earlier = known_files(folder)
    stale = [name for name, size in earlier.items() if name not in written and size_of(folder / name) == size]
    removed = [name for name in stale if remove(folder / name)]
    write_json(folder / MANIFEST, {"files": {name: size_of(folder / name) for name in written}})
    left = [name for name in SOMETIMES if name not in written and (folder / name).exists()]
    told = []
    if removed:
        told.append(f"{', '.join(removed)} of an earlier fit removed")
    if left:
        told.append(f"{', '.join(left)} there {'is' if len(left) == 1 else 'are'} of an earlier fit")
    return f" ({'; '.join(told)})" if told else ""


def known_files(folder: Path) -> dict[str, int]:
    """The files of the last fit and their sizes; none where there is no manifest, or one that is not ours."""
    found: dict[str, int] = {}
    with contextlib.suppress(InputError, AttributeError, TypeError):
        for name, size in read_json(folder / MANIFEST)["files"].items():
            # Nothing outside the folder is ours, whatever the manifest says.
            if is_plain(name) and isinstance(size, int):
                found[name] = size
    return found


def is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and Path(name).name == name


def size_of(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() and not path.is_symlink() else None


def remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
