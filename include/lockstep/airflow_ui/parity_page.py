"""The page "Parity" in Airflow's menu: whether stream and batch agree, hour by hour, and why not.

Rendered by lockstep.parity_pages, without scripts; signed-in users only, like Data Docs.
"""

from collections.abc import Callable
from functools import partial
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
from lockstep.parity_pages.pipelines import pipelines
from lockstep.parity_pages.render import render
from lockstep.pipeline.pipeline_names import PipelineNames
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.project import read_project
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
        """Of all pipelines; of a project's only one its own page at once."""
        used = settings or Settings.load()
        if len(_pipelines(used)) > 1:
            return _rendered("pipelines.html", pipelines(used, _pipeline_url), REFRESH_SECONDS)
        return _overview_page(settings)

    @app.get("/of/{name}/")
    def of_pipeline(name: str) -> HTMLResponse:
        return _of(settings, name, _overview_page)

    @app.get("/of/{name}/hour")
    def hour_of(name: str, mode: StreamMode, start: str, end: str) -> HTMLResponse:
        return _of(settings, name, lambda used: _hour_page(used, mode, start, end))

    @app.get("/hour")
    def hour(mode: StreamMode, start: str, end: str) -> HTMLResponse:
        return _hour_page(settings, mode, start, end)

    @app.get("/{path:path}")
    def nothing(path: str) -> HTMLResponse:
        return _notice("There is no such page.")

    return app


def _of(
    settings: Settings | None, name: str, page: Callable[[Settings], HTMLResponse]
) -> HTMLResponse:
    """A page of one pipeline of the project."""
    used = settings or Settings.load()
    if name not in _pipelines(used):
        return _notice(f"There is no pipeline {name}.")
    return page(used.of(name))


def _pipelines(settings: Settings) -> set[str]:
    project = read_project(settings.project)
    return {*project.pipelines, *project.pipeline_problems}


def _overview_page(settings: Settings | None) -> HTMLResponse:
    return _answer(settings, "parity.html", _overview, refresh_seconds=REFRESH_SECONDS)


def _hour_page(settings: Settings | None, mode: StreamMode, start: str, end: str) -> HTMLResponse:
    def values(used: Settings) -> dict:
        return _hour(used, Window.parse(start, end), mode)

    return _answer(settings, "hour.html", values, refresh_seconds=0)


def _overview(settings: Settings) -> dict:
    return view.overview(settings, _plan(settings), partial(_hour_url, settings))


def _hour(settings: Settings, window: Window, mode: StreamMode) -> dict:
    found = view.hour(settings, _plan(settings), window, mode, partial(_hour_url, settings))
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


def _pipeline_url(name: str) -> str:
    return f"{PARITY_URL}/of/{name}/"


def _hour_url(settings: Settings, window: Window, mode: StreamMode) -> str:
    bounds = {"start": window.start.isoformat(), "end": window.end.isoformat()}
    page = f"{_pipeline_url(settings.names.pipeline)}hour"
    return f"{page}?{urlencode({'mode': mode} | bounds)}"


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
        own = _own(used)
    except LockstepError as error:
        return _notice(str(error))
    return _rendered(template, found | own, refresh_seconds)


def _own(settings: Settings) -> dict[str, str]:
    """Which pipeline a page is of, and where its own overview is, and that of all."""
    name, is_only = settings.names.pipeline, len(_pipelines(settings)) == 1
    overview_url = f"{PARITY_URL}/" if is_only else _pipeline_url(name)
    return {
        "pipeline": name,
        "overview_url": overview_url,
        "pipelines_url": "" if is_only else f"{PARITY_URL}/",
    }


def _rendered(template: str, values: dict, refresh_seconds: int) -> HTMLResponse:
    html = render(template, _PAGES | values | {"refresh_seconds": refresh_seconds})
    return HTMLResponse(html, headers=HEADERS)


def _notice(text: str) -> HTMLResponse:
    html = render("notice.html", {"text": text, "refresh_seconds": 0} | _PAGES)
    return HTMLResponse(html, status_code=HTTPStatus.NOT_FOUND, headers=HEADERS)
