"""What an operator gave up counts for the topic that had the record, and for no later one."""

import pytest
from lockstep.settings import Settings
from lockstep.streams import quarantine
from lockstep.streams.quarantine import Quarantine, given_up_offsets


def test_another_topic_of_that_name_has_nothing_given_up(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "topic_id", lambda _: "first")
    assert given_up_offsets(home) == frozenset()
    Quarantine(home, "outbox").put(3, "unknown table", b"{}")
    Quarantine(home, "operator").give_up(4, "no JSON", b"{")
    assert given_up_offsets(home) == {4}
    monkeypatch.setattr(quarantine, "topic_id", lambda _: "second")
    assert given_up_offsets(home) == frozenset()
