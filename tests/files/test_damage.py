"""Damaged files, read by every reader there is: they end in one sentence, or give something that can be used.

Bytes are flipped, cut out and put in by a seeded generator. Of files with checksums, what is read is what was written.
"""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap.evaluation.images import read_idx
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.files import Selection, read_data, read_labels, read_names
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.posterior.mixture_file import load
from dpmmwrap.sampler.draws import Draws

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).round(3)
KINDS = RNG.choice(["red", "green", "blue"], 40)
ROWS = [f"r{i},{a},{b},{k}\n" for i, (a, b, k) in enumerate(zip(X[:, 0], X[:, 1], KINDS, strict=True))]
TEXT = "id,width,height,kind\n" + "".join(ROWS)
DAMAGES = 60


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """A few bits flipped, a piece cut out, the end cut off, or a piece of anything put in."""
    place = int(rng.integers(len(content)))
    size = int(rng.integers(1, 9))
    kind = int(rng.integers(4))
    if kind == 0:
        turned = bytearray(content)
        for _ in range(size):
            turned[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        return bytes(turned)
    if kind == 1:
        return content[:place] + content[place + size :]
    if kind == 2:
        return content[:place]
    return content[:place] + rng.bytes(size) + content[place:]


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"width": X[:, 0], "height": X[:, 1], "kind": KINDS})


def mixture() -> Mixture:
    labels = np.repeat([0, 1], 20).astype(np.int32)
    found = Mixture.from_labels(X, labels, NIW.reference(3))
    prepared = Preparation.learn(X, True, 0, ("a", "b", "c"))
    return Mixture(found.counts, found.posterior, feature_names=("a", "b", "c"), preparation=prepared)


def draws() -> Draws:
    numbers = {name: np.ones((2, 5)) for name in ("alpha", "log_posterior")}
    moves = {name: np.ones((2, 5), int) for name in ("splits", "splits_proposed", "merges", "merges_proposed")}
    return Draws(n_clusters=np.ones((2, 5), int), weights=np.ones((2, 5, 1)), **numbers, **moves)


def write_sheet(path: Path) -> None:
    pytest.importorskip("openpyxl")
    frame().to_excel(path, index=False)


def write_idx(path: Path) -> None:
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + struct.pack(">3I", 4, 5, 5) + bytes(range(100)), mtime=0))


WRITERS: dict[str, Callable[[Path], object]] = {
    "x.npy": lambda path: np.save(path, X),
    "x.npz": lambda path: np.savez_compressed(path, X=X, y=np.arange(40) % 3),
    "counts.npz": lambda path: sparse.save_npz(path, sparse.csr_matrix(np.abs(X) > 1)),
    "x.csv": lambda path: path.write_text(TEXT),
    "x.tsv": lambda path: path.write_text(TEXT.replace(",", "\t")),
    "x.csv.gz": lambda path: path.write_bytes(gzip.compress(TEXT.encode(), mtime=0)),
    "x.parquet": lambda path: frame().to_parquet(path),
    "x.feather": lambda path: frame().to_feather(path),
    "x.xlsx": write_sheet,
    "y.txt": lambda path: path.write_text("\n".join(KINDS)),
    "y.npy": lambda path: np.save(path, KINDS),
    "model.npz": lambda path: mixture().save(path),
    "draws.npz": lambda path: draws().save(path),
    "idx3.gz": write_idx,
}

Reader = Callable[[Path], Any]


def as_table(path: Path) -> Any:
    read_names(path)
    return read_data(path, kind="table").X


def as_numbers(path: Path) -> Any:
    return read_data(path, gaps=True).X


def two_columns(path: Path) -> Any:
    wanted = Selection(columns=("width", "height"), labels="kind")
    return read_data(path, gaps=True, wanted=wanted).X


READERS: dict[str, tuple[Reader, ...]] = {
    "x.npy": (as_numbers, as_table),
    "x.npz": (as_numbers, as_table),
    "counts.npz": (lambda path: read_data(path, kind="counts").X,),
    "y.txt": (lambda path: read_labels(path, 40),),
    "y.npy": (lambda path: read_labels(path, 40),),
    "model.npz": (lambda path: load(path).predict(X),),
    "draws.npz": (lambda path: Draws.load(path).n_clusters,),
    "idx3.gz": (read_idx,),
}
CHECKED = ("x.npz", "counts.npz", "x.csv.gz", "model.npz", "draws.npz", "idx3.gz")
"""Files with checksums of all that they hold."""


def told(reader: Reader, path: Path) -> Any:
    """What is read, or the sentence that says why nothing is."""
    try:
        return reader(path)
    except ValueError as error:
        sentence = str(error)
        assert sentence and "\n" not in sentence, sentence
        return sentence


def as_text(found: Any) -> str:
    if isinstance(found, dict):
        return json.dumps({name: column.tolist() for name, column in found.items()})
    return str((found.toarray() if sparse.issparse(found) else np.asarray(found)).tolist())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITERS)
def test_damage_is_told_in_one_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    content = path.read_bytes()
    rng = np.random.default_rng(list(name.encode()))
    for reader in READERS.get(name, (as_table, two_columns)):
        whole = told(reader, path)
        sentences = 0
        for _ in range(DAMAGES):
            path.write_bytes(damaged(content, rng))
            found = told(reader, path)
            sentences += isinstance(found, str)
            if name in CHECKED and not isinstance(found, str):
                assert as_text(found) == as_text(whole)
        # A test that damages nothing would pass, too.
        assert sentences > DAMAGES / 10
        path.write_bytes(content)


@pytest.mark.filterwarnings("ignore")
def test_headers_of_arrays(tmp_path: Path) -> None:
    """Within the header every flip counts: numpy takes it for Python, whose parser has many kinds of errors."""
    path = tmp_path / "x.npy"
    np.save(path, X)
    content = path.read_bytes()
    for place in range(6, 80):
        for bit in (0, 3, 6):
            turned = bytearray(content)
            turned[place] ^= 1 << bit
            path.write_bytes(turned)
            told(as_numbers, path)


def test_damaged_weights_are_never_used(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from dpmmwrap.splitnet.network import SplitNet, architecture
    from dpmmwrap.splitnet.weights_io import load_weights, save_weights

    path = tmp_path / "w.safetensors"
    with torch.random.fork_rng():
        save_weights(path, SplitNet(architecture("paper", 2)), {})
    assert load_weights(path).dim == 2
    content, rng = path.read_bytes(), np.random.default_rng(1)
    for _ in range(DAMAGES):
        path.write_bytes(damaged(content, rng))
        assert isinstance(told(load_weights, path), str)


def test_the_weights_that_are_shipped_are_those_of_their_card() -> None:
    from dpmmwrap.splitnet.weights_io import CHECKSUM, card_path, load_weights, shipped_path

    assert CHECKSUM in json.loads(card_path(shipped_path()).read_text())
    assert load_weights(shipped_path()).dim is None


def test_damaged_checkpoints_of_a_training(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from dpmmwrap.splitnet.training import Training, TrainingSettings

    settings, path = TrainingSettings((2,), steps=2, batch=1), tmp_path / "w.checkpoint"
    Training(settings).save_checkpoint(path)
    content, rng = path.read_bytes(), np.random.default_rng(2)
    training = Training(settings)
    for _ in range(DAMAGES // 3):
        path.write_bytes(damaged(content, rng))
        told(training.load_checkpoint, path)


@pytest.mark.filterwarnings("ignore")
def test_damaged_checkpoints_of_a_chain(tmp_path: Path) -> None:
    from dpmmwrap import DPMM, Native

    path = tmp_path / "chain.ckpt"
    model = DPMM(backend=Native(checkpoint=path), init="kmeans", max_iter=3, n_chains=1, random_state=0)
    whole = model.fit(X).labels_.tolist()
    content, rng = path.read_bytes(), np.random.default_rng(3)
    for _ in range(DAMAGES // 3):
        path.write_bytes(damaged(content, rng))
        found = told(lambda _: model.fit(X).labels_, path)
        assert isinstance(found, str) or found.tolist() == whole
