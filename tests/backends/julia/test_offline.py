"""Setting Julia up without a network, from a depot that was brought by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpmmwrap.backends.julia import setup as julia_setup

MISSING = julia_setup.missing()
LACKING = julia_setup.lacking_in_depots(["PythonCall", "DPMMSubClusters"])
pytestmark = [
    pytest.mark.julia,
    pytest.mark.slow,
    pytest.mark.skipif(MISSING is not None, reason=f"the Julia backend cannot run: {MISSING}"),
    pytest.mark.skipif(bool(LACKING), reason=f"Julia's depot here lacks {', '.join(LACKING)}"),
]


def test_a_depot_brought_by_hand_is_all_that_is_needed(tmp_path: Path) -> None:
    depot, here = tmp_path / "depot", julia_setup.depots()[0]
    depot.mkdir()
    for name in ("registries", "packages", "artifacts"):
        if (here / name).exists():
            (depot / name).symlink_to((here / name).resolve())
    # What is compiled already need not be compiled again, which takes minutes; all but our own, which is to be seen.
    if (here / "compiled").exists():
        shutil.copytree(here / "compiled", depot / "compiled", ignore=shutil.ignore_patterns("DPMMWrapBridge"))
    ours = ("PYTHON_JULIACALL_", "PYTHON_JULIAPKG_", "JULIA_LOAD_PATH", "JULIA_PROJECT")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {
        "JULIA_DEPOT_PATH": str(depot),
        "PYTHON_JULIAPKG_EXE": str(julia_setup.find().executable),
        "PYTHON_JULIAPKG_PROJECT": str(tmp_path / "project"),
        "PYTHON_JULIAPKG_OFFLINE": "yes",
    }

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "dpmmwrap", *words]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    said = run("julia", "setup")
    assert "Making a project from the packages of the depot." in said
    assert said.rstrip().endswith("ready")
    assert f"DPMMSubClusters  {julia_setup.PACKAGE_VERSION}" in said
    assert "julia" in run("fit", "--example", "--backend", "julia", "--iterations", "5")
