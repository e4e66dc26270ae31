"""Ctrl-C within the contexts that put it off."""

from __future__ import annotations

import signal

import pytest

from dpmmwrap.numerics.interrupt import Interrupt, postponed


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_one_is_noted_and_the_second_raises() -> None:
    with Interrupt() as interrupt:
        ctrl_c()
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()


@postponed()
def interrupted(times: int, done: list[str]) -> None:
    for _ in range(times):
        ctrl_c()
    done.append("the end")


def test_a_postponed_one_raises_at_the_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(1, done)
    assert done


def test_the_second_one_is_not_postponed() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(2, done)
    assert not done


def test_a_postponed_one_does_what_the_outer_context_does_with_it() -> None:
    with Interrupt() as outer:
        with postponed():
            ctrl_c()
            assert not outer.requested
        assert outer.requested


@postponed()
def failing() -> None:
    ctrl_c()
    raise ValueError


def test_an_error_does_not_lose_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        failing()
