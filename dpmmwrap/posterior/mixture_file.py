"""The file of a fitted mixture: plain arrays, so that loading it cannot execute code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.families import FAMILIES, family_named, family_of, prior_from_fields, prior_named
from dpmmwrap.families.tables import Columns
from dpmmwrap.files import InputError, read_arrays, write_npz
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.memory import Memory
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.model.redundant import ColumnMap
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.sampler.draws import Draws

FORMAT, OLD_FORMAT = "dpmmwrap mixture 2", "dpmmwrap mixture 1"
FIRST_FAMILY = family_named(FAMILIES[0]).kinds[0]


def save(mixture: Mixture, path: str | Path) -> None:
    """Write a mixture, and its draws if there are any."""
    arrays: dict[str, Any] = {name: getattr(mixture.posterior, name) for name in mixture.posterior.FIELDS}
    arrays |= {"format": np.array(FORMAT), "family": np.array(mixture.family), "counts": mixture.counts}
    arrays |= {"outlier_weight": mixture.outlier_weight, "size_shift": mixture.size_shift}
    of_columns = (mixture.columns, mixture.preparation, mixture.restored, mixture.subspace)
    for part in (*of_columns, mixture.averaged, mixture.memory):
        arrays |= {} if part is None else part.arrays()
    if mixture.feature_names is not None:
        arrays["feature_names"] = np.array(mixture.feature_names, dtype=str)
    if mixture.draws is not None:
        arrays |= {f"draws_{name}": array for name, array in mixture.draws.arrays().items()}
    write_npz(path, arrays)


def load(path: str | Path) -> Mixture:
    """Read a model that `DPMM.save` or `dpmmwrap fit --out` has written.

    Parameters
    ----------
    path : str or Path
        A .npz file. Reading it cannot execute code.

    Returns
    -------
    Mixture
        With `predict`, `predict_proba`, `score_samples`, `sample`, and `draws` if the file has them.

    Raises
    ------
    InputError
        A ValueError with one sentence, if the file is missing, damaged, or not a model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dpmmwrap import DPMM, load
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + 9 * k for k in range(2)])
    >>> model = DPMM(init="kmeans", covariance_type="full", n_chains=1, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.npz")
    ...     mixture = load(Path(folder) / "model.npz")
    >>> bool((mixture.predict(X) == model.predict(X)).all())
    True
    """
    head = read_arrays(path, required=("format", "counts", "outlier_weight"), optional=("family",))
    if str(head["format"]) not in (FORMAT, OLD_FORMAT):
        raise InputError(f"{path} should be a {FORMAT!r} file, not {str(head['format'])!r}")
    # The first files had only one family and do not name it.
    family = str(head.get("family", FIRST_FAMILY))
    try:
        fields = prior_named(family).FIELDS
    except KeyError:
        raise InputError(f"{path} has the family {family!r}, which this version does not have") from None
    arrays = read_arrays(path, required=fields, optional=("feature_names", "size_shift"))
    try:
        columns = Columns.read(path) if family_of(family).mixes else None
        posterior = prior_from_fields(family, [arrays[name] for name in fields])
        mixture = Mixture(
            head["counts"],
            posterior,
            float(head["outlier_weight"]),
            columns,
            AveragedMixture.read(path, family, fields),
            Draws.read(path, "draws_"),
            tuple(str(name) for name in arrays["feature_names"]) if "feature_names" in arrays else None,
            Preparation.read(path),
            ColumnMap.read(path),
            float(arrays.get("size_shift", 0.0)),
            Subspace.read(path),
            Memory.read(path, family),
        )
        expected = mixture.n_clusters + (mixture.outlier_weight > 0)
        finite = all(np.isfinite(np.asarray(arrays[name], dtype=np.float64)).all() for name in fields)
        factor = getattr(posterior, "cholesky", np.zeros(1))
        if len(arrays[fields[-1]]) != expected or not finite or not np.isfinite(factor).all():
            raise ValueError("its arrays do not belong together")
        names, preparation = mixture.feature_names, mixture.preparation
        named = names is None or len(names) == mixture.n_features
        prepared = preparation is None or preparation.width == mixture.n_features
        if columns is None and not (named and prepared):
            raise ValueError("its features are not those that it names")
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"{path} is a damaged model file: {error}") from error
    return mixture
