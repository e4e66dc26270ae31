"""Checkpoints: the chain's state in one file, written whole or not at all, and refused by any other run."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.files import InputError, read_arrays, write_npz
from dpmmwrap.trace import COLUMNS, Iteration, Trace

if TYPE_CHECKING:
    from dpmmwrap.backends import Settings
    from dpmmwrap.sampler.chain import Chain

ROWS_AT_A_TIME = 1 << 16
ARRAYS = ("labels", "sublabels", "records", "alpha", "counters", "randomness", "identity")


def save(chain: Chain) -> None:
    """Write the chain to its checkpoint file."""
    settings, state = chain.context.settings, chain.state
    assert settings.checkpoint is not None
    arrays: dict[str, Any] = {
        "labels": state.labels,
        "sublabels": state.sublabels,
        "records": state.records,
        "alpha": np.float64(state.alpha),
        "counters": np.array([state.iteration, state.exact_due, state.exact_wait]),
        "randomness": np.array(json.dumps(chain.rng.bit_generator.state, default=np.ndarray.tolist)),
        "identity": np.array(json.dumps(identity(chain))),
    }
    arrays |= {f"subclusters_{name}": array for name, array in state.subclusters._asdict().items()}
    arrays |= {f"trace_{column}": chain.trace[column] for column in COLUMNS}
    write_npz(settings.checkpoint, arrays)


def resume(chain: Chain) -> bool:
    """Go on from the checkpoint file if there is one; a file of another run is refused with the reason."""
    path, state = chain.context.settings.checkpoint, chain.state
    if path is None or not path.exists():
        return False
    statistics = tuple(f"subclusters_{name}" for name in state.subclusters._fields)
    arrays = read_arrays(path, required=("identity",))
    try:
        theirs = json.loads(str(arrays["identity"]))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not a checkpoint of this program, or it is damaged") from error
    for name, value in identity(chain).items():
        if theirs.get(name) != value:
            was, now = theirs.get(name), value
            what = "data" if name == "data" else f"{name} ({was} there, {now} here)"
            raise InputError(f"the checkpoint {path} belongs to a run with other {what}; remove it or name another")
    arrays = read_arrays(path, required=(*ARRAYS, *statistics, *(f"trace_{column}" for column in COLUMNS)))
    try:
        randomness = json.loads(str(arrays["randomness"]))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not a checkpoint of this program, or it is damaged") from error
    state.labels[:] = arrays["labels"]
    state.sublabels[:] = arrays["sublabels"]
    state.subclusters = type(state.subclusters)(*(arrays[name] for name in statistics))
    state.records, state.alpha = arrays["records"], float(arrays["alpha"])
    state.iteration, state.exact_due, state.exact_wait = (int(counter) for counter in arrays["counters"])
    state.posteriors = chain.context.data.compute_posteriors(chain.context.model, state.subclusters)
    chain.rng.bit_generator.state = randomness
    columns = [arrays[f"trace_{column}"].tolist() for column in COLUMNS]
    chain.trace = Trace([Iteration(*values) for values in zip(*columns, strict=True)])
    return True


def identity(chain: Chain) -> dict[str, Any]:
    """What has to be the same for a run to go on, by name: small values as they are, large ones by digest."""
    if chain.identity is None:
        chain.identity = {"data": chain.context.data.digest(), **settings_identity(chain.context.settings)}
    return chain.identity


def settings_identity(settings: Settings) -> dict[str, Any]:
    first = settings.init_clusters
    return {
        "concentration": settings.alpha if settings.alpha_prior is None else list(settings.alpha_prior),
        "prior": prior_digest(settings.prior),
        "start": start_identity(settings.initializer),
        "number of iterations": settings.max_iter,
        "min_cluster_age": settings.min_cluster_age,
        "seed": settings.seed,
        "first clusters": first if isinstance(first, int) else digest(np.ascontiguousarray(first)),
        "max_clusters": settings.max_clusters,
        "outlier weight": settings.outlier_weight,
        "outlier prior": None if settings.outlier_prior is None else prior_digest(settings.outlier_prior),
        "acceptance ratio": settings.acceptance_ratio,
        "restart_after": settings.restart_after,
    }


def start_identity(initializer: Any) -> str:
    """A start by its own word for what it depends on (options, weights), or by its name."""
    own = getattr(initializer, "identity", None)
    return str(own) if own is not None else str(getattr(initializer, "name", type(initializer).__qualname__))


def prior_digest(prior: Prior) -> str:
    fields = [np.ravel(np.asarray(getattr(prior, name), dtype=np.float64)) for name in prior.FIELDS]
    return f"{prior.family} {digest(np.concatenate(fields))}"


def rows_digest(X: Points) -> str:
    """A digest of the shape and every byte of a dense array, read in pieces."""
    total = hashlib.blake2b(repr(X.shape).encode(), digest_size=16)
    for begin in range(0, len(X), ROWS_AT_A_TIME):
        total.update(np.ascontiguousarray(X[begin : begin + ROWS_AT_A_TIME]).data)
    return total.hexdigest()


def digest(array: Any) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
