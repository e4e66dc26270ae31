"""Checkpoints: the chain's state in one file, written whole or not at all, and refused by any other run."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families.gaussian import NIW, Statistics
from dpmmwrap.files import InputError, read_arrays, write_npz
from dpmmwrap.sampler.data import measure
from dpmmwrap.trace import COLUMNS, Iteration, Trace

if TYPE_CHECKING:
    from dpmmwrap.arrays import Float32Array
    from dpmmwrap.backends import Settings
    from dpmmwrap.sampler.chain import Chain

ROWS_AT_A_TIME = 1 << 16
ARRAYS = ("labels", "sublabels", "counts", "means", "scatters", "records")


def save(chain: Chain) -> None:
    """Write the chain to its checkpoint file."""
    assert chain.settings.checkpoint is not None
    state, points = chain.state, chain.points
    arrays: dict[str, Any] = {
        "labels": points.labels,
        "sublabels": points.sublabels,
        "counts": state.subclusters.counts,
        "means": state.subclusters.means,
        "scatters": state.subclusters.scatters,
        "records": state.records,
        "iteration": np.int64(state.iteration),
        "randomness": np.array(json.dumps(chain.rng.bit_generator.state, default=np.ndarray.tolist)),
        "identity": np.array(json.dumps(identity(chain))),
    }
    arrays |= {f"trace_{column}": chain.trace[column] for column in COLUMNS}
    write_npz(chain.settings.checkpoint, arrays)


def resume(chain: Chain) -> bool:
    """Go on from the checkpoint file if there is one; a file of another run is refused with the reason."""
    path = chain.settings.checkpoint
    if path is None or not path.exists():
        return False
    names = (*ARRAYS, "iteration", "randomness", "identity", *(f"trace_{column}" for column in COLUMNS))
    arrays = read_arrays(path, required=names)
    try:
        theirs, randomness = (json.loads(str(arrays[name])) for name in ("identity", "randomness"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not a checkpoint of this program, or it is damaged") from error
    ours = identity(chain)
    for name, value in ours.items():
        if theirs.get(name) != value:
            was, now = theirs.get(name), value
            what = "data" if name == "data" else f"{name} ({was} there, {now} here)"
            raise InputError(f"the checkpoint {path} belongs to a run with other {what}; remove it or name another")
    points, state = chain.points, chain.state
    points.labels[:] = arrays["labels"]
    points.sublabels[:] = arrays["sublabels"]
    state.subclusters = Statistics(arrays["counts"], arrays["means"], arrays["scatters"])
    chain.evidence = measure(chain.model, state.subclusters)
    state.records = arrays["records"]
    state.iteration = int(arrays["iteration"])
    chain.rng.bit_generator.state = randomness
    columns = [arrays[f"trace_{column}"].tolist() for column in COLUMNS]
    chain.trace = Trace([Iteration(*values) for values in zip(*columns, strict=True)])
    return True


def identity(chain: Chain) -> dict[str, Any]:
    """What has to be the same for a run to go on, by name: small values as they are, large ones by digest."""
    if chain.identity is None:
        chain.identity = {"data": data_digest(chain.points.X), **settings_identity(chain.settings)}
    return chain.identity


def settings_identity(settings: Settings) -> dict[str, Any]:
    first = settings.init_clusters
    return {
        "concentration": settings.alpha,
        "prior": prior_digest(settings.prior),
        "start": getattr(settings.initializer, "name", type(settings.initializer).__qualname__),
        "number of iterations": settings.max_iter,
        "burnout": settings.burnout,
        "seed": settings.seed,
        "first clusters": first if isinstance(first, int) else digest(np.ascontiguousarray(first)),
        "max_clusters": settings.max_clusters,
        "outlier weight": settings.outlier_weight,
        "outlier prior": None if settings.outlier_prior is None else prior_digest(settings.outlier_prior),
        "merge ratio": settings.merge_ratio,
        "fresh_start_after": settings.fresh_start_after,
    }


def prior_digest(prior: NIW) -> str:
    strength = np.array([prior.mean_strength, prior.degrees_of_freedom])
    return digest(np.concatenate([prior.mean, prior.scale.ravel(), strength]))


def data_digest(X: Float32Array) -> str:
    """A digest of the shape and every byte, read in pieces."""
    total = hashlib.blake2b(repr(X.shape).encode(), digest_size=16)
    for begin in range(0, len(X), ROWS_AT_A_TIME):
        total.update(np.ascontiguousarray(X[begin : begin + ROWS_AT_A_TIME]).data)
    return total.hexdigest()


def digest(array: Any) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
