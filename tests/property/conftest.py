"""Pure logic only: sockets and subprocesses are forbidden here."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _pure(no_outside_world: None) -> None:
    """Apply the ban to every test of this folder."""
