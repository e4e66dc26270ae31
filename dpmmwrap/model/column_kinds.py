"""Which columns of a mixed table are categorical, if the user does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmmwrap.families.tables import as_words_or_numbers, is_numeric
from dpmmwrap.files.looks import few_whole_numbers, holds_dates, names_rows, some_rows, strange_columns
from dpmmwrap.files.selection import listed


def sorted_out(table: Mapping[str, Any], named: bool) -> tuple[dict[str, Any], list[str], tuple[str, ...]]:
    """The columns in use, the names of the categorical ones, and notes.

    Columns of words are categorical, unless nearly every row has its own word: then they are ids or texts, and left
    out. Columns of few different whole numbers are categorical, too.

    If columns have no names, all of them stay, because new rows are matched by position.
    """
    refuse_dates(table)
    words = {name: as_words_or_numbers(column) for name, column in table.items() if not is_numeric(column)}
    texts = [name for name, column in words.items() if named and names_rows(column.tolist())]
    if len(texts) == len(table):
        texts = []
    codes = [
        name
        for name, column in table.items()
        if name not in words and few_whole_numbers(as_words_or_numbers(np.asarray(column)))
    ]
    kept = {name: column for name, column in table.items() if name not in texts}
    notes = []
    for name in texts:
        held = words[name][words[name] != ""].tolist()
        notes.append(
            f"the column {name!r} is left out: with {len(set(held)):,} different words in {len(held):,} rows it is an "
            f"id or a text, not a category; categorical=['{name}'] would keep it"
        )
    if codes:
        called = listed(codes if named else [str(int(name) + 1) for name in codes], 5)
        notes.append(
            f"used as categories, because they hold few different whole numbers: {called} (if they are none, name the "
            "categorical columns: categorical)"
        )
    categorical = [name for name in kept if name in words or name in codes]
    if not categorical and len(kept) > 1:
        notes.append(
            "no column is categorical, and within a cluster the columns of a mixed table are independent: "
            "family='gaussian' also tries clusters in which they are correlated"
        )
    return kept, categorical, tuple(notes)


def refuse_dates(table: Mapping[str, Any]) -> None:
    """Refuse dates: as categories, every day would be another level."""
    for name, column in table.items():
        if is_numeric(column):
            continue
        values = np.asarray(column)
        if values.dtype.kind in "Mm" or holds_dates(as_words_or_numbers(values).tolist()):
            raise ValueError(
                f"the column {name!r} holds dates, which are neither numbers nor categories: leave it out, or use the "
                f"days since some date; categorical=['{name}'] makes each a category"
            )


def strange_notes(X: Any, names: Any) -> tuple[str, ...]:
    """Notes about columns of numbers that may be codes for missing values, dates, or skewed."""
    some = X[some_rows(*X.shape)]
    called = [f"number {column + 1}" if names is None else repr(str(names[column])) for column in range(X.shape[1])]
    coded, skewed, dated = strange_columns((name, some[:, column]) for column, name in enumerate(called))
    notes = [
        f"the column {name} holds {code:g} far from all its other values: if that stands for a missing value, put NaN "
        "in its place"
        for name, code in coded.items()
    ]
    notes += [
        f"the column {name} holds dates written as numbers, such as 20240131, in which a new month is a jump: use the "
        "days since some date"
        for name in dated
    ]
    if skewed:
        one = len(skewed) == 1
        notes.append(
            f"so skewed that Gaussian clusters would cut {'it' if one else 'them'} into pieces: the "
            f"{'column' if one else 'columns'} {listed(skewed, 5)}; try the logarithm"
        )
    return tuple(notes)
