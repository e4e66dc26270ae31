"""The command line: `dpmmwrap COMMAND`. Each command is the `command` of the module of its name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from dpmmwrap import __version__

# With their help in a line, so that `dpmmwrap --help` imports none of the commands.
COMMANDS = {
    "fit": "Cluster a file of points.",
    "predict": "Label new points with a fitted model.",
    "generate": "Draw a data set from a mixture.",
    "train": "Train a SplitNet.",
    "evaluate": "Repeat the experiments and compare with other methods.",
    "warm-up": "Compile before the first fit.",
    "julia": "Set up, check and describe the Julia backend.",
    "completion": "Print a shell's completion script.",
}

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class LazyGroup(click.Group):
    """Imports the module of a command only when it runs or shows its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"dpmmwrap.cli.{name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def show_versions(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    """Show the versions that a bug report should name, without importing the packages."""
    if not asked or ctx.resilient_parsing:
        return
    import importlib.metadata
    import platform

    lines = [f"dpmmwrap, version {__version__}", f"Python {platform.python_version()}"]
    for name in ("numba", "numpy", "scipy", "scikit-learn", "torch"):
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    click.echo("\n".join([*lines, f"Julia {julia_version()}"]))
    ctx.exit()


def julia_version() -> str:
    """The version of Julia in the project that was set up."""
    # Without the package of this module, whose import takes a second.
    name, path = "dpmmwrap_julia_setup", Path(__file__).parents[1] / "backends" / "julia" / "setup.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    try:
        installation = setup.find()
    except ValueError:
        return "not set up"
    if installation.julia is None:
        return "not set up"
    return f"{installation.julia}{'' if installation.missing is None else ', not ready (dpmmwrap julia status)'}"


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_versions,
    help="Show the versions of dpmmwrap and of what it runs on.",
)
@click.option("--traceback", is_flag=True, help="Show where an error came from, not only its message.")
def cli(traceback: bool) -> None:
    """Clustering with Dirichlet process mixtures, which infer the number of clusters.

    \b
    Try it:   dpmmwrap fit --example
    Your own: dpmmwrap fit data.npy --out result
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code: 0 done, 2 bad use or bad input, 130 interrupted."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code. Every expected problem becomes one sentence on stderr."""
    try:
        code = cli.main(arguments, prog_name="dpmmwrap", standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except (KeyboardInterrupt, click.Abort):
        return complain("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return BAD_INPUT
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        if isinstance(error, click.UsageError) and error.ctx is not None:
            message = f"{message.rstrip('.')} (see '{error.ctx.command_path} --help')"
        return complain(message, error.exit_code)
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`). Python would complain again when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    # Parameters are checked where they are used, and those checks raise ValueError (InputError is one).
    except ValueError as error:
        return complain(str(error), BAD_INPUT, arguments)
    except MemoryError as error:
        return complain(f"out of memory: {error}", FAILED, arguments)
    # For failures of Julia or the network, a traceback would not help.
    except RuntimeError as error:
        from dpmmwrap.backends.julia import JuliaError

        # The user can fix what Julia refuses or cannot find, like bad input.
        code = BAD_INPUT if isinstance(error, JuliaError) else FAILED
        return complain(f"{error} (dpmmwrap --traceback … shows where)", code, arguments)


def complain(message: str, code: int, arguments: Sequence[str] = ()) -> int:
    """Print one line about a problem on stderr, after the traceback if --traceback was given."""
    if "--traceback" in arguments:
        traceback.print_exc()
    click.echo(f"dpmmwrap: {' '.join(message.split())}", err=True)
    return code
