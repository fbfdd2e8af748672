"""Tests on real data that is not in the repository: NEARCAST_DATA names its folder. Only without it do they skip."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    named = os.environ.get("NEARCAST_DATA")
    if not named:
        pytest.skip("NEARCAST_DATA is not set")
    return Path(named)
