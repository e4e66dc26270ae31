import pickle

import numpy as np
import pytest

from dpmmwrap import DPMM
from dpmmwrap.sampler.trace import Iteration, Trace, told_length


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


def test_the_length_of_a_search_in_words() -> None:
    assert told_length(71, "flat") == "flat after 71 iterations"
    assert told_length(71, "flat", chains=4) == "4 chains, the best flat after 71 iterations"
    assert told_length(500, "limit") == "not flat after 500 iterations, the limit"
    assert told_length(1, "max_iter") == "1 iteration"
    assert told_length(1000, "max_iter", chains=2) == "2 chains of 1,000 iterations"
    assert told_length(12, "interrupt") == "12 iterations"
