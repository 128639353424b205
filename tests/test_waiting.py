"""Asking again until something is so, or until the time is over."""

import pytest
from lockstep.waiting import wait_until

PAUSE_SECONDS = 0.001


def test_the_first_true_answer_is_returned_and_nothing_is_asked_after_it() -> None:
    answers = iter([None, "", "there", "too late"])
    assert wait_until(lambda: next(answers), 60, PAUSE_SECONDS) == "there"
    assert next(answers) == "too late"


def test_when_the_time_is_over_the_last_answer_is_returned() -> None:
    answers = iter(range(1_000_000))
    found = wait_until(lambda: [] if next(answers) >= 0 else None, 0.02, PAUSE_SECONDS)
    assert found == []
    assert next(answers) > 1


def test_without_any_time_it_asks_once() -> None:
    answers = iter([False, True])
    assert wait_until(lambda: next(answers), 0, PAUSE_SECONDS) is False


def test_an_error_is_raised_at_once() -> None:
    asked = []

    def ask() -> bool:
        asked.append(1)
        raise KeyError("gone")

    with pytest.raises(KeyError):
        wait_until(ask, 60, PAUSE_SECONDS)
    assert asked == [1]


def test_an_answer_may_be_done_by_a_rule_of_its_own() -> None:
    answers = iter([409, 409, 0, 1])
    found = wait_until(lambda: next(answers), 60, PAUSE_SECONDS, lambda code: code != 409)
    assert found == 0
