"""Checkpoints: the chain's state in one file, written whole or not at all, and refused by any other run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families import prior_from_fields
from dpmmwrap.families.base import Prior
from dpmmwrap.files import InputError, read_arrays, write_npz
from dpmmwrap.numerics.cells import NearestCentre
from dpmmwrap.numerics.digests import digest
from dpmmwrap.sampler.draws import labels_file
from dpmmwrap.sampler.moves.single_points import Founders
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.record import Moves, Record, Sample
from dpmmwrap.sampler.state import Best
from dpmmwrap.sampler.trace import COLUMNS, Iteration, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from dpmmwrap.sampler.chain import Chain
    from dpmmwrap.sampler.settings import Settings

ARRAYS = ("labels", "sublabels", "records", "partition_values", "counters", "randomness", "identity")
LOOKED_AT = 10
"""Draws whose labels are compared with what else is known of them."""
BEST = ("best_labels", "best_sublabels", "best_numbers")
CANDIDATES = ("candidate_labels", "candidate_sublabels", "candidate_numbers")
SAMPLED = (
    "sampled",
    "sampled_values",
    "samples",
    "sampled_weights",
    "sampled_moves",
    "founders",
    "founders_cumulative",
)


def path_of(settings: Settings, number: int) -> Path | None:
    """The file of a chain: the first has the name that was given, the others a number after it."""
    path = settings.checkpoint
    return path if path is None or not number else path.with_name(f"{path.name}.chain{number + 1}")


def save(chain: Chain) -> None:
    """Write the chain to its checkpoint file."""
    path, state = path_of(chain.context.settings, chain.number), chain.state
    assert path is not None
    data = chain.context.data
    arrays: dict[str, Any] = {
        **data.saved_labels(state, chain.best, path),
        "records": state.records,
        "partition_values": np.array(state.partition_prior.values),
        "counters": np.array([state.iteration, state.exact_due, state.exact_wait, chain.last]),
        "randomness": np.array(json.dumps(chain.rng.bit_generator.state, default=np.ndarray.tolist)),
        "identity": np.array(json.dumps(identity(chain))),
    }
    arrays |= {f"subclusters_{name}": array for name, array in state.subclusters._asdict().items()}
    arrays |= {f"trace_{column}": chain.trace[column] for column in COLUMNS}
    if chain.best is not None:
        arrays["best_numbers"] = np.array([chain.best.log_posterior, *chain.best.partition_prior.values])
    candidates = list(chain.best_of_size.values())
    if candidates:
        numbers = [(one.log_posterior, *one.partition_prior.values) for one in candidates]
        values = [one.labels for one in candidates], [one.sublabels for one in candidates], numbers
        arrays |= {name: np.array(value) for name, value in zip(CANDIDATES, values, strict=True)}
    if chain.context.settings.hyperprior is not None:
        arrays |= prior_arrays("prior", [chain.context.model.prior])
        arrays |= prior_arrays("best_prior", [] if chain.best is None else [chain.best.prior])
        arrays |= prior_arrays("candidate_prior", [one.prior for one in candidates])
        arrays |= prior_arrays("sampled_prior", [sample.prior for sample in chain.record.samples])
    if chain.partition is not None:
        arrays |= sampled_arrays(chain, chain.partition)
    write_npz(path, arrays)
    data.have_saved(path)


def sampled_arrays(chain: Chain, partition: Partition) -> dict[str, Any]:
    """Where sampling stands, and what has been drawn; the labels of draws are in a file of their own."""
    samples, record = chain.record.samples, chain.record
    if record.labels is not None and isinstance(record.labels.base, np.memmap):
        record.labels.base.flush()
    arrays: dict[str, Any] = {
        "sampled": np.array([chain.sampled, partition.n_clusters]),
        "sampled_values": np.array(partition.partition_prior.values),
        "samples": np.array([(one.n_clusters, one.log_posterior, *one.partition_prior.values) for one in samples]),
        "sampled_weights": np.concatenate([np.empty(0), *(sample.weights for sample in samples)]),
        "sampled_moves": np.array([*record.moves, record.moved], np.int64),
        "founders": chain.founders.rows,
        "founders_cumulative": chain.founders.cumulative,
    }
    return arrays | {f"clusters_{place}": leaf for place, leaf in enumerate(leaves(partition.clusters))}


def leaves(bundle: Any) -> list[Any]:
    """All arrays of a bundle of clusters, and of the bundles in it."""
    if isinstance(bundle, np.ndarray):
        return [bundle]
    return [leaf for part in bundle for leaf in leaves(part)] if isinstance(bundle, tuple) else []


def resume(chain: Chain) -> bool:
    """Go on from the checkpoint file if there is one; a file of another run is refused with the reason."""
    path, state = path_of(chain.context.settings, chain.number), chain.state
    if path is None or not path.exists():
        return False
    statistics = tuple(f"subclusters_{name}" for name in state.subclusters._fields)
    arrays = read_arrays(path, required=("identity",))
    try:
        theirs = json.loads(str(arrays["identity"]))
    except json.JSONDecodeError as error:
        raise damaged(path) from error
    for name, value in identity(chain).items():
        if theirs.get(name) != value:
            was, now = theirs.get(name), value
            what = "data" if name == "data" else f"{name} ({was} there, {now} here)"
            raise InputError(f"the checkpoint {path} belongs to a run with other {what}; remove it or name another")
    needed = (*ARRAYS, *statistics, *(f"trace_{column}" for column in COLUMNS))
    arrays = read_arrays(path, required=needed, optional=(*BEST, *CANDIDATES, *SAMPLED))
    try:
        restore(chain, arrays, statistics, lambda name: read_priors(chain, path, name))
        if "sampled" in arrays:
            priors = read_priors(chain, path, "sampled_prior")
            restore_sampling(chain, read_arrays(path, required=SAMPLED), read_clusters(chain, path), priors)
        else:
            state.posteriors = chain.context.data.compute_posteriors(chain.context.model, state.subclusters)
    except InputError:
        raise
    except (IndexError, TypeError, ValueError) as error:
        raise damaged(path) from error
    if not has_labels(chain.record):
        raise InputError(
            f"{labels_file(chain.context.settings.checkpoint or path)} should hold the labels of the draws so far, and "
            f"does not: put it back, or remove the checkpoint {path}"
        )
    return True


def prior_arrays(name: str, priors: list[Prior]) -> dict[str, Any]:
    """The fields of some priors, one row each."""
    fields = priors[0].FIELDS if priors else ()
    return {f"{name}_{field}": np.array([getattr(prior, field) for prior in priors]) for field in fields}


def read_priors(chain: Chain, path: Path, name: str) -> list[Prior]:
    """What `prior_arrays` has put into a file."""
    prior = chain.context.settings.prior
    names = tuple(f"{name}_{field}" for field in prior.FIELDS)
    found = read_arrays(path, required=(), optional=names)
    if not found:
        return []
    return [prior_from_fields(prior.family, fields) for fields in zip(*(found[name] for name in names), strict=True)]


def restore(
    chain: Chain, arrays: dict[str, Any], statistics: tuple[str, ...], priors: Callable[[str], list[Prior]]
) -> None:
    """Put the state of the search and what it has found back as they were."""
    state = chain.state
    best_labels, best_sublabels = chain.context.data.restored_labels(state, arrays)
    state.subclusters = type(state.subclusters)(*(arrays[name] for name in statistics))
    begun = chain.context.settings.partition_prior
    state.records, state.partition_prior = arrays["records"], begun.at(tuple(arrays["partition_values"].tolist()))
    state.iteration, state.exact_due, state.exact_wait, chain.last = map(int, arrays["counters"])
    if chain.context.settings.hyperprior is not None:
        chain.use_prior(priors("prior")[0])
    chain.rng.bit_generator.state = json.loads(str(arrays["randomness"]))
    columns = [arrays[f"trace_{column}"].tolist() for column in COLUMNS]
    chain.trace = Trace([Iteration(*values) for values in zip(*columns, strict=True)])
    if "best_numbers" in arrays:
        log_posterior, *values = arrays["best_numbers"].tolist()
        prior = [*priors("best_prior"), chain.context.settings.prior][0]
        chain.best = Best(log_posterior, best_labels, best_sublabels, begun.at(tuple(values)), prior)
    if "candidate_labels" in arrays:
        labels, sublabels, numbers = (arrays[name] for name in CANDIDATES)
        its_priors = priors("candidate_prior") or [chain.context.settings.prior] * len(labels)
        for own, sides, (log_posterior, *values), prior in zip(
            labels, sublabels, numbers.tolist(), its_priors, strict=True
        ):
            found = Best(log_posterior, own, sides, begun.at(tuple(values)), prior)
            chain.best_of_size[int(own.max()) + 1] = found


def read_clusters(chain: Chain, path: Path) -> Any:
    """The bundle of clusters of the partition."""
    stored = read_arrays(path, required=("clusters_0",))["clusters_0"]
    clusters = chain.context.data.empty_clusters(chain.context.model, len(stored) - 1)
    own = leaves(clusters)
    found = read_arrays(path, required=tuple(f"clusters_{place}" for place in range(len(own))))
    for place, leaf in enumerate(own):
        # What belongs to the prior is there already.
        if leaf.flags.writeable and len(leaf) == len(stored):
            if leaf.shape != found[f"clusters_{place}"].shape:
                raise damaged(path)
            leaf[...] = found[f"clusters_{place}"]
    return clusters


def restore_sampling(chain: Chain, arrays: dict[str, Any], clusters: Any, priors: list[Prior]) -> None:
    """Put a partition and its record back as they were."""
    chain.sampled, count = (int(number) for number in arrays["sampled"])
    begun = chain.context.settings.partition_prior
    now = begun.at(tuple(arrays["sampled_values"].tolist()))
    chain.partition = Partition(now, chain.state.labels, clusters, count)
    chain.founders = Founders(arrays["founders"], arrays["founders_cumulative"])
    rows = arrays["samples"].reshape(-1, 2 + len(begun.values)).tolist()
    weights = np.split(arrays["sampled_weights"], np.cumsum([int(row[0]) for row in rows]))[:-1]
    priors = priors or [chain.context.settings.prior] * len(rows)
    chain.record.samples = [
        Sample(int(number), begun.at(tuple(values)), log_posterior, own_weights, prior)
        for (number, log_posterior, *values), own_weights, prior in zip(rows, weights, priors, strict=True)
    ]
    chain.record.moves = [Moves(*row) for row in arrays["sampled_moves"][:-1].tolist()]
    chain.record.moved[:] = arrays["sampled_moves"][-1]
    whole = len(arrays["sampled_weights"]) == sum(sample.n_clusters for sample in chain.record.samples)
    if not whole or len(chain.record.moves) != len(rows) or len(chain.founders.rows) != len(chain.founders.cumulative):
        raise ValueError("the arrays of draws do not belong together")


def has_labels(record: Record) -> bool:
    """Whether the labels of draws that are kept are those of its samples, as far as a look at some of them tells."""
    if record.labels is None or not record.samples:
        return True
    for draw in np.unique(np.linspace(0, len(record) - 1, LOOKED_AT).astype(int)):
        labels, weights = np.asarray(record.labels[draw]), record.samples[draw].weights
        if labels.min() < -1:
            return False
        counts = np.bincount(labels + 1)[1:]
        if not np.array_equal(counts / len(labels), weights):
            return False
    return True


def damaged(path: Path) -> InputError:
    return InputError(f"{path} is not a checkpoint of this program, or it is damaged")


def identity(chain: Chain) -> dict[str, Any]:
    """What has to be the same for a run to go on, by name: small values as they are, large ones by digest."""
    if chain.identity is None:
        chain.identity = {"data": chain.context.data.digest(), **settings_identity(chain.context.settings)}
    return chain.identity


def settings_identity(settings: Settings) -> dict[str, Any]:
    first = settings.init_clusters
    return {
        "partition prior": repr(settings.partition_prior),
        "prior": prior_digest(settings.prior),
        "hyperprior": None if settings.hyperprior is None else settings.hyperprior.identity(),
        "start": start_identity(settings.initializer),
        "number of iterations": "auto" if settings.stop_when_flat else settings.max_iter,
        "number of chains": settings.n_chains,
        "number of draws": settings.n_draws,
        "thin": settings.thin,
        "keep_labels": settings.keep_labels,
        "min_cluster_age": settings.min_cluster_age,
        "seed": settings.seed,
        "first clusters": first_identity(first),
        "other starts": [first_identity(other) for other in settings.other_starts],
        "max_clusters": settings.max_clusters,
        "outlier weight": settings.outlier_weight,
        "outlier prior": None if settings.outlier_prior is None else prior_digest(settings.outlier_prior),
        "acceptance ratio": settings.acceptance_ratio,
        "restart_after": settings.restart_after,
    }


def first_identity(first: Any) -> int | str:
    """A number of clusters to begin with, or a word for the labels, or for the centres by which points have theirs."""
    if isinstance(first, (int, np.integer)):
        return int(first)
    return digest(np.ascontiguousarray(first.centres if isinstance(first, NearestCentre) else first))


def start_identity(initializer: Any) -> str:
    """A start by its own word for what it depends on (options, weights), or by its name."""
    own = getattr(initializer, "identity", None)
    return str(own) if own is not None else str(getattr(initializer, "name", type(initializer).__qualname__))


def prior_digest(prior: Prior) -> str:
    fields = [np.ravel(np.asarray(getattr(prior, name), dtype=np.float64)) for name in prior.FIELDS]
    return f"{prior.family} {digest(np.concatenate(fields))}"
