"""The task between the hourly table and those who wait for it: checks, then the asset's event.

The suite itself is lockstep.quality's, and is imported only when the task runs.
"""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from lockstep.airflow_names import DATA_DOCS_URL
from lockstep.errors import WindowError, WindowNotWrittenError
from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window
from lockstep.pipeline.errors import PipelineError
from lockstep.settings import Settings

if TYPE_CHECKING:
    from lockstep.quality import QualityReport


class DataDocsLink(BaseOperatorLink):
    """The button on the task's page (tab Details) that leads to the checked window's Data Docs."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Called in the task's own process when it ends, however it ends.

        operator: one of ours, which has data_docs_url.
        """
        return operator.data_docs_url


class CheckQualityOperator(BaseOperator):
    """Checks a window and announces it, in an asset event, only when nothing failed.

    outlets: the asset to announce, one. window_start, window_end: ISO 8601.

    A failed check fails the task at once: neither the table nor the database gets better by
    checking again. Warnings let it succeed; they are in the log and in the event's extra.
    The event's `run_id` is the run that wrote the rows, as in the table and its commit.
    """

    template_fields = ("window_start", "window_end")
    operator_extra_links = (DataDocsLink(),)
    ui_color = "#e8f4ea"

    def __init__(
        self, *, window_start: str, window_end: str, pipeline: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.window_start, self.window_end = window_start, window_end
        self.data_docs_url = data_docs_url("")

    def execute(self, context: dict[str, Any]) -> None:
        """Raises AirflowFailException, naming the failed checks, when any failed.

        Also when the window or the pipeline's folder (its checks.toml) cannot be used.
        """
        from lockstep.quality import check_window

        try:
            window = Window.parse(self.window_start, self.window_end)
            report = check_window(Settings.load_for(self.pipeline), window)
        except (PipelineError, WindowError, WindowNotWrittenError) as error:
            raise AirflowFailException(str(error)) from None
        self.data_docs_url = data_docs_url(report.data_docs_page)
        log_report(self.log, report)
        if report.status is CheckStatus.FAIL:
            raise AirflowFailException(
                f"window {window}: {report.summary()}. The rows are in the table, but no one "
                f"waiting for them is notified; details: {self.data_docs_url}"
            )
        if report.status is CheckStatus.WARN:
            self.log.warning("window %s: %s", window, report.summary())
        context["outlet_events"][self.outlets[0]].extra = _extra(report)


def log_report(log: Any, report: "QualityReport") -> None:
    """The checks and where they are shown, for a task's log."""
    for line in report.table().splitlines():
        log.info(line)
    log.info("Data Docs: %s", data_docs_url(report.data_docs_page))


def data_docs_url(page: str) -> str:
    """Where Airflow shows a page; "" is the index of all checked windows."""
    # With the web server's own address in front, the page of the log makes a link of it.
    address = conf.get("api", "base_url", fallback=None) or ""
    return f"{address.rstrip('/')}{DATA_DOCS_URL}/{page}"


def _extra(report: "QualityReport") -> dict[str, Any]:
    """What the asset's event gives those who wait: JSON values, times as ISO 8601 in UTC."""
    return {
        "window_start": report.window.start.isoformat(),
        "window_end": report.window.end.isoformat(),
        "run_id": report.run_id,
        "rows": report.rows,
        "status": str(report.status),
        "warnings": report.warnings,
        "data_docs": data_docs_url(report.data_docs_page),
    }
