"""The parameters of the estimator from the options of `dpmmwrap fit`, and priors from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmmwrap.cli.families import with_network
from dpmmwrap.cli.fit_options import BACKEND_OPTIONS, JULIA_OPTIONS, NATIVE_OPTIONS, NO_LOSS, backend_name
from dpmmwrap.families import family_named

if TYPE_CHECKING:
    from dpmmwrap.cli.fit import Task

SAME_NAME = ("init_clusters", "max_clusters", "outlier_weight", "thin", "loss", "partition_prior")
"""Options with the names of parameters."""


def parameters(options: dict[str, Any], task: Task) -> dict[str, Any]:
    """The parameters; those without an option keep their defaults."""
    from dpmmwrap.files import find_columns

    given = {
        "alpha": options["alpha"],
        "backend": make_backend(options),
        "covariance_type": options["covariance"],
        "family": options["family"],
        "init": options["init"],
        "max_iter": options["iterations"],
        "n_chains": options["chains"],
        "n_draws": options["draws"],
        "prior": task.prior,
        "random_state": options["seed"],
        "subspace": options["subspace"],
        "tails": options["tails"],
    }
    given |= {name: options[name] for name in SAME_NAME if options[name] is not None}
    numbers = {name: options[f"prior_{name}"] for name in ("kappa", "width", "strength")}
    if set(numbers.values()) != {"auto"}:
        from dpmmwrap.model.data_prior import DataPrior

        given["prior"] = DataPrior(**numbers)
    if options["weights"] is not None or (options["device"] != "auto" and with_network(options)):
        from dpmmwrap.starts import make_initializer

        given["init"] = make_initializer("splitnet", weights=options["weights"], device=options["device"])
    if options["loss"] == NO_LOSS:
        given["loss"] = None
    if options["alpha_prior"] != (1.0, 1.0):
        from dpmmwrap.partitions import DirichletProcess

        given |= {"alpha": "auto", "partition_prior": DirichletProcess(options["alpha"], options["alpha_prior"])}
    names = task.data.columns
    if options["categorical"] is not None:
        given["categorical"] = list(find_columns(options["categorical"], names, task.source))
    if options["exposure"] is not None:
        (given["exposure"],) = (names.index(name) for name in find_columns([options["exposure"]], names, task.source))
    return given


def make_backend(options: dict[str, Any]) -> Any:
    """The backend with its settings, or its name if there are none."""
    from dpmmwrap.backends import BY_NAME

    names = {"acceptance_ratio": "ratio"} | {name: name for name in (*BACKEND_OPTIONS, *NATIVE_OPTIONS, *JULIA_OPTIONS)}
    given = {name: options[option] for option, name in names.items() if options[option] is not None}
    name = backend_name(options)
    kind = BY_NAME[name]
    made = kind(**{field: value for field, value in given.items() if field in kind.__dataclass_fields__})
    return name if made == kind() else made


def make_prior(prior: str, family: str, covariance: str) -> Any:
    """The prior by name, or from a .json or .npz file."""
    import numpy as np

    from dpmmwrap.files import InputError, read_arrays, read_json

    if prior in ("data", "reference"):
        return prior
    path = Path(prior)
    if path.suffix.lower() not in (".json", ".npz"):
        raise InputError(f"--prior should be data, reference, or a .json or .npz file, not {prior!r}")
    named = family_named(family)
    made = named.prior_class()
    names = made.FIELDS
    fields = read_arrays(path, required=names) if path.suffix.lower() == ".npz" else read_json(path)
    if not isinstance(fields, dict) or sorted(fields) != sorted(names):
        came = ", ".join(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise InputError(f"{path} should hold {', '.join(names)}, but it holds {came or 'nothing'}")
    try:
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in fields.items()}
        values = {name: array if array.ndim else float(array) for name, array in arrays.items()}
        if covariance != "auto":
            made = named.prior_class(covariance)
        elif len(named.kinds) > 1:
            # The scale has two axes for full covariances, one for diagonal ones, none for spherical ones.
            made = named.prior_class(named.kinds[max(2 - np.ndim(values["scale"]), 0)])
        return made(**made.fitting(values))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} should hold {made.called}: {error}") from error
