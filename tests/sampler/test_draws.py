"""Draws in memory and in files."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from dpmmwrap.files import InputError, write_npz
from dpmmwrap.sampler import draws as module
from dpmmwrap.sampler.draws import FORMAT, Draws, labels_array, labels_file


def some_draws(labels: bool = True) -> Draws:
    rng = np.random.default_rng(0)
    shape = (2, 5)
    moves = rng.integers(0, 4, (4, *shape))
    return Draws(
        rng.integers(1, 4, shape),
        rng.gamma(1.0, size=shape),
        rng.normal(size=shape),
        rng.dirichlet(np.ones(3), shape),
        *moves,
        rng.integers(-1, 3, (*shape, 7)).astype(np.int32) if labels else None,
    )


def test_chains_draws_and_labels_one_after_the_other() -> None:
    draws = some_draws()
    assert (draws.n_chains, draws.n_draws) == (2, 5)
    assert draws.labels is not None and draws.kept_labels.shape == (10, 7)
    np.testing.assert_array_equal(draws.kept_labels[6], draws.labels[1, 1])
    assert np.shares_memory(draws.kept_labels, draws.labels)
    with pytest.raises(ValueError, match=r"^this needs the labels of the draws, which were not kept"):
        _ = some_draws(labels=False).kept_labels


@pytest.mark.parametrize("labels", [True, False])
def test_a_file_gives_back_what_was_saved(labels: bool, tmp_path: Path) -> None:
    draws = some_draws(labels)
    draws.save(tmp_path / "draws.npz")
    found = Draws.load(tmp_path / "draws.npz")
    for field in fields(draws):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(draws, field.name))
    assert (found.labels is None) == (not labels)


def test_labels_from_a_memory_map_are_saved(tmp_path: Path) -> None:
    draws = some_draws()
    assert draws.labels is not None
    mapped = np.lib.format.open_memmap(tmp_path / "labels.npy", "w+", np.int32, draws.labels.shape)
    mapped[:] = draws.labels
    replace(draws, labels=mapped[:, :3]).save(tmp_path / "draws.npz")
    with pytest.raises(InputError, match="do not belong together"):
        Draws.load(tmp_path / "draws.npz")
    replace(draws, labels=mapped).save(tmp_path / "draws.npz")
    np.testing.assert_array_equal(Draws.load(tmp_path / "draws.npz").labels, draws.labels)


def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "draws.npz"
    arrays = some_draws().arrays()
    for content, words in (
        ({"format": np.array("something else"), **arrays}, f"should be a '{FORMAT}' file"),
        ({"format": np.array(FORMAT), **{n: a for n, a in arrays.items() if n != "alpha"}}, "an array named alpha"),
        ({"format": np.array(FORMAT), **arrays, "alpha": arrays["alpha"][:1]}, "do not belong together"),
        ({"format": np.array(FORMAT), **arrays, "n_clusters": np.ones(3)}, "do not belong together"),
    ):
        write_npz(path, content)
        with pytest.raises(InputError, match=words) as error:
            Draws.load(path)
        assert "\n" not in str(error.value)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError):
        Draws.load(path)


def test_a_file_of_something_else_has_no_draws(tmp_path: Path) -> None:
    write_npz(tmp_path / "mixture.npz", {"counts": np.ones(3)})
    assert Draws.read(tmp_path / "mixture.npz", "draws_") is None


class TestWhereLabelsAreWritten:
    def test_few_are_kept_in_memory(self) -> None:
        found = labels_array((2, 3, 4))
        assert found.shape == (2, 3, 4) and found.dtype == np.int32
        assert type(found) is np.ndarray

    def test_many_in_a_file_that_goes_with_the_array(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(module, "IN_MEMORY", 95)
        monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
        found = labels_array((2, 3, 4))
        assert isinstance(found, np.memmap)
        found[1, 2, 3] = 7
        part = found[:, 2]
        (file,) = tmp_path.iterdir()
        assert file.stat().st_size > 96
        del found
        # A part of it keeps all of it.
        assert file.exists() and part[1, 3] == 7
        del part
        assert not file.exists()

    def test_a_full_disk_is_told_at_once(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
        with pytest.raises(InputError, match="bytes, but only"):
            labels_array((100, 10**6, 10**9))
        assert not list(tmp_path.iterdir())

    def test_beside_a_checkpoint_they_stay(self, tmp_path: Path) -> None:
        checkpoint = tmp_path / "run.npz"
        found = labels_array((1, 2, 3), checkpoint)
        found[:] = 5
        found.flush()  # type: ignore[attr-defined]
        del found
        assert labels_file(checkpoint) == tmp_path / "run.npz.labels.npy"
        again = labels_array((1, 2, 3), checkpoint)
        np.testing.assert_array_equal(again, np.full((1, 2, 3), 5))
        # Of another run: begun anew.
        other = labels_array((1, 2, 4), checkpoint)
        assert other.shape == (1, 2, 4) and not other.any()

    @pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': '<i4', "])
    def test_a_damaged_file_is_begun_anew(self, content: bytes, tmp_path: Path) -> None:
        labels_file(tmp_path / "run.npz").write_bytes(content)
        assert not labels_array((1, 2, 3), tmp_path / "run.npz").any()
