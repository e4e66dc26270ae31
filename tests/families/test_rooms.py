"""A family owns itself: nobody else in the package knows its name, its classes or its files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpmmwrap
from dpmmwrap.families import FAMILIES, family_named

PACKAGE = Path(dpmmwrap.__file__).parent
ROOMS = sorted(path.name for path in (PACKAGE / "families").iterdir() if (path / "__init__.py").exists())
SHARED = {"learned"}
"""Rooms under families/ that are no family's own."""
NAMES = {*FAMILIES, *(kind for name in FAMILIES for kind in family_named(name).kinds)}
CLASSES = {"CategoricalDirichlet"} | {
    path.split(":")[1] for name in FAMILIES for path in family_named(name).priors.values()
}
EXCEPTIONS = {
    "__init__.py": "the public names",
    "backends/julia/__init__.py": "Julia's sampler has two families, and each goes by other arguments",
    "backends/julia/rescaling.py": "where points are put for Julia's normal-inverse-Wishart prior",
    "cli/generate.py": "kinds of data to generate, not families",
    "evaluation/": "experiments of the paper, which are about normal-inverse-Wishart priors; names of samplers",
    "splitnet/": "the network's subcluster models are those of Gaussian clusters",
}
OTHER_MEANINGS = {("model/preparation.py", "full"), ("evaluation/images.py", "full")}
"""A solver of scikit-learn's."""


def others() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("families/") and not any(name.startswith(known) for known in EXCEPTIONS):
            yield name, path


def known_of_families(name: str, source: str) -> list[str]:
    """What a file says of families that only they should say: names as whole strings, classes, and their modules."""
    tree, found = ast.parse(source), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES and (name, node.value) not in OTHER_MEANINGS:
            found.append(f"{node.lineno}: {node.value!r}")
        if isinstance(node, (ast.Name, ast.Attribute)):
            called = node.id if isinstance(node, ast.Name) else node.attr
            if called in CLASSES:
                found.append(f"{node.lineno}: {called}")
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = node.module.split(".")
            if parts[:2] == ["dpmmwrap", "families"]:
                inside = {*parts[2:3], *(alias.name for alias in node.names if len(parts) == 2)}
                found += [f"{node.lineno}: families.{room}" for room in inside & set(ROOMS) - SHARED]
    return found


@pytest.mark.parametrize(("name", "path"), list(others()), ids=[name for name, _ in others()])
def test_nobody_else_knows_a_family(name: str, path: Path) -> None:
    assert known_of_families(name, path.read_text(encoding="utf-8")) == []


def test_the_look_finds_what_it_looks_for() -> None:
    source = (
        "from dpmmwrap.families.full.prior import NIW\nfrom dpmmwrap.families import poisson\n"
        "if isinstance(prior, NIW) or family == 'mixed':\n    pass\n"
    )
    found = known_of_families("some.py", source)
    assert {line.split(": ")[1] for line in found} == {"families.full", "families.poisson", "NIW", "'mixed'"}


def test_exceptions_are_still_needed() -> None:
    for known in EXCEPTIONS:
        files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).as_posix().startswith(known)]
        assert any(known_of_families("", path.read_text(encoding="utf-8")) for path in files), known


def test_families_import_no_sampler() -> None:
    above = ("sampler", "backends", "starts", "splitnet", "model", "posterior", "describe", "cli", "evaluation")
    for path in (PACKAGE / "families").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                assert node.module.split(".")[:2] not in [["dpmmwrap", room] for room in above], path
