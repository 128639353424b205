"""The task that keeps a stream running: a run of its DAG means "this stream shall run".

It starts a detached driver, which is no part of the task, and then only watches, without a worker:
no attempt lives longer than a start takes. Watching is stream_health.py's.
"""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from airflow.sdk import BaseOperator, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lockstep.airflow_ops.source_passwords import task_settings
from lockstep.airflow_ops.stream_health import StreamHealthTrigger, WakeReason
from lockstep.errors import LockstepError
from lockstep.settings import Settings
from lockstep.supervise.errors import StreamFailedError
from lockstep.supervise.restart_policy import RESTARTS_MAX, GiveUp, after_failure

__all__ = ["SuperviseStreamOperator", "restarts_param"]

FULL_DISK_PAUSE_SECONDS = 60.0
"""Before a start is tried again that could not write its files."""
STATE_SECONDS_MAX = 3.0
"""For Airflow's answer within a kill, which becomes SIGKILL after 5 s."""


def restarts_param() -> Param:
    """A DAG's parameter `restarts_max`, as the form for a run shows it."""
    return Param(
        RESTARTS_MAX,
        type="integer",
        minimum=0,
        title="Restarts",
        description="In a row, before it is given up. One that has worked for ten minutes starts "
        "with a clean sheet.",
    )


class SuperviseStreamOperator(BaseOperator):
    """Keep the stream of a mode running until a user asks that it stops.

    Succeeds when the stream was stopped on purpose. Fails, without retries and with the stream's
    own error, when restarts_max restarts in a row did not help; the stream then stays stopped.
    A user's mark or clear of the task stops the stream; no restart of an Airflow component does.
    """

    template_fields = ("restarts_max",)
    ui_color = "#e0f2f1"

    def __init__(
        self, *, mode: str, restarts_max: int | str, pipeline: str = "", **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.pipeline, self.mode = pipeline, mode
        self.restarts_max = restarts_max
        self._task: Any = None

    def execute(self, context: dict[str, Any]) -> None:
        """Make the stream run, whichever command started it before, and watch it."""
        self._task = context["ti"]
        self._start(restarts=0)

    def resume(self, context: dict[str, Any], event: dict[str, Any]) -> None:
        """Do what the trigger woke us for, then watch on, or end."""
        self._task = context["ti"]
        reason, why, watch = WakeReason(event["reason"]), event["why"], event["watch"]
        if reason is WakeReason.STOPPED:
            self.log.info("The stream %s was stopped on purpose: %s", self.mode, why)
        elif reason is WakeReason.UNREADABLE:
            raise AirflowException(f"the files of the stream {self.mode} cannot be read: {why}")
        elif reason is WakeReason.CONNECTOR_FAILED:
            self._restart_connector(why, watch)
        elif reason is WakeReason.RESTART_DUE:
            self._start(restarts=watch["restarts"])
        else:
            self._after_failure(why)

    def on_kill(self) -> None:
        """End the start under way and stop the stream, if it is a user's action that ends the task.

        A worker that shuts down ends its tasks in the same way; then nothing is done here.
        """
        from lockstep.supervise.desired import withdraw_desired

        if self._task is None or self._state_of_task() == "running":
            self.log.info("the worker ends: the stream is left alone")
            return
        reason = f"stopped by a user's action on the task ({self._desired_by})"
        withdraw_desired(Settings.load_for(self.pipeline), self.mode, self._desired_by, reason)
        raise SystemExit(f"the stream {self.mode} is {reason}")

    @property
    def _desired_by(self) -> str:
        """The reason in the desired state: this attempt, and no other."""
        return f"asked for by the DAG run {self._task.run_id}, try {self._task.try_number}"

    def _start(self, restarts: int) -> NoReturn:
        """Make the stream run, in place of one that is not well, and watch it."""
        from lockstep.supervise import keeper
        from lockstep.supervise.logs import log_of

        make_run = keeper.restart if restarts else keeper.ensure_running
        try:
            settings = task_settings(self.pipeline)
            is_started = make_run(settings, self.mode, self._desired_by, restarts)
        except StreamFailedError as error:
            self.log.warning("%s", error)
            self._after_failure(error.why)
        except LockstepError as error:
            raise AirflowException(str(error)) from None
        except OSError as error:  # a full disk: no failure of the stream, and not counted
            self.log.warning("The stream %s cannot be started yet: %s", self.mode, error)
            self._watch_until(FULL_DISK_PAUSE_SECONDS, max(restarts, 1))
        how = "was started" if is_started else "was left as it is, and is watched from now on"
        log = log_of(settings, self.mode).resolve()
        self.log.info("The stream %s %s; its log: %s", self.mode, how, log)
        self._watch()

    def _after_failure(self, why: str) -> NoReturn:
        """Wait for the next restart, or give up."""
        from lockstep.supervise import keeper
        from lockstep.supervise.logs import end_of_log
        from lockstep.supervise.observation import observe

        settings = Settings.load_for(self.pipeline)
        step = keeper.next_step(observe(settings, self.mode), int(self.restarts_max))
        if isinstance(step, GiveUp):
            self._give_up(step.restarts, why)
        log_end = end_of_log(settings, self.mode)
        self.log.warning("The stream %s: %s; the end of its log:\n%s", self.mode, why, log_end)
        when = f"in {step.pause_seconds:.0f} s" if step.pause_seconds else "at once"
        self.log.warning("Restart %d of %s %s", step.number, self.restarts_max, when)
        if not step.pause_seconds:
            self._start(restarts=step.number)
        self._watch_until(step.pause_seconds, step.number)

    def _watch_until(self, pause_seconds: float, restarts: int) -> NoReturn:
        """Watch; if it is not well by then, start it."""
        due = datetime.now(UTC) + timedelta(seconds=pause_seconds)
        self._watch(restart_at=due.isoformat(), restarts=restarts)

    def _restart_connector(self, why: str, watch: dict[str, Any]) -> NoReturn:
        """Restart what failed in Kafka Connect; all streams that are supervised may do so."""
        from lockstep.capture import connector
        from lockstep.capture.connectors import registered_connector

        now, before = datetime.now(UTC), watch["connector_restarted_at"]
        worked = (now - datetime.fromisoformat(before)).total_seconds() if before else 0.0
        step = after_failure(watch["connector_restarts"], worked, int(self.restarts_max))
        if isinstance(step, GiveUp):
            self._give_up(step.restarts, why)
        self.log.warning("%s; restart %d of %s", why, step.number, self.restarts_max)
        try:
            settings = task_settings(self.pipeline)
            connector.restart_failed(settings, registered_connector(settings))
        except LockstepError as error:
            self.log.warning("The connector could not be restarted: %s", error)
        restarted = {
            "connector_restarts": step.number,
            "connector_restarted_at": now.isoformat(),
        }
        self._watch(**{**watch, **restarted})

    def _give_up(self, restarts: int, why: str) -> NoReturn:
        """Leave the stream stopped, and fail with all that is known of the cause."""
        from lockstep.supervise import launcher
        from lockstep.supervise.logs import end_of_log

        settings = Settings.load_for(self.pipeline)
        log_end = end_of_log(settings, self.mode)
        given_up = f"given up after {restarts} restarts in a row: {why}"
        try:
            launcher.stop(settings, [self.mode], given_up)
        except LockstepError as error:
            given_up = f"{given_up}; and it does not stop: {error}"
        raise AirflowFailException(
            f"The stream {self.mode} is {given_up}\nIt stays stopped until this task is cleared, "
            f"or the DAG is run again. The end of its log:\n{log_end}"
        )

    def _watch(self, **watch: Any) -> NoReturn:
        """Hand over to the trigger; `watch` are its arguments beyond the mode and `desired_by`."""
        own = {"pipeline": self.pipeline, "mode": self.mode, "desired_by": self._desired_by}
        arguments = {**own, **watch}
        self.defer(trigger=StreamHealthTrigger(**arguments), method_name="resume")

    def _state_of_task(self) -> str | None:
        """The state that Airflow knows of this task; "running" when it does not answer."""
        task, answers = self._task, []

        def ask() -> None:
            states = task.get_task_states(
                dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id]
            )
            answers.append(states.get(task.run_id, {}).get(task.task_id))

        # In a thread: the signal may have come while this one was talking to Airflow itself.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(STATE_SECONDS_MAX)
        return answers[0] if answers else "running"
