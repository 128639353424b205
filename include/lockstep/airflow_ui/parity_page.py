"""The page "Parity" in Airflow's menu: whether stream and batch agree, hour by hour, and why not.

Rendered by lockstep.parity_pages, without scripts; signed-in users only, like Data Docs.
"""

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse

from lockstep.airflow_names import DATA_DOCS_URL, PARITY_URL
from lockstep.airflow_ui.data_docs import HEADERS, docs_of
from lockstep.errors import LockstepError
from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.parity_pages import view
from lockstep.parity_pages.render import render
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.settings import Settings

REFRESH_SECONDS = 30
_PAGES = {"docs_url": f"{DATA_DOCS_URL}/", "overview_url": f"{PARITY_URL}/"}


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application to mount below PARITY_URL; settings None: those of the environment.

    Answers 401 to a user who is not signed in and 403 to those who may not see plugins, whatever
    the path; see data_docs.create_app.
    """
    app = FastAPI(
        title="Parity",
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    @app.get("/")
    def overview() -> HTMLResponse:
        return _answer(settings, "parity.html", _overview, refresh_seconds=REFRESH_SECONDS)

    @app.get("/hour")
    def hour(mode: StreamMode, start: str, end: str) -> HTMLResponse:
        return _answer(
            settings,
            "hour.html",
            lambda used: _hour(used, Window.parse(start, end), mode),
            refresh_seconds=0,
        )

    @app.get("/{path:path}")
    def nothing(path: str) -> HTMLResponse:
        return _notice("There is no such page.")

    return app


def _overview(settings: Settings) -> dict:
    return view.overview(settings, _plan(settings), _hour_url)


def _hour(settings: Settings, window: Window, mode: StreamMode) -> dict:
    found = view.hour(settings, _plan(settings), window, mode, _hour_url)
    return found | {"docs": docs_of(settings, found["line"])}


def _plan(settings: Settings) -> Plan:
    """Of the project's folder as it is now."""
    return plan_named(settings.project, settings.names.pipeline)


def _dags(names: PipelineNames) -> dict[str, str]:
    return {
        "dag_id": names.parity_dag_id,
        "stream_dag_id": names.stream_dag_id(StreamMode.OUTBOX),
        "dag_url": f"/dags/{names.parity_dag_id}",
        "repair_dag_id": names.repair_dag_id,
        "repair_dag_url": f"/dags/{names.repair_dag_id}",
    }


def _hour_url(window: Window, mode: StreamMode) -> str:
    bounds = {"start": window.start.isoformat(), "end": window.end.isoformat()}
    return f"{PARITY_URL}/hour?{urlencode({'mode': mode} | bounds)}"


def _answer(
    settings: Settings | None,
    template: str,
    values: Callable[[Settings], dict],
    *,
    refresh_seconds: int,
) -> HTMLResponse:
    try:
        used = settings or Settings.load()
        found = values(used) | _dags(used.names)
    except LockstepError as error:
        return _notice(str(error))
    html = render(template, found | _PAGES | {"refresh_seconds": refresh_seconds})
    return HTMLResponse(html, headers=HEADERS)


def _notice(text: str) -> HTMLResponse:
    html = render("notice.html", {"text": text, "refresh_seconds": 0} | _PAGES)
    return HTMLResponse(html, status_code=HTTPStatus.NOT_FOUND, headers=HEADERS)
