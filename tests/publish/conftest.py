"""An empty lakehouse, and streams whose proof is taken for granted."""

from pathlib import Path

import pytest
from lockstep.ledger.entries import Verified
from lockstep.publish import conditions
from lockstep.settings import Settings

from tests.publish.shop import DAY


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", lakehouse=str(tmp_path / "lakehouse"))


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream is verified, and runs."""
    monkeypatch.setattr(conditions, "require_verified", lambda *_: Verified(DAY, DAY))
    monkeypatch.setattr(conditions, "require_running", lambda *_: None)
