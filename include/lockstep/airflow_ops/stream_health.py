"""The trigger that watches a supervised stream for as long as it runs. Runs in the triggerer.

It reads files and asks Kafka Connect; starting and stopping drivers is the operator's. Whatever
ends the trigger, the stream goes on, except when a user acts on the task.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from lockstep.errors import LockstepError
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.supervise.observation import Observation

POLL_SECONDS = 1.0
"""As often as the driver beats."""
CONNECTOR_POLL_SECONDS = 10.0
CONNECTOR_PAUSE_SECONDS = 20.0
"""A connector that was restarted needs some seconds until it runs, or fails again."""
LOGGED_EVERY_SECONDS = 300.0
"""A line in the task's log, so that who opens it sees that the stream lives."""
KILL_SECONDS_MAX = 25.0
"""Airflow ends an on_kill after 30 s."""
UNREADABLE_SECONDS_MAX = 60.0
"""A full disk, or a home that is just being restored, is given this long."""


class WakeReason(StrEnum):
    """Why the trigger wakes the operator."""

    STOPPED = "stopped"
    DEAD = "dead"
    FAILED = "failed"
    STALLED = "stalled"
    LAGGING = "lagging"
    RESTART_DUE = "restart due"
    CONNECTOR_FAILED = "connector failed"
    UNREADABLE = "unreadable"


Woken = tuple[WakeReason, str]
"""The reason, and the sentence that says why."""


class StreamHealthTrigger(BaseTrigger):
    """Fires one event as soon as the stream of a mode needs something, with the reason.

    desired_by: the reason in the desired state while this task keeps the stream running; on a
    user's action the desired state becomes stopped, if the reason is still this one. restart_at,
    restarts: ISO time and number of the restart of a stream that is not well; until then it is left
    in peace, unless another keeper has started a driver for it meanwhile: that one is judged from
    its start. connector_restarts and connector_restarted_at: how often the connector was restarted
    in a row, and when last. pipeline: empty in triggers of earlier versions, which knew one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its arguments are what it knows
        self,
        mode: str,
        desired_by: str,
        restart_at: str | None = None,
        restarts: int = 0,
        connector_restarts: int = 0,
        connector_restarted_at: str | None = None,
        pipeline: str = "",
    ) -> None:
        from lockstep.supervise.patience import Patience

        super().__init__()
        self.mode = mode
        self.desired_by = desired_by
        self.restart_at = restart_at
        self.restarts = restarts
        self.connector_restarts = connector_restarts
        self.connector_restarted_at = connector_restarted_at
        self.pipeline = pipeline
        self._patience = Patience()
        self._unreadable_since: float | None = None
        self._logged_at = self._connector_asked_at = float("-inf")
        self._connect_answers = True

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and the arguments that make an equal trigger in another process."""
        arguments = {
            "mode": self.mode,
            "desired_by": self.desired_by,
            "restart_at": self.restart_at,
            "restarts": self.restarts,
            "connector_restarts": self.connector_restarts,
            "connector_restarted_at": self.connector_restarted_at,
            "pipeline": self.pipeline,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch until there is a reason to wake the operator; then exactly one event."""
        settings = Settings.load_for(self.pipeline)
        while (woken := await self._look(settings)) is None:
            await asyncio.sleep(POLL_SECONDS)
        reason, why = woken
        self.log.info("%s: %s", reason, why)
        watch = self.serialize()[1]
        yield TriggerEvent({"reason": reason.value, "why": why, "watch": watch})

    async def on_kill(self) -> None:
        """Stop the stream gracefully when a user marks or clears the task, or deletes its run.

        Airflow also calls this where a trigger merely moves to another triggerer; the task is still
        deferred then, and the stream is left alone. So it is when Airflow cannot be asked.

        The triggerer of Airflow 3.3 cancels a trigger once a second until it has ended, and this
        wait with it; the stop goes on all the same. Raises TimeoutError after KILL_SECONDS_MAX.
        """
        stopping = asyncio.create_task(self._stop_for_a_user())
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while not stopping.done() and (left := deadline - time.monotonic()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([stopping], timeout=left)
        if not stopping.done():
            stopping.cancel()
            raise TimeoutError(f"the stream is left alone: no answer for {KILL_SECONDS_MAX:.0f} s")
        stopping.result()

    async def _stop_for_a_user(self) -> None:
        from lockstep.supervise.desired import withdraw_desired

        state = await self._state_of_task()
        if state == "deferred":
            self.log.info("the task is still deferred: the stream is left alone")
            return
        withdrawn = await asyncio.to_thread(
            withdraw_desired,
            Settings.load_for(self.pipeline),
            self.mode,
            self.desired_by,
            f"stopped by a user's action on the task ({self.desired_by})",
        )
        self.log.info("the stream is to stop" if withdrawn else "the stream is someone else's now")

    async def _look(self, settings: Settings) -> Woken | None:
        """Look once; None when all is as it should be, or may still become so."""
        from lockstep.supervise.observation import observe

        try:
            seen = await asyncio.to_thread(observe, settings, self.mode)
        except (LockstepError, OSError) as error:
            return self._unreadable(str(error))
        self._unreadable_since = None
        self._log_health(seen)
        return self._of_stream(seen) or await self._of_connector(settings)

    def _unreadable(self, why: str) -> Woken | None:
        now = time.monotonic()
        self._unreadable_since = self._unreadable_since or now
        is_lasting = now - self._unreadable_since >= UNREADABLE_SECONDS_MAX
        return (WakeReason.UNREADABLE, why) if is_lasting else None

    def _log_health(self, seen: "Observation") -> None:
        if time.monotonic() - self._logged_at >= LOGGED_EVERY_SECONDS:
            self._logged_at = time.monotonic()
            rows = f", {seen.heartbeat.rows_total:,} rows" if seen.heartbeat else ""
            self.log.info("%s: %s%s", seen.finding.health, seen.finding.why, rows)

    def _of_stream(self, seen: "Observation") -> Woken | None:
        from lockstep.supervise.desired import DesiredState

        health, why = seen.finding.health, seen.finding.why
        if seen.desired is None or seen.desired.state is DesiredState.STOPPED:
            return (WakeReason.STOPPED, why) if seen.holder is None else None
        if self.restart_at is not None and health.wrong and not self._has_new_driver(seen):
            is_due = datetime.now(UTC) >= datetime.fromisoformat(self.restart_at)
            return (WakeReason.RESTART_DUE, why) if is_due else None
        self.restart_at = None  # it is well again, by itself or by hand
        is_over = self._patience.is_over(seen.finding, seen.heartbeat, time.monotonic())
        return (WakeReason(health.value), why) if is_over else None

    def _has_new_driver(self, seen: "Observation") -> bool:
        """Whether another keeper has brought the stream back since the restart was planned."""
        from lockstep.supervise.restart_policy import pause_seconds

        pause = timedelta(seconds=pause_seconds(self.restarts))
        planned_at = datetime.fromisoformat(self.restart_at) - pause
        return seen.heartbeat is not None and seen.heartbeat.started_at > planned_at

    async def _of_connector(self, settings: Settings) -> Woken | None:
        if time.monotonic() - self._connector_asked_at < CONNECTOR_POLL_SECONDS:
            return None
        self._connector_asked_at = time.monotonic()
        if self.connector_restarted_at is not None:
            restarted_at = datetime.fromisoformat(self.connector_restarted_at)
            if (datetime.now(UTC) - restarted_at).total_seconds() < CONNECTOR_PAUSE_SECONDS:
                return None
        why = await asyncio.to_thread(self._connector_failure, settings)
        return None if why is None else (WakeReason.CONNECTOR_FAILED, why)

    def _connector_failure(self, settings: Settings) -> str | None:
        """Why the connector failed; a Connect that is away is logged once, as no failure."""
        from lockstep.capture import connector
        from lockstep.capture.connectors import registered_connector

        try:
            why = connector.failure(settings, registered_connector(settings))
        except LockstepError as error:
            if self._connect_answers:
                self.log.warning("%s", error)
            self._connect_answers = False
            return None
        self._connect_answers = True
        return why

    async def _state_of_task(self) -> str | None:
        """The state that Airflow knows of our task; "deferred" when it cannot be asked."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        task = self.task_instance
        try:
            states = await sync_to_async(RuntimeTaskInstance.get_task_states)(
                dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id]
            )
        except Exception as error:
            self.log.warning("the task's state is unknown, so the stream is left alone: %s", error)
            return "deferred"
        return states.get(task.run_id, {}).get(task.task_id)
