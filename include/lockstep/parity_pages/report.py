"""The overview and each of its hours as one HTML file that needs nothing else."""

from datetime import timedelta

from markupsafe import Markup

from lockstep.errors import LakehouseError
from lockstep.ledger import book
from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.parity_pages import view
from lockstep.parity_pages.render import LAYOUT_OF_A_PART, render
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings

HOURS = 24
"""Without bounds: so many hours, up to the newest that was compared."""


def report(settings: Settings, window: Window | None = None) -> str:
    """The report of the window's hours, or of the last HOURS, as HTML without scripts.

    An hour is the newest comparison of it; the newest hours come first. Raises LakehouseError when
    nothing was compared there.
    """
    plan = plan_named(settings.project, settings.names.pipeline)
    judged = book.judged(settings)
    if window is None and judged:
        newest = max(one.end for one in judged)
        window = Window(newest - timedelta(hours=HOURS), newest)
    compared = {
        (Window(one.start, one.end), one.mode)
        for one in judged
        if window and one.start < window.end and one.end > window.start
    }
    if not compared:
        where = f"of {window} " if window else ""
        raise LakehouseError(
            f"nothing {where}was compared yet: `lockstep parity check` compares a window, and "
            f"the DAG {settings.names.parity_dag_id} each hour"
        )
    overview = view.overview(settings, plan, _link, window)
    parts = [
        {
            "anchor": _anchor(*which),
            "html": _part("hour.html", view.hour(settings, plan, *which, _link)),
        }
        for which in sorted(compared, key=_newest_first)
    ]
    return render(
        "report.html",
        {
            "hours": overview["hours"],
            "overview": _part("parity.html", overview | {"pipeline": plan.name}),
            "parts": parts,
            "refresh_seconds": 0,
        },
    )


def _newest_first(which: tuple[Window, StreamMode]) -> tuple[float, int]:
    window, mode = which
    return -window.start.timestamp(), list(StreamMode).index(mode)


def _part(template: str, values: dict) -> Markup:
    """A page without its head; links to Airflow are left out."""
    links = {"overview_url": "#", "pipelines_url": ""}
    links |= dict.fromkeys(("dag_id", "dag_url", "docs_url", "repair_dag_url"), "")  # no Airflow
    html = render(
        template,
        values | links | {"docs": None} | {"layout": LAYOUT_OF_A_PART, "refresh_seconds": 0},
    )
    return Markup(html)  # noqa: S704 - rendered with every value escaped


def _link(window: Window, mode: StreamMode) -> str:
    return f"#{_anchor(window, mode)}"


def _anchor(window: Window, mode: StreamMode) -> str:
    return f"{mode}-{window.start:%Y%m%dT%H%M%S}-{window.end:%Y%m%dT%H%M%S}"
