"""What commands share: types of values, lists of options, the command line as it was typed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

Option = Callable[[Any], Any]
"""What `click.option` returns: a decorator."""
A_PATH = click.Path(path_type=Path)
POSITIVE = click.IntRange(min=1)
ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


def with_options(*options: Option) -> Option:
    """Several options as one decorator, in their order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def option(name: str, default: Any, text: str, *names: str, **settings: Any) -> Option:
    """An option that shows its default."""
    return click.option(name, *names, default=default, show_default=True, help=text, **settings)


def word_list(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Words separated by commas."""
    return None if value is None else tuple(word.strip() for word in value.split(",") if word.strip())


def number_list(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Positive numbers separated by commas, without repetitions."""
    if value is None:
        return None
    return tuple(dict.fromkeys(POSITIVE(word.strip(), option, ctx) for word in value.split(",")))


def column_list(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """At least one column, separated by commas."""
    columns = word_list(ctx, option, value)
    if columns == ():
        raise click.BadParameter("expected names or numbers of columns, separated by commas.", ctx, option)
    return columns


def word_or(kind: Callable[..., Any], *words: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """A callback for one of these words or a value of a kind."""
    return lambda ctx, option, value: value if value in words else kind(value, option, ctx)


many_or_number = word_or(POSITIVE, "auto", "many")
auto_or_number = word_or(POSITIVE, "auto")
auto_or_positive = word_or(ABOVE_ZERO, "auto")


def say_note(sentence: str) -> None:
    click.echo(f"dpmmwrap: note: {sentence}", err=True)


def command_line(ctx: click.Context | None, without: Sequence[str]) -> str:
    """The command that the user typed, without parameters that do not change the results."""
    if ctx is None:
        return ""
    typed = [
        parameter
        for parameter in ctx.command.params
        if ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        and parameter.name not in without
    ]
    typed.sort(key=lambda parameter: isinstance(parameter, click.Option))
    words = [word for parameter in typed for word in typed_words(parameter, ctx.params[str(parameter.name)])]
    return shlex.join([*ctx.command_path.split(), *words])


def typed_words(parameter: click.Parameter, value: Any) -> Iterator[str]:
    """An argument or option as the user would type it."""
    if isinstance(parameter, click.Argument):
        yield from map(str, value if isinstance(value, tuple) else [value])
    elif isinstance(value, bool):
        yield (parameter.opts if value else parameter.secondary_opts)[0]
    elif isinstance(value, dict):
        # An option that may be given several times, with a list of words for each name.
        for name, parts in value.items():
            yield from (parameter.opts[0], f"{name}={','.join(parts)}")
    else:
        yield from (parameter.opts[0], ",".join(map(str, value)) if isinstance(value, tuple) else str(value))
