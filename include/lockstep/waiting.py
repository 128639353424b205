"""Waits for what another process is about to do, by asking again and again."""

from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

Found = TypeVar("Found")


def wait_until(
    ask: Callable[[], Found],
    seconds_max: float,
    pause_seconds: float,
    is_done: Callable[[Found], bool] = bool,
) -> Found:
    """Ask until `is_done` holds of the answer, and return it; the last one when the time is over.

    It asks at least once. What `ask` raises is raised at once.
    """
    asking = Retrying(
        retry=retry_if_not_result(is_done),
        stop=stop_after_delay(seconds_max),
        wait=wait_fixed(pause_seconds),
    )
    try:
        return asking(ask)
    except RetryError as error:
        return error.last_attempt.result()
