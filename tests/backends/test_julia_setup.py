"""What is said about a Julia that is not there, not whole, or somebody else's. None of this starts Julia."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpmmwrap
from dpmmwrap import cli
from dpmmwrap.backends import julia_setup, make_backend
from dpmmwrap.backends.julia import is_set_up, read_machines
from dpmmwrap.files import InputError

ROOT = Path(dpmmwrap.__file__).parent
MANIFEST = """
julia_version = "1.10.12"
manifest_format = "2.0"

[[deps.DPMMSubClusters]]
deps = ["Clustering", "Distributed"]
git-tree-sha1 = "e1d7c3a0a9778d5c349cb092936b39b5b5380a45"
uuid = "2841fd70-8698-11e9-176d-6dfa142d2ee7"
version = "{package}"

    [deps.DPMMSubClusters.extensions]
    SomeExt = "Some"

[[deps.PythonCall]]
uuid = "6099a3de-0909-46bc-b1f4-468b9a2dfc0d"
version = "{call}"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the user's own, with everything in it, and an executable that stands for Julia."""
    monkeypatch.setattr(julia_setup, "juliacall_version", lambda: "0.9.34")
    write_manifest(tmp_path)
    monkeypatch.setenv("PYTHON_JULIACALL_EXE", sys.executable)
    monkeypatch.setenv("PYTHON_JULIACALL_PROJECT", str(tmp_path))
    return tmp_path


def write_manifest(folder: Path, package: str = "0.1.13", call: str = "0.9.34") -> None:
    (folder / "Manifest.toml").write_text(MANIFEST.format(package=package, call=call))


def test_a_whole_project_of_the_users_own_is_taken_as_it_is(project: Path) -> None:
    found = julia_setup.find()
    assert found.missing is None
    assert found.given
    assert (found.julia, found.pythoncall, found.dpmmsubclusters) == ("1.10.12", "0.9.34", "0.1.13")
    assert is_set_up()


def test_the_missing_package_is_named_with_the_command_that_adds_it(project: Path) -> None:
    write_manifest(project, package="0.1.9")
    missing = julia_setup.find().missing
    assert missing is not None
    assert "lacks DPMMSubClusters 0.1.13, it has 0.1.9" in missing
    assert f'--project={project} -e \'import Pkg; Pkg.add(name="DPMMSubClusters", version="0.1.13")' in missing
    assert not is_set_up()


def test_pythoncall_has_to_match_juliacall(project: Path) -> None:
    write_manifest(project, call="0.9.20")
    assert "lacks PythonCall 0.9.34, it has 0.9.20" in str(julia_setup.find().missing)


def test_an_empty_project_lacks_a_package(project: Path) -> None:
    (project / "Manifest.toml").unlink()
    assert "lacks PythonCall 0.9.34:" in str(julia_setup.find().missing)


def test_a_manifest_for_a_newer_julia_comes_first(project: Path) -> None:
    (project / "Manifest-v1.11.toml").write_text(MANIFEST.format(package="0.1.13", call="0.9.33"))
    assert julia_setup.find().pythoncall == "0.9.33"


def test_an_old_julia_is_refused(project: Path) -> None:
    text = (project / "Manifest.toml").read_text().replace("1.10.12", "1.9.4")
    (project / "Manifest.toml").write_text(text)
    assert "Julia 1.9.4 is too old, 1.10 or newer" in str(julia_setup.find().missing)


@pytest.mark.parametrize(("name", "said"), [("EXE", "no Julia at"), ("PROJECT", "no Julia project at")])
def test_a_wrong_path_is_named(project: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.setenv(f"PYTHON_JULIACALL_{name}", "/nowhere/at/all")
    missing = str(julia_setup.find().missing)
    assert f"{said} /nowhere/at/all" in missing


def test_one_of_the_two_variables_is_not_enough(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON_JULIACALL_PROJECT")
    with pytest.raises(ValueError, match="both be set, or neither"):
        julia_setup.find()
    assert not is_set_up()


def test_without_juliacall_status_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(julia_setup, "juliacall_version", lambda: None)
    assert not is_set_up()
    assert cli.run(["julia", "status"]) == 1
    assert "pip install 'dpmmwrap[julia]'" in capsys.readouterr().out
    assert cli.run(["julia", "setup"]) == 1
    assert "pip install 'dpmmwrap[julia]'" in capsys.readouterr().err


def test_a_fit_without_julia_says_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(julia_setup, "juliacall_version", lambda: None)
    assert cli.run(["fit", "--example", "--backend", "julia"]) == 2
    error = capsys.readouterr().err
    assert "the Julia backend cannot run: juliacall is not installed: pip install 'dpmmwrap[julia]'" in error


def in_another_thread(function: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_auto_takes_the_built_in_sampler_for_what_only_it_can_do(project: Path) -> None:
    assert is_set_up()
    assert make_backend("auto", checkpoint=project / "checkpoint").name == "native"
    assert make_backend("auto", acceptance_ratio="printed").name == "native"
    assert make_backend("auto", acceptance_ratio="jain-neal").name == "native"
    assert in_another_thread(lambda: make_backend("auto")).name == "native"


def test_what_cannot_go_together_is_said_before_julia_is_started(project: Path) -> None:
    for name in ("auto", "julia"):
        with pytest.raises(ValueError, match="a checkpoint needs the built-in sampler"):
            make_backend(name, checkpoint=project / "checkpoint", workers=True)
    with pytest.raises(ValueError, match="acceptance_ratio printed needs the built-in sampler"):
        make_backend("julia", acceptance_ratio="printed")
    with pytest.raises(ValueError, match="worker processes need the Julia backend"):
        make_backend("native", workers=True)
    with pytest.raises(ValueError, match="backend should be auto, native, julia or dask, not 'r'"):
        make_backend("r")


def test_what_julia_refuses_is_one_sentence_and_exit_code_2(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert in_another_thread(lambda: cli.run(["fit", "--example", "--backend", "julia"])) == 2
    said = capsys.readouterr().err
    assert said.startswith("dpmmwrap: the Julia backend works in the main thread only")
    assert said.count("\n") == 1


def test_the_pins_agree() -> None:
    pinned = json.loads((ROOT / "juliapkg.json").read_text())["packages"]
    bridge = (julia_setup.bridge_folder() / "Project.toml").read_text()
    assert pinned["DPMMSubClusters"]["version"] == f"={julia_setup.PACKAGE_VERSION}"
    assert f'DPMMSubClusters = "={julia_setup.PACKAGE_VERSION}"' in bridge
    for name, package in pinned.items():
        assert f'{name} = "{package["uuid"]}"' in bridge


def test_machines(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_text("one@first.example*2\n\n# a remark\nsecond:2222   # its port\n")
    assert read_machines(path) == (["one@first.example", "second:2222"], [2, 1])


@pytest.mark.parametrize("line", ["-oProxyCommand=x", "host*0", "a b", "host;true", "$(true)@host"])
def test_strange_machines_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "machines"
    path.write_text(f"good\n{line}\n")
    with pytest.raises(InputError, match="line 2: a machine should be written"):
        read_machines(path)


def test_no_machines(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_text("# none\n")
    with pytest.raises(InputError, match="it names none"):
        read_machines(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_machines(tmp_path / "nowhere")
