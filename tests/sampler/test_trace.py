import pickle

import numpy as np
import pytest

from dpmmwrap import DPMM
from dpmmwrap.sampler.trace import GREEDY_STEPS, Iteration, Trace, told_length


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


# When a search is over


def trace_of(values: np.ndarray) -> Trace:
    return Trace([Iteration(2, float(value), 0.1, 0, 0, 0, 0) for value in values])


RISE = np.linspace(-3000, -1000, 40)


def noise(count: int, deviation: float) -> np.ndarray:
    return -1000 + np.random.default_rng(0).normal(0, deviation, count)


def test_a_search_is_flat_when_it_only_varies() -> None:
    assert not trace_of(noise(59, 3.0)).is_flat(), "too early to tell"
    assert trace_of(noise(60, 3.0)).is_flat()
    assert trace_of(np.full(60, -1000.0)).is_flat()
    assert trace_of(np.concatenate([RISE, noise(60, 3.0)])).is_flat(), "what was long ago does not matter"
    assert not trace_of(np.concatenate([RISE, noise(35, 3.0)])).is_flat()


def test_a_slow_rise_is_no_noise() -> None:
    """A drift counts when it is more than a nat, and more than the log posterior varies by."""
    slow = -1000 + 0.5 * np.arange(100)
    assert not trace_of(slow).is_flat()
    assert trace_of(-1000 + 0.01 * np.arange(100)).is_flat(), "less than a nat in thirty iterations"
    assert trace_of(-1000 + 0.05 * np.arange(100) + noise(100, 10.0)).is_flat()


def test_falling_is_flat_too() -> None:
    assert trace_of(-1000 - np.arange(100.0)).is_flat()
    assert not trace_of(-1000 - np.arange(100.0)).still_rising()


def test_a_search_that_ended_too_soon() -> None:
    assert trace_of(np.linspace(-3000, -1000, 100)).still_rising()
    assert not trace_of(np.concatenate([RISE, noise(65, 3.0)])).still_rising()
    # Greedy steps at the end always bring some nats, and say nothing about the search.
    greedy = np.concatenate([noise(95, 1.0), np.full(5, -900.0)])
    assert not trace_of(greedy).still_rising()
    # Nor does a time of lower ones in between.
    dip = np.concatenate([noise(40, 0.3), noise(30, 0.3) - 3, noise(35, 0.3)])
    assert not trace_of(dip).still_rising()
    assert trace_of(np.linspace(-3000, -1000, 26)).still_rising(), "of a short search a shorter end is looked at"
    assert not trace_of(np.linspace(-3000, -1000, 15)).still_rising(), "fifteen iterations are no search"


def test_what_has_ended_a_search() -> None:
    trace = trace_of(np.zeros(70))
    assert trace.stopped_by(500, stop_when_flat=True) == "flat"
    assert trace.stopped_by(70, stop_when_flat=True) == "limit"
    assert trace.stopped_by(70, stop_when_flat=False) == "max_iter"


def test_the_length_of_a_search_in_words() -> None:
    assert told_length(71, "flat") == "flat after 71 iterations"
    assert told_length(71, "flat", chains=4) == "4 chains, the best flat after 71 iterations"
    assert told_length(500, "limit") == "not flat after 500 iterations, the limit"
    assert told_length(1, "max_iter") == "1 iteration"
    assert told_length(1000, "max_iter", chains=2) == "2 chains of 1,000 iterations"
    assert told_length(12, "interrupt") == "12 iterations"


def test_a_fit_ends_when_it_is_flat_and_a_number_is_obeyed() -> None:
    X = np.random.default_rng(0).normal(size=(120, 2)) + np.repeat([[0, 0], [9, 0]], 60, axis=0)
    model = DPMM(backend="native", init="kmeans", covariance_type="diag", n_chains=1, random_state=0).fit(X)
    assert model.stopped_by_ == "flat" and 60 <= model.n_iter_ < 200
    # The greedy steps come after.
    assert Trace(model.trace_.iterations[:-GREEDY_STEPS]).is_flat()
    assert model.set_params(max_iter=7).fit(X).n_iter_ == 7 and model.stopped_by_ == "max_iter"
