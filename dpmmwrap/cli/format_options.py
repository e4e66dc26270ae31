"""How files are written: the options that say so where a file does not, and the way to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dpmmwrap.files import Format

Option = Callable[[Any], Any]

SEPARATORS = {"tab": "\t", "\\t": "\t", "blank": " ", "blanks": " ", "space": " ", "comma": ",", "pipe": "|"}
"""What cannot well be typed, by name."""


def one_mark(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """What stands between two fields: one character, or its name."""
    mark = SEPARATORS.get(value or "", value)
    if mark is not None and (len(mark) != 1 or mark in '"\r\n' or mark.isalnum()):
        raise click.BadParameter(f"expected one mark, or tab or blank, not {value!r}.", ctx, option)
    return mark


def known_encoding(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    try:
        "".encode(value or "utf-8")
    except LookupError as error:
        raise click.BadParameter(f"{value!r} is no encoding of text.", ctx, option) from error
    return value


def several(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (value or "").split(",") if word.strip())


def format_options(option: Callable[..., Option]) -> tuple[Option, ...]:
    return (
        option(
            "--decimal",
            type=click.Choice([".", ","]),
            default=".",
            show_default=True,
            help="What stands before the decimals in text files; commas need ; or tabs between fields, or quotes.",
        ),
        option(
            "--thousands",
            type=click.Choice([",", "."]),
            help="What stands between thousands, where 3,750 could also be 3.75.",
        ),
        option(
            "--sep",
            callback=one_mark,
            metavar="MARK",
            help="What stands between two fields: a mark such as '|', tab, or blank for any number of blanks. As a "
            "rule it is noticed.",
        ),
        option(
            "--encoding",
            callback=known_encoding,
            metavar="NAME",
            show_default="utf-8",
            help="Of text files: utf-16, latin-1, cp1252 and so on.",
        ),
        option("--sheet", metavar="NAME|NUMBER", show_default="the first", help="Which sheet of an Excel file."),
        option(
            "--missing",
            callback=several,
            metavar="WORDS",
            help="What else stands for a missing value, with commas between them: -999,?",
        ),
    )


FORMAT = ("decimal", "thousands", "sep", "encoding", "sheet", "missing")


def format_of(options: dict[str, Any]) -> Format:
    from dpmmwrap.files import Format

    return Format(*(options[name] for name in FORMAT))


def way_by_format(error: Exception) -> str:
    """The option that a file needs, behind what is wrong with it; nothing where it is something else."""
    from dpmmwrap.cli.families import named
    from dpmmwrap.files import DatesInstead, DecimalCommas, DoubtfulCommas, WrongEncoding

    if isinstance(error, DecimalCommas):
        return "; for decimal commas use --decimal ,"
    if isinstance(error, DoubtfulCommas):
        return "; use --thousands , or --decimal ,"
    if isinstance(error, WrongEncoding):
        return f"; use --encoding {error.likely}"
    if isinstance(error, DatesInstead):
        column = named([error.column])
        return (
            f"; use --drop {column}, or --id {column} if they name the rows, or --categorical {column} if each is a "
            "category, or the days since some date as numbers"
        )
    return ""
