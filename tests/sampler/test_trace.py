import pickle

import numpy as np
import pytest

from dpmmwrap import DPMM
from dpmmwrap.sampler.trace import Iteration, Trace


def test_columns_are_arrays_with_one_entry_per_iteration() -> None:
    trace = Trace()
    trace.append(Iteration(1, -10.0, 0.1, 0, 1, 0, 0))
    trace.append(Iteration(2, -8.0, 0.2, 1, 1, 0, 0, nmi=0.5))
    assert trace.n_clusters.tolist() == [1, 2] and trace.n_clusters.dtype == np.int64
    assert trace["log_posterior"].tolist() == [-10.0, -8.0]
    assert np.isnan(trace.nmi[0]) and trace.nmi[1] == 0.5
    assert trace.to_pandas().index.tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(trace)).splits.tolist() == [0, 1]
    with pytest.raises(AttributeError, match="its columns are"):
        _ = trace.colour


def test_a_conversion_of_the_data_is_told() -> None:
    X = np.random.default_rng(0).standard_normal((50, 2))
    model = DPMM(backend="native", max_iter=2, random_state=0)
    assert model.fit(X).trace_.converted_from == "float64"
    assert repr(model.trace_) == "Trace(2 iterations, data converted from float64 to float32)"
    assert model.fit(X.tolist()).trace_.converted_from == "list"
    assert model.fit(X.astype(np.float32)).trace_.converted_from is None
