"""Which parts of Julia are installed, without starting it, and how to install what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE_VERSION = "0.1.13"
"""Of DPMMSubClusters.jl; juliapkg.json and the bridge's Project.toml pin the same."""
LEAST_JULIA = (1, 10)
SETUP = "dpmmwrap julia setup"
BRING = (
    "without a network it has to come in a depot: bring the folder ~/.julia of a machine with a network and the same "
    f"Julia, set JULIA_DEPOT_PATH to it, and run {SETUP} again"
)


@dataclass(frozen=True)
class Installation:
    """The installed parts; None for a missing one."""

    juliacall: str | None = None
    executable: Path | None = None
    julia: str | None = None
    project: Path | None = None
    pythoncall: str | None = None
    dpmmsubclusters: str | None = None
    given: bool = False
    """The user names Julia and the project (PYTHON_JULIACALL_EXE and _PROJECT): they are not changed."""
    offline: bool = False
    """No network (PYTHON_JULIAPKG_OFFLINE)."""

    @property
    def missing(self) -> str | None:
        """Why the Julia backend cannot run, and how to mend it; None if it can."""
        if self.juliacall is None:
            return "juliacall, which comes with dpmmwrap, is not installed: pip install juliacall"
        if self.executable is None or self.project is None:
            return f"Julia is not set up yet: {SETUP}"
        if not self.executable.is_file():
            return f"there is no Julia at {self.executable}: {self._mend('')}"
        if not self.project.is_dir():
            return f"there is no Julia project at {self.project}: {self._mend('')}"
        if self.julia is not None and version_numbers(self.julia) < LEAST_JULIA:
            return f"Julia {self.julia} is too old, {dotted(LEAST_JULIA)} or newer is needed: {self._mend('')}"
        there = {"PythonCall": self.pythoncall, "DPMMSubClusters": self.dpmmsubclusters}
        for name, version in wanted_packages(self.juliacall).items():
            if there[name] != version:
                instead = f", it has {there[name]}" if there[name] else ""
                add = f'import Pkg; Pkg.add(name="{name}", version="{version}")'
                return f"the Julia project {self.project} lacks {name} {version}{instead}: {self._mend(add)}"
        return None

    def _mend(self, script: str) -> str:
        """`setup` if the project is ours; a command for the user if it is theirs."""
        if not self.given:
            return BRING if self.offline and script else SETUP
        if not script:
            return "set PYTHON_JULIACALL_EXE and PYTHON_JULIACALL_PROJECT to what is there, or unset both"
        return f"{self.executable} --project={self.project} -e '{script}'"


def missing() -> str | None:
    """Why the Julia backend cannot run here; None if it can."""
    try:
        return find().missing
    except ValueError as problem:
        return str(problem)


def wanted_packages(juliacall: str) -> dict[str, str]:
    """The packages that a project needs, by version: PythonCall is the Julia half of juliacall."""
    return {"PythonCall": juliacall, "DPMMSubClusters": PACKAGE_VERSION}


def find() -> Installation:
    """Look for juliacall, Julia, and the project with its packages."""
    version = juliacall_version()
    if version is None:
        return Installation()
    given = option("exe"), option("project")
    if all(given):
        executable, project = Path(shutil.which(given[0] or "") or given[0] or ""), Path(given[1] or "")
        return described(version, executable, project, given=True)
    if any(given):
        raise ValueError("PYTHON_JULIACALL_EXE and PYTHON_JULIACALL_PROJECT should both be set, or neither")
    resolved = from_juliapkg()
    return Installation(juliacall=version) if resolved is None else described(version, *resolved, given=False)


def juliacall_version() -> str | None:
    try:
        return importlib.metadata.version("juliacall")
    except importlib.metadata.PackageNotFoundError:
        return None


def option(name: str) -> str | None:
    """juliacall's options come from the interpreter's -X or from the environment."""
    given = sys._xoptions.get(f"juliacall-{name}")
    return given if isinstance(given, str) else os.environ.get(f"PYTHON_JULIACALL_{name.upper()}")


def from_juliapkg() -> tuple[Path, Path] | None:
    """The Julia and the project that juliapkg has set up for this version of dpmmwrap, if any."""
    import juliapkg.deps
    import juliapkg.state

    resolved = juliapkg.deps.load_meta()
    if not resolved:
        return None
    return Path(resolved["executable"]), Path(juliapkg.state.STATE["project"])


def described(juliacall: str, executable: Path, project: Path, *, given: bool) -> Installation:
    manifest = read_manifest(project)
    julia = manifest.get("julia_version")
    return Installation(
        juliacall=juliacall,
        executable=executable,
        julia=julia if isinstance(julia, str) else None,
        project=project,
        pythoncall=manifest_version(manifest, "PythonCall"),
        dpmmsubclusters=manifest_version(manifest, "DPMMSubClusters"),
        given=given,
        offline=is_offline(),
    )


def is_offline() -> bool:
    """Whether juliapkg is set to work without a network."""
    import juliapkg.state

    return bool(juliapkg.state.STATE["offline"])


def read_manifest(project: Path) -> dict[str, Any]:
    """The project's manifest; from Julia 1.11 on there may be one for each version of Julia. Empty if there is none."""
    names = [path.name for path in sorted(project.glob("Manifest-v*.toml"), reverse=True)]
    for name in ("JuliaManifest.toml", *names, "Manifest.toml"):
        path = project / name
        if path.is_file():
            try:
                return tomllib.loads(path.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"{path} should be a manifest of Julia's, but it cannot be read: {error}") from error
    return {}


def manifest_version(manifest: dict[str, Any], package: str) -> str | None:
    """The version that a manifest gives a package, in the old format, where packages are at the top, or the new."""
    packages = manifest.get("deps", manifest)
    entries = packages.get(package) if isinstance(packages, dict) else None
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        return None
    version = entries[0].get("version")
    return version if isinstance(version, str) else None


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def ask_version(executable: Path) -> str | None:
    """The version that Julia reports; None if it does not run."""
    try:
        said = subprocess.run([executable, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\d+\.\d+\.\S+", said.stdout)
    return found.group() if found else None


def depots() -> list[Path]:
    """The folders in which Julia looks for registries and packages, as far as known without starting it."""
    given = [folder for folder in os.environ.get("JULIA_DEPOT_PATH", "").split(os.pathsep) if folder]
    return [Path(folder) for folder in given] or [Path.home() / ".julia"]


def lacking_in_depots(names: list[str]) -> list[str]:
    """What the depots lack for an installation without a network: a registry, or packages of these names."""
    there = depots()
    lacking = [] if any(any((depot / "registries").glob("*")) for depot in there) else ["a registry"]
    return lacking + [name for name in names if not any((depot / "packages" / name).is_dir() for depot in there)]


def bridge_folder() -> Path:
    """The folder of DPMMWrapBridge: inside an installed wheel, or beside the package in a checkout."""
    package = Path(__file__).resolve().parents[2]
    places = (package / "_julia" / "DPMMWrapBridge", package.parent / "julia" / "DPMMWrapBridge")
    for place in places:
        if (place / "Project.toml").is_file():
            return place
    raise FileNotFoundError(f"DPMMWrapBridge should be in {places[0]}; the installation of dpmmwrap is incomplete")
