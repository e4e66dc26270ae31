"""What the project's front page, its workflows and its citation promise."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import dpmmwrap

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"

pytestmark = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="not in a clone")


def commands() -> list[str]:
    """What the README asks people to type in a shell."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    return [" ".join(block.replace("\\\n", " ").split()) for block in blocks]


def workflow(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8"))
    return read


def runs(name: str) -> str:
    """All commands of a workflow, one per line."""
    jobs = workflow(name)["jobs"].values()
    return "\n".join(step["run"] for job in jobs for step in job["steps"] if "run" in step)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_two_commands_do_everything() -> None:
    assert len(commands()) == 2
    main_job, tests = commands()
    assert "dpmmwrap fit" in main_job
    assert "pytest" in tests
    for command in commands():
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -e")


def test_continuous_integration_runs_the_test_command() -> None:
    script = " ".join((ROOT / ".ci" / "run").read_text(encoding="utf-8").replace("\\\n", " ").split())
    assert commands()[1] in script
    assert ".ci/run" in runs("ci").splitlines()


def test_every_python_and_system_is_tested() -> None:
    classifiers = " ".join(pyproject()["project"]["classifiers"])
    versions = re.findall(r"Python :: (3\.\d+)", classifiers)
    matrix = workflow("ci")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python-version"] == versions
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    # The oldest dependencies are those that the oldest Python can have.
    steps = [step.get("with", {}) for step in workflow("ci")["jobs"]["oldest"]["steps"]]
    assert [step["python-version"] for step in steps if "python-version" in step] == versions[:1]
    assert "--resolution lowest-direct" in runs("ci")


def test_slow_tests_run_somewhere() -> None:
    assert {"pytest -m slow -n auto", "pytest -m julia"} <= set(runs("nightly").splitlines())


def test_coverage_has_a_floor() -> None:
    assert pyproject()["tool"]["coverage"]["report"]["fail_under"] >= 65
    assert "--cov" in runs("ci")


def test_a_release_is_published_by_its_tag_and_without_a_password() -> None:
    text = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    # YAML 1.1 reads the key "on" as True.
    assert workflow("release")[True] == {"push": {"tags": ["v*"]}}
    publish = workflow("release")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
    # The expression by which the workflow finds the version.
    (pattern,) = re.findall(r"sed -n 's/(.*)/\\1/p'", text)
    source = (ROOT / "dpmmwrap" / "__init__.py").read_text(encoding="utf-8")
    assert re.findall(pattern.replace(r"\(", "(").replace(r"\)", ")"), source, flags=re.MULTILINE) == [
        dpmmwrap.__version__
    ]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dpmmwrap.__version__
    assert any("Common failure modes" in paper["title"] for paper in citation["references"])


@pytest.mark.parametrize("name", ["bug", "clusters", "idea"])
def test_issue_templates_ask_something(name: str) -> None:
    template = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(template)
    assert any(part.get("validations", {}).get("required") for part in template["body"])
