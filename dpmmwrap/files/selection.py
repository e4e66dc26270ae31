"""Which columns of a file are features, row names and true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpmmwrap.files.problems import InputError
from dpmmwrap.files.text import PLAIN, Format

Names = tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """The wanted columns of a file, each by name or by number (from 1), and the file's format."""

    columns: Names | None = None
    """The features, in this order; None for all but the following."""
    drop: Names = ()
    id: str | None = None
    """The column that names the rows."""
    labels: str | None = None
    """The column with the true labels."""
    format: Format = PLAIN

    @property
    def narrows(self) -> bool:
        """Whether some columns are not features."""
        return self.columns is not None or bool(self.drop) or self.id is not None or self.labels is not None

    def of(self, names: Sequence[str], source: Any) -> tuple[tuple[int, ...], int | None, int | None]:
        """The indices of the features, the row names and the labels, from 0."""
        index = {name: number for number, name in enumerate(names)}
        id_name, labels = (
            None if one is None else find_columns([one], names, source)[0] for one in (self.id, self.labels)
        )
        wanted = tuple(names) if self.columns is None else find_columns(self.columns, names, source)
        left_out = {*find_columns(self.drop, names, source), id_name, labels}
        features = tuple(index[name] for name in wanted if name not in left_out)
        if not features:
            raise InputError(f"{source} should have columns to cluster by, but none of its {len(names)} is left")
        return features, None if id_name is None else index[id_name], None if labels is None else index[labels]


ALL = Selection()


def numbered(count: int) -> Names:
    """The names of columns that have none: their numbers."""
    return tuple(str(number) for number in range(1, count + 1))


def find_columns(asked: Sequence[str], names: Sequence[str], source: Any) -> Names:
    """The names of columns that are given by name or, if no column has that name, by number (from 1)."""
    names_found = []
    for word in asked:
        if not has_column(word, names):
            without = tuple(names) == numbered(len(names))
            came = f"{len(names)} columns without names" if without else f"the columns {listed(names)}"
            raise InputError(f"{source} should have a column {word!r}, but it has {came}")
        names_found.append(word if word in names else names[int(word) - 1])
    return tuple(dict.fromkeys(names_found))


def has_column(word: str, names: Sequence[str]) -> bool:
    return word in names or (word.isascii() and word.isdecimal() and 1 <= int(word) <= len(names))


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names separated by commas; of very many, only the first."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
