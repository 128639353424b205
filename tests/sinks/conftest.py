"""What tests of commits need to know of them."""

from typing import Any

import pytest
from lockstep.sinks.local_appends import LocalAppends


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each append since was made without delta-rs."""
    made: list[bool] = []
    commit = LocalAppends.commit

    def noted(self: LocalAppends, *args: Any) -> bool:
        made.append(commit(self, *args))
        return made[-1]

    monkeypatch.setattr(LocalAppends, "commit", noted)
    return made
