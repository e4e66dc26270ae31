"""A wheel and an sdist: whole, and they run where nothing of the clone is in sight."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

from dpmmwrap.numerics import kernel_cache

ROOT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not in a clone"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and the wheel that was built from it."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel, and with what this one has installed for everything else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    (wheel,) = built.glob("*.whl")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    # A path alone: an editable installation that it may hold is not followed.
    (Path(own) / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_sdist_has_what_the_wheel_is_built_from(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as file:
        names = {name.split("/", 1)[1] for name in file.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "tests/test_packaging.py"} <= names
    assert any(name.startswith("julia/DPMMWrapBridge/src/") for name in names)


LOOK = """
from pathlib import Path
import dpmmwrap
from dpmmwrap.backends.julia import setup as julia_setup
from dpmmwrap.splitnet.weights_io import shipped_path
package = Path(dpmmwrap.__file__).parent
bridge = package / "_julia" / "DPMMWrapBridge"
print(package, int(shipped_path().is_file()), *sorted(path.name for path in bridge.iterdir()))
"""


def test_the_wheel_is_whole_and_the_example_runs(python: Path, tmp_path: Path) -> None:
    # The compiled loops are those of the tests: the sources are the same.
    cache = kernel_cache.folder()
    assert cache is not None
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["NUMBA_CACHE_DIR"] = str(cache.parent)
    looked = subprocess.run(
        [python, "-c", LOOK], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    package, weights, *bridge = looked.stdout.split()
    assert Path(package).is_relative_to(python.parents[1]) and int(weights) > 0
    # The Julia package's tests stay where it is made.
    assert bridge == ["Project.toml", "src"]
    command = [python.with_name("dpmmwrap"), "fit", "--example", "--init", "splitnet", "--out", "result"]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "compiling" not in ran.stderr
    assert (tmp_path / "result" / "labels.npy").exists() and "clusters" in ran.stdout
