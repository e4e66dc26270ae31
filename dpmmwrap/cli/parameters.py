"""The parameters of the estimator, from the options of `dpmmwrap fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpmmwrap.cli.families import with_network
from dpmmwrap.cli.fit_options import BACKEND_OPTIONS, JULIA_OPTIONS, NATIVE_OPTIONS, NO_LOSS, backend_name

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
        "init": make_start(options),
        "max_iter": options["iterations"],
        "n_chains": options["chains"],
        "n_draws": options["draws"],
        "prior": with_numbers(task.prior, options),
        "random_state": options["seed"],
        "subspace": options["subspace"],
        "tails": options["tails"],
    }
    given |= {name: options[name] for name in SAME_NAME if options[name] is not None}
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


def with_numbers(prior: Any, options: dict[str, Any]) -> Any:
    """The prior; the default one with the hyperparameters that were given."""
    numbers = {name: options[f"prior_{name}"] for name in ("kappa", "width", "strength")}
    if set(numbers.values()) == {"auto"}:
        return prior
    from dpmmwrap.model.data_prior import DataPrior

    return DataPrior(**numbers)


def make_backend(options: dict[str, Any]) -> Any:
    """The backend with its settings, or its name if there are none."""
    from dpmmwrap.backends import BY_NAME

    names = {"acceptance_ratio": "ratio"} | {name: name for name in (*BACKEND_OPTIONS, *NATIVE_OPTIONS, *JULIA_OPTIONS)}
    given = {name: options[option] for option, name in names.items() if options[option] is not None}
    name = backend_name(options)
    kind = BY_NAME[name]
    made = kind(**{field: value for field, value in given.items() if field in kind.__dataclass_fields__})
    return name if made == kind() else made


def make_start(options: dict[str, Any]) -> Any:
    """The start of subclusters; with the settings of the network, if it uses one."""
    device = options["device"]
    if options["weights"] is None and (device == "auto" or not with_network(options)):
        return options["init"]
    from dpmmwrap.starts import make_initializer

    return make_initializer("splitnet", weights=options["weights"], device=device)
