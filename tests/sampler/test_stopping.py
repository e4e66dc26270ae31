import numpy as np

from dpmmwrap import DPMM
from dpmmwrap.sampler.stopping import GREEDY_STEPS, is_flat, still_rising, stopped_by
from dpmmwrap.sampler.trace import Iteration, Trace


def trace_of(values: np.ndarray) -> Trace:
    return Trace([Iteration(2, float(value), 0.1, 0, 0, 0, 0) for value in values])


RISE = np.linspace(-3000, -1000, 40)


def noise(count: int, deviation: float) -> np.ndarray:
    return -1000 + np.random.default_rng(0).normal(0, deviation, count)


def test_a_search_is_flat_when_it_only_varies() -> None:
    assert not is_flat(trace_of(noise(59, 3.0))), "too early to tell"
    assert is_flat(trace_of(noise(60, 3.0)))
    assert is_flat(trace_of(np.full(60, -1000.0)))
    assert is_flat(trace_of(np.concatenate([RISE, noise(60, 3.0)]))), "what was long ago does not matter"
    assert not is_flat(trace_of(np.concatenate([RISE, noise(35, 3.0)])))


def test_a_slow_rise_is_no_noise() -> None:
    """A drift counts when it is more than a nat, and more than the log posterior varies by."""
    slow = -1000 + 0.5 * np.arange(100)
    assert not is_flat(trace_of(slow))
    assert is_flat(trace_of(-1000 + 0.01 * np.arange(100))), "less than a nat in thirty iterations"
    assert is_flat(trace_of(-1000 + 0.05 * np.arange(100) + noise(100, 10.0)))


def test_falling_is_flat_too() -> None:
    assert is_flat(trace_of(-1000 - np.arange(100.0)))
    assert not still_rising(trace_of(-1000 - np.arange(100.0)))


def test_a_search_that_ended_too_soon() -> None:
    assert still_rising(trace_of(np.linspace(-3000, -1000, 100)))
    assert not still_rising(trace_of(np.concatenate([RISE, noise(65, 3.0)])))
    # Greedy steps at the end always bring some nats, and say nothing about the search.
    greedy = np.concatenate([noise(95, 1.0), np.full(5, -900.0)])
    assert not still_rising(trace_of(greedy))
    # Nor does a time of lower ones in between.
    dip = np.concatenate([noise(40, 0.3), noise(30, 0.3) - 3, noise(35, 0.3)])
    assert not still_rising(trace_of(dip))
    assert still_rising(trace_of(np.linspace(-3000, -1000, 26))), "of a short search a shorter end is looked at"
    assert not still_rising(trace_of(np.linspace(-3000, -1000, 15))), "fifteen iterations are no search"


def test_what_has_ended_a_search() -> None:
    trace = trace_of(np.zeros(70))
    assert stopped_by(trace, 500, stop_when_flat=True) == "flat"
    assert stopped_by(trace, 70, stop_when_flat=True) == "limit"
    assert stopped_by(trace, 70, stop_when_flat=False) == "max_iter"


def test_a_fit_ends_when_it_is_flat_and_a_number_is_obeyed() -> None:
    X = np.random.default_rng(0).normal(size=(120, 2)) + np.repeat([[0, 0], [9, 0]], 60, axis=0)
    model = DPMM(backend="native", init="kmeans", covariance_type="diag", n_chains=1, random_state=0).fit(X)
    assert model.stopped_by_ == "flat" and 60 <= model.n_iter_ < 200
    # The greedy steps come after.
    assert is_flat(Trace(model.trace_.iterations[:-GREEDY_STEPS]))
    assert model.set_params(max_iter=7).fit(X).n_iter_ == 7 and model.stopped_by_ == "max_iter"
