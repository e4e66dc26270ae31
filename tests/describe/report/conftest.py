"""Small fits as fixtures."""

import pytest

import smallfits
from smallfits import Fit


@pytest.fixture(scope="session")
def flowers() -> Fit:
    return smallfits.flowers()


@pytest.fixture(scope="session")
def people() -> Fit:
    return smallfits.people()


@pytest.fixture(scope="session")
def texts() -> Fit:
    return smallfits.texts()


@pytest.fixture(scope="session")
def line() -> Fit:
    return smallfits.line()


@pytest.fixture(scope="session")
def plane() -> Fit:
    return smallfits.plane()
