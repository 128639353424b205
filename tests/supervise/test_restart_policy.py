"""Restarts back off, are limited, and start again after a long time of work."""

from lockstep.cdc.errors import PoisonedRecordError
from lockstep.pipeline.errors import CatalogError, PipelineError
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.supervise.heartbeat import HeartbeatError
from lockstep.supervise.restart_policy import (
    PROVEN_SECONDS,
    RESTARTS_MAX,
    GiveUp,
    Restart,
    after_failure,
)


def test_the_first_restart_is_at_once_then_pauses_double_up_to_half_a_minute() -> None:
    decisions = [after_failure(restarts, worked_seconds=0) for restarts in range(RESTARTS_MAX + 1)]
    pauses = [decision.pause_seconds for decision in decisions[:-1]]
    assert pauses[:5] == [0, 5, 10, 20, 30]
    assert set(pauses[4:]) == {30}
    assert [decision.number for decision in decisions[:-1]] == list(range(1, RESTARTS_MAX + 1))
    assert decisions[-1] == GiveUp(RESTARTS_MAX)


def test_a_stream_that_worked_long_starts_with_a_clean_sheet() -> None:
    assert after_failure(RESTARTS_MAX, PROVEN_SECONDS) == Restart(1, 0)
    assert after_failure(RESTARTS_MAX, PROVEN_SECONDS - 1) == GiveUp(RESTARTS_MAX)


def test_the_limit_can_be_lower() -> None:
    assert after_failure(0, 0, restarts_max=0) == GiveUp(0)
    assert after_failure(1, 0, restarts_max=2) == Restart(2, 5)


def test_what_needs_a_person_is_not_tried_again() -> None:
    """Each error says it itself, in whichever package it is defined."""
    poisoned = PoisonedRecordError("changes", 0, 7, "no JSON")
    for failure in (poisoned, PipelineError("another version"), CatalogError("no file")):
        assert not HeartbeatError.of(failure).restart_helps
    for failure in (PostgresUnavailableError("no answer"), RuntimeError("of Spark")):
        assert HeartbeatError.of(failure).restart_helps
