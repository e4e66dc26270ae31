import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from dpmmwrap import DPMM, Dask, DataPrior, Julia, Native
from dpmmwrap.backends import Auto, as_backend

X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [9, 0]], 30, axis=0)
QUICK: dict[str, Any] = {"init": "kmeans", "covariance_type": "diag", "max_iter": 5, "n_chains": 1, "random_state": 0}


def test_names_are_short_for_objects() -> None:
    assert [as_backend(name) for name in ("auto", "native", "julia", "dask")] == [Auto(), Native(), Julia(), Dask()]
    julia = Julia(workers=2)
    assert as_backend(julia) is julia
    with pytest.raises(ValueError, match="backend should be auto, native, julia, dask, or one such as"):
        as_backend(3)


def test_what_is_shown_is_what_was_changed() -> None:
    assert repr(Julia(workers=4, ratio="reference")) == "Julia(ratio='reference', workers=4)"
    assert repr(Native()) == "Native()"
    assert "backend=Native(n_jobs=2)" in repr(DPMM(backend=Native(n_jobs=2)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Julia(workers=-1), "workers should be a whole number of at least 0, not -1"),
        (lambda: Native(ratio="own"), "ratio should be one of auto, jain-neal, printed, reference, not 'own'"),
        (lambda: Native(min_cluster_age=2.5), "min_cluster_age should be a whole number of at least 1, not 2.5"),
        (lambda: Native(restart_after=0), "restart_after should be a whole number of at least 1 or None, not 0"),
        (lambda: Native(checkpoint_every=0), "checkpoint_every should be a whole number of at least 1, not 0"),
        (lambda: DataPrior(width=-1), "width should be auto or a finite number above 0, not -1"),
        (lambda: DataPrior(kappa="much"), "kappa should be auto or a finite number above 0, not 'much'"),
    ],
)
def test_bad_settings_get_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole sentence is compared
        make()
    assert str(error.value) == sentence


def test_settings_are_not_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        Native().n_jobs = 2  # type: ignore[misc]


def test_scikit_learn_sees_through_them() -> None:
    model = DPMM(**QUICK, backend=Native(n_jobs=1), prior=DataPrior())
    assert model.get_params()["backend__n_jobs"] == 1
    model.set_params(backend__n_jobs=2, backend__ratio="reference", prior__width=0.5)
    assert model.backend == Native(n_jobs=2, ratio="reference") and model.prior == DataPrior(width=0.5)
    assert model.set_params(backend=Julia(), backend__workers=3).backend == Julia(workers=3)
    for name in ("backend__n_jobs", "alpha__width", "nothing__at_all"):
        with pytest.raises(ValueError, match=f"there is no parameter '{name}'"):
            model.set_params(**{name: 1})
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        model.set_params(nothing=1)
    search = GridSearchCV(DPMM(**QUICK, prior=DataPrior()), {"prior__width": [0.01, 1.0]}, cv=2).fit(X)
    assert isinstance(search.best_params_["prior__width"], float)


def test_copies_and_pickles() -> None:
    model = DPMM(backend=Julia(workers=2), prior=DataPrior(width=0.5))
    for again in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()


def test_a_client_is_shared_by_copies_and_stays_behind() -> None:
    """A lock can be neither copied nor pickled, and nor can a client."""
    backend = Dask(client=threading.Lock(), n_jobs=2)
    assert clone(DPMM(backend=backend)).backend is backend
    assert copy.deepcopy(backend).client is backend.client
    assert pickle.loads(pickle.dumps(backend)) == Dask(n_jobs=2)


def test_settings_arrive_in_the_sampler() -> None:
    given = Native(ratio="printed", min_cluster_age=7, restart_after=None, n_jobs=2, checkpoint="c", checkpoint_every=9)
    found = given.settings()
    assert str(found.pop("checkpoint")) == "c"
    assert found == {
        "acceptance_ratio": "printed", "min_cluster_age": 7, "restart_after": None, "n_jobs": 2, "checkpoint_every": 9,
    }  # fmt: skip
    old, young = (DPMM(**QUICK | {"max_iter": 12}, backend=Native(min_cluster_age=age)).fit(X) for age in (50, 1))
    assert old.trace_.splits_proposed.sum() < young.trace_.splits_proposed.sum()
