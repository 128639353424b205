"""The tasks that compare each written window with each stream that runs.

The hourly table's asset says which windows were written. A comparison waits, without a worker,
until the stream has passed the hourly run's cut; then the job compares, and the ledger has the
verdict.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lockstep.airflow_ops.quality_gate import DataDocsLink, data_docs_url, log_report
from lockstep.airflow_ops.spark_jobs import SparkJobOperator, job_arguments
from lockstep.errors import LockstepError
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import CheckStatus, DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.ledger.entries import Comparison

POLL_SECONDS = 2.0
WAIT_SECONDS_MAX = 600.0
"""A stream that has not passed the cut by then lags, or stands still."""


class CutPassedTrigger(BaseTrigger):
    """Fires once: when nothing more is to be waited for, or after WAIT_SECONDS_MAX."""

    def __init__(self, mode: str, window_start: str, window_end: str, pipeline: str = "") -> None:
        """pipeline: empty in triggers of earlier versions, which knew one."""
        super().__init__()
        self.mode, self.window_start, self.window_end = mode, window_start, window_end
        self.pipeline = pipeline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class, and the arguments that make an equal trigger in another process."""
        arguments = {
            "mode": self.mode,
            "window_start": self.window_start,
            "window_end": self.window_end,
            "pipeline": self.pipeline,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every POLL_SECONDS; what cannot be read now may be readable later."""
        settings = Settings.load_for(self.pipeline)
        window = Window.parse(self.window_start, self.window_end)
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                if not await asyncio.to_thread(_is_waiting, settings, window, self.mode):
                    break
            except LockstepError as error:
                self.log.warning("%s", error)
            await asyncio.sleep(POLL_SECONDS)
        yield TriggerEvent({})


class CompareWindowOperator(SparkJobOperator):
    """Compares a window with a mode.

    Succeeds on pass, is skipped when the mode does not cover the window. A failed verdict fails the
    task at once: comparing again finds the same. A stream that lags behind the cut fails it, too,
    and is compared again by a retry. The job's log shows the first differing rows.

    Whatever the verdict, what was compared then goes through the quality checks into Data Docs. A
    stream's table that breaks their rules fails the task, even when the rows agree.
    """

    operator_extra_links = (DataDocsLink(),)
    template_fields = (*SparkJobOperator.template_fields, "mode", "window_start", "window_end")
    ui_color = "#fff3e0"

    def __init__(self, *, mode: str, window_start: str, window_end: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.mode = mode
        self.window_start, self.window_end = window_start, window_end
        self.data_docs_url = data_docs_url("")

    def execute(self, context: dict[str, Any]) -> None:
        """Compare now, or when the stream has passed the cut."""
        window = Window.parse(self.window_start, self.window_end)
        try:
            is_waiting = _is_waiting(Settings.load_for(self.pipeline), window, self.mode)
        except LockstepError as error:
            raise AirflowException(str(error)) from None
        if is_waiting:
            trigger = CutPassedTrigger(self.mode, self.window_start, self.window_end, self.pipeline)
            self.log.info("The stream %s has not passed the cut of %s yet", self.mode, window)
            self.defer(trigger=trigger, method_name="compare")
        self.compare(context)

    def compare(self, context: dict[str, Any], event: dict[str, Any] | None = None) -> None:
        """End as the verdict says; submit the job, unless another task of this run's did already.

        A Spark session takes longer to start than a comparison: the job compares each mode of the
        window that can be compared now, and the tasks of the others find their lines.
        """
        settings, began = Settings.load_for(self.pipeline), _began(context)
        line = self._newest_line(settings, self.mode, began)
        if line is None or line.verdict is Verdict.WAITING:
            line = self._submit(context, settings, began)
        if line is None:
            return
        self._log_what_is_left(settings, line)
        broken = self._check_quality(line)
        if line.verdict is not Verdict.PASS:
            _raise_verdict(line)
        if broken:
            raise broken

    def _submit(
        self, context: dict[str, Any], settings: Settings, began: datetime
    ) -> "Comparison | None":
        """This mode's line; raises the job's failure when there is none."""
        modes = [self.mode, *self._others(settings, began)]  # no other's failure costs ours
        submitted = datetime.now(UTC)
        self.application_args = [
            *("--start", self.window_start),
            *("--end", self.window_end),
            *("--task-log", _log_page(context)),
            *(option for mode in modes for option in ("--mode", mode)),
        ]
        failure = None
        try:
            super().execute(context)
        except AirflowException as error:  # also for a verdict, of whichever mode
            failure = error
        line = self._newest_line(settings, self.mode, submitted)
        if line is None and failure is not None:
            raise failure
        return line

    def _others(self, settings: Settings, began: datetime) -> list[str]:
        """The other modes that this run compares, and that can be compared now."""
        window = Window.parse(self.window_start, self.window_end)
        found = []
        for mode in map(str, desired_modes(settings)):
            with suppress(LockstepError):  # its own task says what is wrong
                line = self._newest_line(settings, mode, began)
                if mode != self.mode and line is None and not _is_waiting(settings, window, mode):
                    found.append(mode)
        return found

    def _newest_line(self, settings: Settings, mode: str, since: datetime) -> "Comparison | None":
        """The ledger's, of this window; None for none since then."""
        from lockstep.ledger import book

        window = Window.parse(self.window_start, self.window_end)
        lines = book.lines(settings, StreamMode(mode), since=window.start)
        new = [line for line in lines if line.window == window and line.checked_at >= since]
        return new[-1] if new else None

    def _log_what_is_left(self, settings: Settings, line: "Comparison") -> None:
        if changed := line.counts.get(DifferenceClass.CHANGED_AFTER_CUT, 0):
            self.log.info(
                "%s rows changed after the cut, and no later hour brings them: the DAG %s merges "
                "them when you approve, %s with window_start %s and window_end %s",
                *(f"{changed:,}", settings.names.repair_dag_id),
                *(repair_dag_url(settings.names), self.window_start, self.window_end),
            )

    def _check_quality(self, line: "Comparison") -> AirflowException | None:
        """Judge what was compared; what is to be raised unless the verdict says worse."""
        from lockstep.quality import check_stream
        from lockstep.quality.stream_check import COMPARED, stream_failures

        if line.verdict not in COMPARED:
            return None
        subject = f"{line.window}, {line.mode}"
        try:
            report = check_stream(Settings.load_for(self.pipeline), line)
        except LockstepError as error:
            self.log.error("%s: its quality could not be checked: %s", subject, error)
            return AirflowException(str(error))
        self.data_docs_url = data_docs_url(report.data_docs_page)
        log_report(self.log, report)
        if report.status is CheckStatus.WARN:
            self.log.warning("%s: %s", subject, report.summary())
        failures = stream_failures(report)
        if not failures:
            return None
        return AirflowFailException(
            f"{subject}: {line.verdict}, but the stream's table breaks its rules: "
            f"{'; '.join(failures)}; details: {self.data_docs_url}"
        )


def _raise_verdict(line: "Comparison") -> NoReturn:
    """End the task as a verdict other than pass wants it."""
    message = f"{line.window}, {line.mode}: {line.verdict}: {line.reason}"
    match line.verdict:
        case Verdict.FAIL:
            raise AirflowFailException(message) from None
        case Verdict.NOT_COVERED:
            raise AirflowSkipException(message) from None
        case _:
            raise AirflowException(message) from None


def repair_dag_url(names: PipelineNames) -> str:
    """Where a repair is triggered; with the web server's own address the log's page links it."""
    address = conf.get("api", "base_url", fallback=None) or ""
    return f"{address.rstrip('/')}/dags/{names.repair_dag_id}"


def comparison_arguments(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of the operator beyond what is compared; needs the macro `spark_jars`."""
    return job_arguments(settings, "check_parity", settings.names.parity_dag_id)


def comparisons(
    pipeline: str, events: Sequence[Mapping[str, Any]], start: str, end: str
) -> list[dict[str, str]]:
    """What a run compares: each window of the events with each stream that is to run.

    events: extras of the hourly table's asset. start, end: a window asked for by hand, or empty.
    Raises AirflowFailException for a window that is none, AirflowSkipException when no stream runs.
    """
    settings = Settings.load_for(pipeline)
    try:
        asked = [Window.parse(start, end)] if start or end else []
        written = [Window.parse(e["window_start"], e["window_end"]) for e in events]
        modes = desired_modes(settings)
    except LockstepError as error:
        raise AirflowFailException(str(error)) from None
    if not modes:
        raise AirflowSkipException("no stream is to run: there is nothing to compare with")
    windows = dict.fromkeys([*asked, *written])
    return [
        {
            "mode": str(mode),
            "window_start": window.start.isoformat(),
            "window_end": window.end.isoformat(),
        }
        for window in windows
        for mode in modes
    ]


def desired_modes(settings: Settings) -> list[StreamMode]:
    """The pipeline's streams that are to run. Raises StreamError for a damaged file."""
    from lockstep.supervise.desired import is_desired

    return [mode for mode in map(StreamMode, settings.names.modes) if is_desired(settings, mode)]


def _began(context: dict[str, Any]) -> datetime:
    """When the DAG's run began: a line of before is of another run. A cleared run begins again."""
    run = context.get("dag_run")
    return (run and run.start_date) or datetime.now(UTC)


def _log_page(context: dict[str, Any]) -> str:
    """The task's page with its log, below the web server's address."""
    address = urlsplit(context["ti"].log_url)
    return urlunsplit(("", "", address.path, address.query, ""))


def _is_waiting(settings: Settings, window: Window, mode: str) -> bool:
    from lockstep.parity.readiness import readiness
    from lockstep.pipeline.plan import plan_named

    plan = plan_named(settings.project, settings.names.pipeline)
    return readiness(settings, plan, window, StreamMode(mode)).verdict is Verdict.WAITING
