"""Checkpoints: the state of a chain in one file, which is written atomically and rejected by any other run."""

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
from dpmmwrap.sampler.proposals import ClusterSeeds
from dpmmwrap.sampler.record import Moves, Record, Sample
from dpmmwrap.sampler.state import Best, State
from dpmmwrap.sampler.trace import COLUMNS, Iteration, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from dpmmwrap.sampler.problem import Problem
    from dpmmwrap.sampler.settings import Settings

ARRAYS = ("labels", "sublabels", "records", "partition_values", "counters", "randomness", "identity")
LOOKED_AT = 10
"""Number of draws whose labels are checked against their weights."""
BEST = ("best_labels", "best_sublabels", "best_numbers")
CANDIDATES = ("candidate_labels", "candidate_sublabels", "candidate_numbers")
SAMPLED = (
    "sampled",
    "samples",
    "sampled_weights",
    "sampled_moves",
    "cluster_seeds",
    "cluster_seeds_cumulative",
)


def path_of(settings: Settings, number: int) -> Path | None:
    """The checkpoint file of a chain: the given name for the first chain, with a number appended for the others."""
    path = settings.checkpoint
    return path if path is None or not number else path.with_name(f"{path.name}.chain{number + 1}")


def save(state: State, problem: Problem) -> None:
    """Write the state to the chain's checkpoint file."""
    path = path_of(problem.settings, problem.number)
    assert path is not None
    arrays: dict[str, Any] = {
        **problem.data.saved_labels(state, path),
        "records": state.records,
        "partition_values": np.array(state.partition_prior.values),
        "counters": np.array([state.iteration, state.exact_due, state.exact_wait, state.last]),
        "randomness": np.array(json.dumps(state.rng.bit_generator.state, default=np.ndarray.tolist)),
        "identity": np.array(json.dumps(identity(problem))),
    }
    arrays |= {f"subclusters_{name}": array for name, array in state.subclusters._asdict().items()}
    arrays |= {f"trace_{column}": state.trace[column] for column in COLUMNS}
    if state.best is not None:
        arrays["best_numbers"] = np.array([state.best.log_posterior, *state.best.partition_prior.values])
    candidates = list(state.best_of_size.values())
    if candidates:
        numbers = [(one.log_posterior, *one.partition_prior.values) for one in candidates]
        values = [one.labels for one in candidates], [one.sublabels for one in candidates], numbers
        arrays |= {name: np.array(value) for name, value in zip(CANDIDATES, values, strict=True)}
    if problem.settings.hyperprior is not None:
        arrays |= prior_arrays("prior", [state.model.prior])
        arrays |= prior_arrays("best_prior", [] if state.best is None else [state.best.prior])
        arrays |= prior_arrays("candidate_prior", [one.prior for one in candidates])
        arrays |= prior_arrays("sampled_prior", [sample.prior for sample in state.record.samples])
    if state.collapsed is not None:
        arrays |= sampled_arrays(state)
    write_npz(path, arrays)
    problem.data.have_saved(path)


def sampled_arrays(state: State) -> dict[str, Any]:
    """The state of sampling and the draws so far. The labels of draws are in another file."""
    record = state.record
    if record.labels is not None and isinstance(record.labels.base, np.memmap):
        record.labels.base.flush()
    samples = [(one.n_clusters, one.log_posterior, *one.partition_prior.values) for one in record.samples]
    arrays: dict[str, Any] = {
        "sampled": np.array([state.sampled, state.n_clusters]),
        "samples": np.array(samples),
        "sampled_weights": np.concatenate([np.empty(0), *(sample.weights for sample in record.samples)]),
        "sampled_moves": np.array([*record.moves, record.moved], np.int64),
        "cluster_seeds": state.cluster_seeds.rows,
        "cluster_seeds_cumulative": state.cluster_seeds.cumulative,
    }
    return arrays | {f"clusters_{number}": leaf for number, leaf in enumerate(leaves(state.collapsed))}


def leaves(bundle: Any) -> list[Any]:
    """All arrays of a bundle of clusters and of its nested bundles."""
    if isinstance(bundle, np.ndarray):
        return [bundle]
    return [leaf for part in bundle for leaf in leaves(part)] if isinstance(bundle, tuple) else []


def resume(state: State, problem: Problem) -> bool:
    """Resume from the checkpoint file, if any. A file of a different run is rejected with the reason."""
    path = path_of(problem.settings, problem.number)
    if path is None or not path.exists():
        return False
    arrays = read_arrays(path, required=("identity",))
    try:
        theirs = json.loads(str(arrays["identity"]))
    except json.JSONDecodeError as error:
        raise damaged(path) from error
    for name, value in identity(problem).items():
        if theirs.get(name) != value:
            was, now = theirs.get(name), value
            what = "data" if name == "data" else f"{name} ({was} there, {now} here)"
            raise InputError(f"the checkpoint {path} belongs to a run with other {what}; remove it or name another")
    statistics = tuple(f"subclusters_{name}" for name in state.subclusters._fields)
    needed = (*ARRAYS, *statistics, *(f"trace_{column}" for column in COLUMNS))
    arrays = read_arrays(path, required=needed, optional=(*BEST, *CANDIDATES, *SAMPLED, "imputed"))
    try:
        restore(state, problem, arrays, lambda name: read_priors(problem, path, name))
        if "sampled" in arrays:
            arrays, priors = read_arrays(path, required=SAMPLED), read_priors(problem, path, "sampled_prior")
            state.collapsed = read_clusters(state, problem, path)
            restore_sampling(state, problem, arrays, priors)
        else:
            problem.data.update_posteriors(state)
    except InputError:
        raise
    except (IndexError, TypeError, ValueError) as error:
        raise damaged(path) from error
    if not has_labels(state.record):
        raise InputError(
            f"{labels_file(problem.settings.checkpoint or path)} should hold the labels of the draws so far, and "
            f"does not: put it back, or remove the checkpoint {path}"
        )
    return True


def prior_arrays(name: str, priors: list[Prior]) -> dict[str, Any]:
    """The fields of some priors, one row per prior."""
    fields = priors[0].FIELDS if priors else ()
    return {f"{name}_{field}": np.array([getattr(prior, field) for prior in priors]) for field in fields}


def read_priors(problem: Problem, path: Path, name: str) -> list[Prior]:
    """Read what `prior_arrays` wrote."""
    prior = problem.settings.prior
    names = tuple(f"{name}_{field}" for field in prior.FIELDS)
    stored_arrays = read_arrays(path, required=(), optional=names)
    if not stored_arrays:
        return []
    return [
        prior_from_fields(prior.family, fields) for fields in zip(*(stored_arrays[name] for name in names), strict=True)
    ]


def restore(state: State, problem: Problem, arrays: dict[str, Any], priors: Callable[[str], list[Prior]]) -> None:
    """Restore the state of the search."""
    settings, begun = problem.settings, problem.settings.partition_prior
    best_labels, best_sublabels = problem.data.restored_labels(state, arrays)
    kind = type(state.subclusters)
    state.subclusters = kind(*(arrays[f"subclusters_{name}"] for name in kind._fields))
    state.records, state.n_clusters = arrays["records"], len(arrays["records"])
    state.partition_prior = begun.at(tuple(arrays["partition_values"].tolist()))
    state.iteration, state.exact_due, state.exact_wait, state.last = map(int, arrays["counters"])
    if settings.hyperprior is not None:
        state.use_prior(priors("prior")[0])
    state.rng.bit_generator.state = json.loads(str(arrays["randomness"]))
    columns = [arrays[f"trace_{column}"].tolist() for column in COLUMNS]
    state.trace = Trace([Iteration(*values) for values in zip(*columns, strict=True)])
    if "best_numbers" in arrays:
        log_posterior, *values = arrays["best_numbers"].tolist()
        prior = [*priors("best_prior"), settings.prior][0]
        state.best = Best(log_posterior, best_labels, best_sublabels, begun.at(tuple(values)), prior)
    if "candidate_labels" in arrays:
        several, sublabels, numbers = (arrays[name] for name in CANDIDATES)
        its_priors = priors("candidate_prior") or [settings.prior] * len(several)
        for labels, sides, (log_posterior, *values), prior in zip(
            several, sublabels, numbers.tolist(), its_priors, strict=True
        ):
            best = Best(log_posterior, labels, sides, begun.at(tuple(values)), prior)
            state.best_of_size[int(labels.max()) + 1] = best


def read_clusters(state: State, problem: Problem, path: Path) -> Any:
    """Read the collapsed clusters."""
    stored = read_arrays(path, required=("clusters_0",))["clusters_0"]
    clusters = problem.data.empty_clusters(state.model, len(stored) - 1)
    arrays = leaves(clusters)
    stored_arrays = read_arrays(path, required=tuple(f"clusters_{number}" for number in range(len(arrays))))
    for number, array in enumerate(arrays):
        # The prior's part already exists.
        if array.flags.writeable and len(array) == len(stored):
            if array.shape != stored_arrays[f"clusters_{number}"].shape:
                raise damaged(path)
            array[...] = stored_arrays[f"clusters_{number}"]
    return clusters


def restore_sampling(state: State, problem: Problem, arrays: dict[str, Any], priors: list[Prior]) -> None:
    """Restore the draws."""
    record, begun = state.record, problem.settings.partition_prior
    state.sampled, state.n_clusters = (int(number) for number in arrays["sampled"])
    state.cluster_seeds = ClusterSeeds(arrays["cluster_seeds"], arrays["cluster_seeds_cumulative"])
    rows = arrays["samples"].reshape(-1, 2 + len(begun.values)).tolist()
    weights = np.split(arrays["sampled_weights"], np.cumsum([int(row[0]) for row in rows]))[:-1]
    priors = priors or [problem.settings.prior] * len(rows)
    record.samples = [
        Sample(int(number), begun.at(tuple(values)), log_posterior, its_weights, prior)
        for (number, log_posterior, *values), its_weights, prior in zip(rows, weights, priors, strict=True)
    ]
    record.moves = [Moves(*row) for row in arrays["sampled_moves"][:-1].tolist()]
    record.moved[:] = arrays["sampled_moves"][-1]
    whole = len(arrays["sampled_weights"]) == sum(sample.n_clusters for sample in record.samples)
    if (
        not whole
        or len(record.moves) != len(rows)
        or len(state.cluster_seeds.rows) != len(state.cluster_seeds.cumulative)
    ):
        raise ValueError("the arrays of draws do not belong together")


def has_labels(record: Record) -> bool:
    """Whether the stored labels of draws match the samples, judged by some of the draws."""
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


def identity(problem: Problem) -> dict[str, Any]:
    """What must be equal for a run to resume, by name: small values as they are, large ones as digests."""
    return {"data": problem.digest, **settings_identity(problem.settings)}


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
    """The initial number of clusters, or a digest of the initial labels or of the centres that define them."""
    if isinstance(first, (int, np.integer)):
        return int(first)
    return digest(np.ascontiguousarray(first.centres if isinstance(first, NearestCentre) else first))


def start_identity(initializer: Any) -> str:
    """The initializer's identity (options, weights) if it states one, otherwise its name."""
    known = getattr(initializer, "identity", None)
    return str(known) if known is not None else str(getattr(initializer, "name", type(initializer).__qualname__))


def prior_digest(prior: Prior) -> str:
    fields = [np.ravel(np.asarray(getattr(prior, name), dtype=np.float64)) for name in prior.FIELDS]
    return f"{prior.family} {digest(np.concatenate(fields))}"
