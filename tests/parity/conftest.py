"""What tests of the comparison ask for."""

import random
import sys

import pytest
from lockstep.parity import sides


@pytest.fixture(params=["few", "many"])
def rows_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How a window's rows are read: by delta-rs when they are few, else by Spark."""
    if request.param == "many":
        monkeypatch.setattr(sides, "ROWS_MAX", -1)


@pytest.fixture
def seed() -> int:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    return seed
