"""The client and the scheduler never hold the data, nor the labels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from dpmmwrap import DPMM


def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def block(block_info=None):
    begin, end = block_info[None]["array-location"][0]
    rng = np.random.default_rng(begin)
    labels = rng.integers(0, 4, end - begin)
    return (10.0 * np.eye(4, 10)[labels] + rng.normal(size=(end - begin, 10))).astype(np.float32)


if __name__ == "__main__":
    settings = {"covariance_type": "full", "init": "kmeans", "max_iter": 20, "random_state": 0}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        found = []
        for rows in (100_000, ROWS):
            # Never on this process: workers make the blocks that they need.
            X = da.map_blocks(block, chunks=((100_000,) * (rows // 100_000), (10,)), dtype=np.float32)
            model = DPMM(**settings).fit(X)
            found.append(peak())
        print(json.dumps({"before": found[0], "after": found[1], "clusters": model.n_clusters_}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_the_memory_of_client_and_scheduler_is_bounded(tmp_path: Path) -> None:
    """With a local cluster both are the same process: 6 million points have 240 MB, and labels another 24."""
    rows = 6_000_000
    path = tmp_path / "fit.py"
    path.write_text(SCRIPT.replace("ROWS", str(rows)))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, timeout=400)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["clusters"] > 1
    assert found["after"] - found["before"] < 20, found
