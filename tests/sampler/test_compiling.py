"""Compiling before the first fit: said once, shared out, and whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpmmwrap.numerics import kernel_cache
from dpmmwrap.sampler import compiling

FITS = """
import json, warnings
import numpy as np
from scipy.sparse import csr_array
from numba.core import event
from dpmmwrap import DPMM

class Heard(event.Listener):
    names = []
    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__module__)
    def on_end(self, event):
        pass

event.register("numba:compile", Heard())
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 2)) + 9.0 * (np.arange(300) % 3)[:, None]
gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
counts = rng.poisson(1.0 + 9.0 * np.eye(3)[np.arange(300) % 3])
table = np.column_stack([X.astype(object), np.array(list("abc"))[np.arange(300) % 3]])
found = {}
for name, data, options in (
    ("auto", X, {}),
    ("auto draws", X, {"n_draws": 3}),
    ("diag draws", X, {"n_draws": 3, "covariance_type": "diag"}),
    ("gaps", gaps, {}),
    ("spherical", X, {"covariance_type": "spherical"}),
    ("counts draws", counts, {"family": "multinomial", "n_draws": 3}),
    ("sparse draws", csr_array(counts), {"family": "multinomial", "n_draws": 3}),
    ("mixed draws", table, {"family": "mixed", "n_draws": 3}),
):
    Heard.names.clear()
    DPMM(init="kmeans", backend="native", random_state=0, max_iter=60, n_chains=1, **options).fit(data)
    found[name] = sorted({module for module in Heard.names if module.startswith("dpmmwrap.sampler")})
print(json.dumps(found))
"""


def test_a_fit_finds_its_loops_compiled() -> None:
    """The session has compiled everything (conftest); the loops of the sampler need nothing more."""
    done = subprocess.run([sys.executable, "-c", FITS], capture_output=True, text=True, check=True)
    assert "compiling" not in done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {name: [] for name in found}


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Nothing is compiled; what is shared out is written down."""
    shared: list[list[str]] = []
    monkeypatch.setattr(kernel_cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(compiling, "share_out", shared.append)
    return shared


def test_it_is_said_when_it_is_so(cold: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    compiling.prepare(["diag"])
    assert cold == [["diag search", "diag points", "diag merges"]]
    assert capsys.readouterr().err == "dpmmwrap: compiling, once on this machine\n"
    compiling.prepare(["diag"])
    compiling.prepare(["a family of one's own"])
    assert len(cold) == 1 and capsys.readouterr().err == ""
    assert compiling.prepare(["diag", "full"], draws=True) == cold[1]
    exact_moves = [f"full {task}" for task in ("points", "merges", "draws")]
    assert cold[1] == ["full search", *exact_moves, "diag draws"]
    assert capsys.readouterr().err == "dpmmwrap: compiling more code for this fit\n"


def test_children_compile_nothing_side_by_side(cold: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiling.SERIAL, "1")
    assert compiling.prepare(["diag"]) == [] and cold == []


def test_every_task_has_a_name() -> None:
    from dpmmwrap.families import compiled_kinds
    from dpmmwrap.sampler.tiny_runs import EXAMPLES, TASKS

    assert set(EXAMPLES) == set(compiled_kinds())
    names = {f"{kind} {task}" for kind in EXAMPLES for task in TASKS}
    assert names == set(compiling.task_names(EXAMPLES, draws=True))


@pytest.mark.filterwarnings("ignore")
def test_no_task_fails() -> None:
    """Where one does, nothing is said, and whoever fits waits for longer."""
    from dpmmwrap.sampler.tiny_runs import EXAMPLES, TASKS

    for kind in EXAMPLES:
        for task in TASKS.values():
            task(kind)


def test_a_process_takes_what_nobody_has_taken(tmp_path: Path) -> None:
    (tmp_path / "no such task").touch()
    command = [sys.executable, "-m", "dpmmwrap.sampler.compiling", str(tmp_path), "no such task", "diag points"]
    environment = os.environ | {"PYTHONPATH": compiling.python_path(), compiling.SERIAL: "1"}
    subprocess.run(command, env=environment, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"no such task", "diag points"}


def test_a_task_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    compiling.work(tmp_path, ["no such task", "diag points"])
    assert {path.name for path in tmp_path.iterdir()} == {"no such task", "diag points"}


def test_one_process_of_several_is_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is quicker takes the task; both come to an end."""
    done: list[list[str]] = []
    monkeypatch.setattr(compiling, "work", lambda taken, names: done.append(names))
    monkeypatch.setattr(compiling, "usable_cores", lambda: 2)
    compiling.share_out(["diag points", "diag search"])
    monkeypatch.setattr(compiling, "usable_cores", lambda: 1)
    compiling.share_out(["diag points", "diag search"])
    assert done == [["diag points", "diag search"]]
