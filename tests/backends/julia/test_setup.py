"""What is said about a Julia that is not there, not whole, or somebody else's. None of this starts Julia."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpmmwrap
from dpmmwrap import DPMM, DataPrior, cli
from dpmmwrap.backends import Auto, Julia, Native, as_backend
from dpmmwrap.backends.choosing import Needs, choose_backend
from dpmmwrap.backends.julia import is_set_up
from dpmmwrap.backends.julia import setup as julia_setup
from dpmmwrap.backends.julia import workers as julia_workers
from dpmmwrap.backends.julia.workers import Machine, Team, read_machines, team_of
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


def test_the_old_format_of_manifests_is_read(project: Path) -> None:
    old = MANIFEST.replace("[[deps.", "[[").replace("[deps.", "[").format(package="0.1.13", call="0.9.34")
    (project / "Manifest.toml").write_text("\n".join(line for line in old.splitlines() if "_" not in line))
    found = julia_setup.find()
    assert (found.julia, found.pythoncall, found.dpmmsubclusters) == (None, "0.9.34", "0.1.13")


def test_a_damaged_manifest_is_said_in_one_sentence(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "Manifest.toml").write_text("[[deps")
    with pytest.raises(ValueError, match=r"Manifest\.toml should be a manifest of Julia's"):
        julia_setup.find()
    assert not is_set_up()
    assert cli.run(["fit", "--example", "--backend", "julia"]) == 2
    assert "should be a manifest of Julia's" in capsys.readouterr().err


def test_without_juliacall_status_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(julia_setup, "juliacall_version", lambda: None)
    assert not is_set_up()
    assert cli.run(["julia", "status"]) == 1
    assert "pip install juliacall" in capsys.readouterr().out
    assert cli.run(["julia", "setup"]) == 1
    assert "pip install juliacall" in capsys.readouterr().err


def test_a_fit_without_julia_says_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(julia_setup, "juliacall_version", lambda: None)
    assert cli.run(["fit", "--example", "--backend", "julia"]) == 2
    error = capsys.readouterr().err
    assert "the Julia backend cannot run: juliacall, which comes with dpmmwrap, is not installed" in error


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """juliapkg in a folder of its own and without a network, with something that says it is Julia; the depot."""
    import juliapkg.state

    for name in ("PYTHON_JULIACALL_EXE", "PYTHON_JULIACALL_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    executable = tmp_path / "julia"
    executable.write_text(
        '#!/bin/sh\ncase "$*" in *dlpath*) printf "/lib/libjulia.so\\0/bin";; *) echo julia version 1.10.12;; esac\n'
    )
    executable.chmod(0o755)
    monkeypatch.setenv("PYTHON_JULIAPKG_OFFLINE", "yes")
    monkeypatch.setenv("PYTHON_JULIAPKG_EXE", str(executable))
    monkeypatch.setenv("PYTHON_JULIAPKG_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("JULIA_DEPOT_PATH", str(tmp_path / "depot"))
    juliapkg.state.reset_state()
    yield tmp_path / "depot"
    monkeypatch.undo()
    juliapkg.state.reset_state()


def test_offline_with_nothing_there_names_what_is_missing(offline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["julia", "setup"]) == 1
    said = capfd.readouterr().err
    assert f"the depot {offline} lacks a registry, PythonCall, DPMMSubClusters" in said
    assert "bring the folder ~/.julia of a machine with a network" in said
    (offline / "registries" / "General").mkdir(parents=True)
    (offline / "packages" / "PythonCall").mkdir(parents=True)
    assert cli.run(["julia", "setup"]) == 1
    assert f"the depot {offline} lacks DPMMSubClusters:" in capfd.readouterr().err
    # What is resolved by now is an empty project; a fit does not send anyone to set up once more.
    assert "it has to come in a depot" in str(julia_setup.find().missing)


def test_offline_without_julia_says_where_to_get_one(
    offline: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import juliapkg.state

    monkeypatch.setenv("PYTHON_JULIAPKG_EXE", str(offline / "nothing"))
    juliapkg.state.reset_state()
    assert cli.run(["julia", "setup"]) == 1
    said = capfd.readouterr().err
    assert "Julia 1.10 or newer is not installed" in said
    assert "PYTHON_JULIAPKG_EXE" in said


def in_another_thread(function: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_auto_takes_the_built_in_sampler_for_what_only_it_can_do(project: Path) -> None:
    assert is_set_up()
    for needs, reason in (
        (Needs(family="diag", julia=False), "Julia is set up, but the family diag needs the built-in sampler"),
        (Needs(sampling=True), "Julia is set up, but draws and several chains need the built-in sampler"),
        (
            Needs(to_learn="the prior is to be learned"),
            "Julia is set up, but the prior is to be learned, which needs the built-in sampler",
        ),
    ):
        assert choose_backend(Auto(), needs) == (Native(), reason)
    printed = choose_backend(Auto(ratio="printed"), Needs())
    assert printed == (Native(ratio="printed"), "Julia is set up, but the ratio printed needs the built-in sampler")
    assert choose_backend(Auto(), Needs()) == (Julia(), "Julia is set up and supports all settings")
    for ratio in ("jain-neal", "reference"):
        assert choose_backend(Auto(ratio=ratio), Needs()).backend == Julia(ratio=ratio)
    elsewhere = in_another_thread(lambda: choose_backend(Auto(), Needs()))
    assert elsewhere == (Native(), "Julia is set up, but Julia works only in the main thread")
    for asked in (Native(n_jobs=2), Julia(workers=2)):
        assert choose_backend(asked, Needs()) == (asked, "it was asked for")


def test_auto_without_julia_says_so(project: Path) -> None:
    (project / "Manifest.toml").unlink()
    chosen = choose_backend(Auto(min_cluster_age=5), Needs())
    assert chosen.backend == Native(min_cluster_age=5)
    assert chosen.reason.startswith("Julia cannot run here: the Julia project")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "the covariance type is to be chosen"),
        ({"covariance_type": "full"}, "the prior is to be learned"),
        ({"covariance_type": "full", "prior": DataPrior(width=1.0)}, "the prior is to be learned"),
        ({"prior": "reference"}, "several chains are to be compared (n_chains)"),
        ({"family": "multinomial"}, "several chains are to be compared (n_chains)"),
    ],
)
def test_defaults_are_the_same_with_and_without_julia(project: Path, options: dict[str, Any], reason: str) -> None:
    X = np.random.default_rng(0).integers(0, 9, (60, 2)).astype(np.float32)
    model = DPMM(max_iter=2, random_state=0, **options).fit(X)
    assert model.backend_ == "native"
    assert model.backend_reason_ == f"Julia is set up, but {reason}, which needs the built-in sampler"
    assert model.startup_seconds_ == 0.0


def test_the_summary_says_why_the_sampler_was_taken(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fit", "--example", "--iterations", "2", "--quiet", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["backend_reason"].startswith("Julia is set up, but the covariance type is to be chosen")
    assert summary["startup_seconds"] == 0
    assert cli.run(["fit", "--example", "--iterations", "2"]) == 0
    assert "native (Julia is set up, but the covariance type is to be chosen" in capsys.readouterr().out


def test_what_cannot_go_together_is_said_before_julia_is_started(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="the ratio printed needs the built-in sampler: backend should be native"):
        choose_backend(Julia(ratio="printed"), Needs())
    with pytest.raises(ValueError, match=r"backend should be auto, native, julia, dask, or one such as .*, not 'r'"):
        as_backend("r")
    monkeypatch.setattr(julia_workers, "_kept", [Team(2)])
    assert choose_backend(Auto(), Needs()) == (Julia(), "worker processes need it")
    with pytest.raises(ValueError, match="worker processes need the Julia backend"):
        choose_backend(Native(), Needs())
    with pytest.raises(ValueError, match="draws and several chains need the built-in sampler"):
        choose_backend(Auto(), Needs(sampling=True))


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
    path.write_text(
        "one@first.example*2\n\n# a remark\nsecond:2222   # its port\n"
        "third exename=/opt/julia/bin/julia dir='/scratch/my files' depot=/scratch/depot project=/scratch/project "
        "bridge=/scratch/DPMMWrapBridge ssh_config=/home/me/ssh OMP_NUM_THREADS=1 WORDS=a=b\n"
    )
    assert read_machines(path) == [
        Machine("one@first.example", 2),
        Machine("second:2222"),
        Machine(
            "third",
            1,
            "/opt/julia/bin/julia",
            "/scratch/my files",
            "/scratch/depot",
            "/scratch/project",
            "/scratch/DPMMWrapBridge",
            "/home/me/ssh",
            ("OMP_NUM_THREADS=1", "WORDS=a=b"),
        ),
    ]
    assert team_of(2, path).size == 6
    assert team_of(0, None) == Team()


@pytest.mark.parametrize("line", ["-oProxyCommand=x", "host*0", "'a b'", "host;true", "$(true)@host"])
def test_strange_machines_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "machines"
    path.write_text(f"good\n{line}\n")
    with pytest.raises(InputError, match="line 2: a machine should be written"):
        read_machines(path)


@pytest.mark.parametrize("setting", ["b", "exename=", "folder=/x", "ssh_config=-oProxyCommand=x", "lower=1", "=1"])
def test_strange_settings_of_machines_are_refused(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "machines"
    path.write_text(f"host*2 dir=/x {setting}\n")
    with pytest.raises(InputError, match="line 1: a setting should be NAME=value, with the name of a variable or one"):
        read_machines(path)


def test_an_open_quote_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_text("host dir='/x\n")
    with pytest.raises(InputError, match="line 1: No closing quotation"):
        read_machines(path)


def test_no_machines(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_text("# none\n")
    with pytest.raises(InputError, match="it names none"):
        read_machines(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_machines(tmp_path / "nowhere")


def test_a_team_of_nobody_is_refused_before_julia_is_started(project: Path) -> None:
    with pytest.raises(ValueError, match="needs a number of workers"), dpmmwrap.julia_workers():
        pass
    assert not julia_workers.are_kept()


def test_too_few_points_are_said_before_workers_are_started() -> None:
    nobody: Any = None
    with (
        pytest.raises(ValueError, match="8 workers need at least as many points, but there are 5"),
        julia_workers.for_a_fit(nobody, Team(8), 5),
    ):
        pass
