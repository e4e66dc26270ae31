"""`import dpmmwrap` and `dpmmwrap --help` stay quick: what is slow to import is not imported."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpmmwrap
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.tables import Columns
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior.averaging import AveragedMixture

SLOW = {
    "arviz_stats",
    "dask",
    "distributed",
    "juliacall",
    "matplotlib",
    "numba",
    "pandas",
    "pyarrow",
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


def test_public_names() -> None:
    assert set(dpmmwrap.__all__) <= set(dir(dpmmwrap))
    for name in set(dpmmwrap.__all__) - {"__version__"}:
        public = getattr(dpmmwrap, name)
        assert public.__name__ == name and public.__module__.startswith("dpmmwrap.")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dpmmwrap.nonsense  # noqa: B018


@pytest.mark.parametrize("family", ["full", "diag", "spherical", "multinomial", "mixed"])
def test_a_model_file_is_enough_to_predict_without_numba_and_torch(family: str, tmp_path: Path) -> None:
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(3, dtype=np.int32), 20)
    X: Any = (rng.poisson(2 + 9 * np.eye(3)[labels])).astype(np.float32)
    rows, columns = "np.ones((4, 3))", None
    if family == "mixed":
        X = {"size": X[:, 0], "colour": np.array(["red", "green", "blue"])[labels]}
        rows = "{'size': np.ones(4), 'colour': np.array(['red', 'red', 'blue', 'blue'])}"
        columns = Columns.learn(X, None)
        X = columns.points(X)
    prior = {
        "full": NIW.reference(3), "diag": NIG(np.zeros(3), 1.0, np.ones(3), 3.0), "multinomial": Dirichlet(np.ones(3)),
        "spherical": SphericalNIG(np.zeros(3), 1.0, np.ones(1), 3.0),
        "mixed": Mixed(NIG(np.zeros(1), 1.0, np.ones(1), 3.0), CategoricalDirichlet.from_levels(np.array([3]))),
    }[family]  # fmt: skip
    mixture = Mixture.from_labels(X, labels, prior, columns=columns)
    averaged = AveragedMixture.of(X, np.stack([labels, labels % 2]), labels, [prior] * 2, 0.0, None)
    replace(mixture, averaged=averaged).save(tmp_path / "model.npz")
    script = f"""
import dpmmwrap, numpy as np
model = dpmmwrap.load({str(tmp_path / "model.npz")!r})
rows = {rows}
for answer in (model.predict, model.predict_proba, model.score_samples):
    assert len(answer(rows)) == 4
model.sample(3, np.random.default_rng(0))
"""
    assert not imported_by(script) & (SLOW - {"scipy"})
