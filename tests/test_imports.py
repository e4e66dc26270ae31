"""`import dpmmwrap` and `dpmmwrap --help` stay quick: what is slow to import is not imported."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpmmwrap

SLOW = {
    "arviz_stats",
    "dask",
    "distributed",
    "juliacall",
    "matplotlib",
    "numba",
    "pandas",
    "pyarrow",
    "rich",
    "scipy",
    "sklearn",
    "torch",
    "jinja2",
    "tqdm",
}


def imported_by(script: str) -> set[str]:
    """The modules that a fresh interpreter holds after running a script."""
    ending = "\nimport sys\nprint('\\n' + ' '.join(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", script + ending], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_check_itself_sees_imports() -> None:
    assert "numpy" in imported_by("import numpy")


def test_importing_the_package_imports_nothing_slow() -> None:
    assert not imported_by("import dpmmwrap; dpmmwrap.__version__; dir(dpmmwrap)") & (SLOW | {"numpy", "click"})


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["fit", "--help"], ["predict", "--help"], ["generate", "--help"]]
)
def test_help_imports_nothing_slow(arguments: list[str]) -> None:
    loaded = imported_by(f"from dpmmwrap.cli import run; assert run({arguments!r}) == 0")
    assert "click" in loaded
    assert not loaded & (SLOW | {"numpy"})


def test_a_bad_option_is_told_without_slow_imports() -> None:
    assert not imported_by("from dpmmwrap.cli import run; assert run(['fit', 'x.npy', '--alpha', '-1']) == 2") & SLOW


@pytest.mark.parametrize(
    ("module", "rooms"),
    [
        ("matplotlib", r"plotting/\w+\.py|evaluation/figures\.py"),
        ("torch", r"splitnet/\w+\.py|starts/splitnet\.py"),
        ("juliacall", r"backends/julia\.py"),
        ("dask", r"backends/dask/\w+\.py"),
        ("distributed", r"backends/dask/\w+\.py"),
        ("pyarrow", r"files/arrow\.py"),
        ("openpyxl", r"files/excel\.py"),
        ("pandas", r"trace\.py"),
        ("jinja2", r"report/page\.py"),
        ("tqdm", r"progress\.py"),
        ("arviz", r"summaries/arviz\.py"),
        ("arviz_stats", r"summaries/diagnostics\.py"),
    ],
)
def test_who_imports_what_is_slow(module: str, rooms: str) -> None:
    package = Path(dpmmwrap.__file__).parent
    importing = re.compile(rf"^\s*(import|from) {module}\b", re.MULTILINE)
    found = [
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if importing.search(path.read_text())
    ]
    assert found
    assert [path for path in found if not re.fullmatch(rooms, path)] == []


def test_public_names() -> None:
    assert set(dpmmwrap.__all__) <= set(dir(dpmmwrap))
    for name in dpmmwrap.__all__:
        assert getattr(dpmmwrap, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dpmmwrap.nonsense  # noqa: B018
