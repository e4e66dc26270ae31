"""Compiled loops on disk: never out of date, never in the way."""

import gc
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import pytest

import dpmmwrap
from dpmmwrap.numerics import kernel_cache


def twice(x: int) -> int:
    return 2 * x


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel_cache, "folder", lambda: tmp_path)
    return tmp_path


def fresh() -> Callable[[int], int]:
    return kernel_cache.kept(numba.njit)(twice)


def hits(function: Callable[[int], int]) -> int:
    assert function(21) == 42
    return sum(function.stats.cache_hits.values())  # type: ignore[attr-defined]


def test_what_is_compiled_is_found_again(own_folder: Path) -> None:
    assert [hits(fresh()), hits(fresh())] == [0, 1]
    assert {path.suffix for path in own_folder.iterdir()} == {".nbc", ".nbi", ".lock"}


def test_ctrl_c_waits_for_code_that_is_being_loaded(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the midst of it leaves code that ends the process when it is called."""
    load = kernel_cache.FunctionCache.load_overload

    def interrupted(self: kernel_cache.FunctionCache, *args: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return load(self, *args)

    hits(fresh())
    monkeypatch.setattr(kernel_cache.FunctionCache, "load_overload", interrupted)
    again = fresh()
    with pytest.raises(KeyboardInterrupt):
        again(21)
    assert hits(again) == 1


def test_the_garbage_collector_waits_for_the_compiler(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = kernel_cache.FunctionCache.load_overload
    seen: list[bool] = []

    def looked_at(self: kernel_cache.FunctionCache, *args: object) -> object:
        seen.append(gc.isenabled())
        return load(self, *args)

    monkeypatch.setattr(kernel_cache.FunctionCache, "load_overload", looked_at)
    hits(fresh())
    assert seen == [False] and gc.isenabled()


@pytest.mark.parametrize("damage", [b"", b"no pickle", None], ids=["empty", "nonsense", "a class that has moved"])
def test_what_cannot_be_read_is_compiled_again(own_folder: Path, damage: bytes | None) -> None:
    hits(fresh())
    (index,) = own_folder.glob("*.nbi")
    if damage is None:
        damage = index.read_bytes().replace(b"numba.core.types", b"numba.gone.types")
        assert b"numba.gone.types" in damage
    index.write_bytes(damage)
    assert [hits(fresh()), hits(fresh())] == [0, 1]


def test_the_digest_is_of_all_sources_with_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path)
    loops, other = tmp_path / "loops.py", tmp_path / "other.py"
    found = []
    for loop, rest in (("x = 1", "y = 1"), ("x = 1", "y = 2"), ("x = 2", "y = 2")):
        loops.write_text(f"from dpmmwrap.numerics.special import compiled\n{loop}\n")
        other.write_text(f"import numpy\n{rest}\n")
        found.append(kernel_cache.digest.__wrapped__())
    assert found[0] == found[1] != found[2]


def test_every_file_with_loops_counts() -> None:
    decorated = ("@compiled", "@inlined", "@kept(", "@overload(")
    for path in kernel_cache.PACKAGE.rglob("*.py"):
        text = path.read_text()
        if any(f"\n{decorator}" in text for decorator in decorated):
            assert kernel_cache.HAS_LOOPS.search(text.encode()), path


def test_few_old_folders_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        (tmp_path / f"dpmmwrap-{number}").mkdir()
        os.utime(tmp_path / f"dpmmwrap-{number}", (number, number))
    (tmp_path / "another").mkdir()
    monkeypatch.setattr(kernel_cache, "possible_folders", lambda: iter([tmp_path]))
    own = kernel_cache.folder.__wrapped__()
    assert {path.name for path in tmp_path.iterdir()} == {own.name, "another", *(f"dpmmwrap-{n}" for n in range(4, 9))}


def test_what_others_may_write_to_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(kernel_cache, "possible_folders", lambda: iter([first, second]))
    own = kernel_cache.folder.__wrapped__()
    assert own.parent == first
    own.chmod(0o777)
    assert kernel_cache.folder.__wrapped__().parent == second


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A copy of the package that nobody can write to, in a folder that everybody can read."""
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(
            Path(dpmmwrap.__file__).parent, folder / "dpmmwrap", ignore=shutil.ignore_patterns("__pycache__", "weights")
        )
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield folder
    finally:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                path.chmod(stat.S_IRWXU)
        shutil.rmtree(folder)


READ_ONLY = """
import os, pwd, sys
import numba, numpy as np
# What else has to be imported is imported while Python's own folder is open to us.
import dpmmwrap.numerics.variates
numba.njit(lambda x: np.log(np.zeros(x)).sum())(1)
for name in [name for name in sys.modules if name.startswith("dpmmwrap")]:
    del sys.modules[name]
nobody = pwd.getpwnam("nobody")
os.setgroups([]), os.setgid(nobody.pw_gid), os.setuid(nobody.pw_uid)
sys.path.insert(0, sys.argv[1])
from dpmmwrap.numerics import kernel_cache
from dpmmwrap.numerics.variates import standard_exponentials
assert len(standard_exponentials(np.uint64(1), 3)) == 3
print(kernel_cache.PACKAGE, kernel_cache.folder(), sum(standard_exponentials.stats.cache_hits.values()))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_read_only_installation_without_a_home(read_only: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary).chmod(0o777)
        environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": "/nonexistent", "TMPDIR": temporary,
            "PATH": os.environ["PATH"],
        }  # fmt: skip
        shown = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, str(read_only)], env=environment, cwd="/", capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            shown.append(done.stdout.split())
        package, folder, cached = shown[0]
        assert Path(package) == read_only / "dpmmwrap"
        assert Path(folder).is_relative_to(temporary) and cached == "0"
        assert shown[1] == [package, folder, "1"]
