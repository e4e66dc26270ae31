"""The promises of the project's front page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="not in a clone")


def commands() -> list[str]:
    """What the README asks people to type in a shell."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    return [" ".join(block.replace("\\\n", " ").split()) for block in blocks]


def test_two_commands_do_everything() -> None:
    assert len(commands()) == 2
    main_job, tests = commands()
    assert "dpmmwrap fit" in main_job
    assert "pytest" in tests
    for command in commands():
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -e")


def test_continuous_integration_runs_the_test_command() -> None:
    script = " ".join((ROOT / ".ci" / "run").read_text().replace("\\\n", " ").split())
    assert commands()[1] in script
    assert ".ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
