"""What all pictures have in common."""

import subprocess
import sys

import pytest

from dpmmwrap.describe import plotting, wording
from dpmmwrap.describe.plotting import theme

pytest.importorskip("matplotlib")


def test_the_settings_of_the_user_stay() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with theme.new_figure(2.0, 2.0):
        assert dict(matplotlib.rcParams) != before
    assert dict(matplotlib.rcParams) == before


def test_matplotlib_is_imported_by_drawing_only() -> None:
    script = (
        "import sys, dpmmwrap.describe.plotting, dpmmwrap.evaluation.figures; sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_one_is_one() -> None:
    assert [wording.counted(number, "cluster") for number in (0, 1, 2, 1000)] == [
        "0 clusters", "1 cluster", "2 clusters", "1,000 clusters",
    ]  # fmt: skip


def test_every_name_is_there() -> None:
    for name in plotting.__all__:
        assert getattr(plotting, name) is not None
