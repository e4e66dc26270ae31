"""A folder that was written to before."""

import json
from pathlib import Path

QUICK = ("--init", "kmeans", "--iterations", 5, "--backend", "native", "--chains", 1)


def test_what_an_earlier_fit_wrote_goes(run, three: Path) -> None:
    out = three.parent / "out"
    assert run("fit", three, *QUICK, "--draws", 5, "--out", out).code == 0
    assert (out / "draws.npz").exists() and (out / "confidence.npy").exists()
    (out / "notes.txt").write_text("mine")
    done = run("fit", three, *QUICK, "--out", out)
    assert "(removed confidence.npy, draws.npz, " in done.out and "chains.png of an earlier fit)" in done.out
    left = {path.name for path in out.iterdir()}
    assert left == {"notes.txt", "dpmmwrap-files.json", *json.loads((out / "dpmmwrap-files.json").read_text())["files"]}
    assert not left & {"draws.npz", "confidence.npy", "posterior.png"}


def test_what_may_not_be_ours_stays_and_is_said(run, three: Path) -> None:
    out = three.parent / "out"
    assert run("fit", three, *QUICK, "--draws", 5, "--out", out).code == 0
    # Another file by the same name, and one that no manifest knows.
    (out / "draws.npz").write_bytes(b"something else")
    (out / "rows.npy").write_bytes(b"somebody's")
    (out / "dpmmwrap-files.json").write_text(
        json.dumps({"files": json.loads((out / "dpmmwrap-files.json").read_text())["files"] | {"../three.npz": 1}})
    )
    done = run("fit", three, *QUICK, "--out", out)
    assert "rows.npy, draws.npz are from an earlier fit" in done.out
    assert (out / "draws.npz").read_bytes() == b"something else" and three.exists()


def test_a_damaged_manifest_is_no_trouble(run, three: Path) -> None:
    out = three.parent / "out"
    for text in ("{", "[]", '{"files": 3}', '{"files": {"labels.npy": "x"}}'):
        out.mkdir(exist_ok=True)
        (out / "dpmmwrap-files.json").write_text(text)
        assert run("fit", three, *QUICK, "--out", out).code == 0
