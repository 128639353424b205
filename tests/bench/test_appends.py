"""The benchmark of commits measures what it says, and removes its tables."""

from pathlib import Path

import pytest
from lockstep.settings import Settings
from lockstep.sinks.local_appends import LocalAppends
from lockstep_tools.bench.appends import DELTA_RS, OWN, measure
from lockstep_tools.errors import MeasurementError


def test_both_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    measured = measure(Settings(home=tmp_path), rows=2, commits=4, versions=100, rounds=2)
    assert {who: len(of) for who, of in measured.wall_ms.items()} == {OWN: 2, DELTA_RS: 2}
    assert all(ms > 0 for of in measured.processor_ms.values() for ms in of)
    assert list(tmp_path.iterdir()) == []


def test_commits_of_another_than_who_is_measured_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalAppends, "to", lambda *_: None)
    with pytest.raises(MeasurementError, match="delta-rs"):
        measure(Settings(home=tmp_path), rows=2, commits=1, versions=100, rounds=1)
