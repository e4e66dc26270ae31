"""`dpmmwrap completion`: commands and options by the Tab key."""

from __future__ import annotations

import click

EXAMPLES = """
\b
Once for each shell:
  dpmmwrap completion bash >> ~/.bashrc
  dpmmwrap completion zsh >> ~/.zshrc
  dpmmwrap completion fish > ~/.config/fish/completions/dpmmwrap.fish
"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script with which the Tab key completes commands, options and files of dpmmwrap in SHELL."""
    from click.shell_completion import get_completion_class

    from dpmmwrap.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "dpmmwrap", "_DPMMWRAP_COMPLETE").source())
