"""Serves Great Expectations' Data Docs to people who are signed in to Airflow, and to no one else.

Every file goes through one route below one permission. A StaticFiles mount would not do: mounted
applications do not inherit the dependencies of the application they are mounted in.
"""

from http import HTTPStatus
from pathlib import Path

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response

from lockstep.airflow_names import DATA_DOCS_URL
from lockstep.ledger.entries import Comparison
from lockstep.pipeline.names import sql_name
from lockstep.quality.data_docs import SITE, newest_record
from lockstep.quality.judgement import quality_folder
from lockstep.settings import Settings

INDEX = "index.html"


def create_app(folder: Path | None = None) -> FastAPI:
    """The application to mount; `folder` holds the pages, by default those of the settings' home.

    Answers 401 to a user who is not signed in and 403 to those who may not see plugins, whatever
    the path. The generated API pages of FastAPI are off: they would be open to all.
    """
    app = FastAPI(
        title="Data Docs",
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    @app.api_route("/{path:path}", methods=["GET", "HEAD"])
    def page(path: str) -> Response:
        return _answer(folder or docs_folder(Settings.load()), path)

    return app


def docs_folder(settings: Settings) -> Path:
    """Where lockstep.quality builds the pages."""
    return quality_folder(settings) / SITE


def docs_of(settings: Settings, line: Comparison) -> dict[str, str] | None:
    """The page of what a comparison read: href and status; None when it was not checked."""
    subject = sql_name(settings.names.change_log(line.mode))
    record = newest_record(quality_folder(settings), line.window, subject)
    if record is None or record["check_id"] != line.check_id:
        return None
    return {"href": f"{DATA_DOCS_URL}/{record['page']}", "status": record["status"]}


def _answer(folder: Path, path: str) -> Response:
    file = _file_within(folder.resolve(), path)
    if file is not None:
        return FileResponse(file, headers=HEADERS)
    if path in ("", INDEX):
        return _notice(HTTPStatus.OK, "Nothing has been checked yet", _nothing_yet())
    return _notice(HTTPStatus.NOT_FOUND, "No such page", NO_SUCH_PAGE)


def _file_within(root: Path, path: str) -> Path | None:
    try:
        file = (root / path).resolve()
        if file.is_dir():
            file = (file / INDEX).resolve()
        # resolve() has followed `..` and symbolic links: what lies outside the folder is refused.
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # a name no file can have: too long, or with a NUL
        return None


def _notice(status: HTTPStatus, title: str, text: str) -> HTMLResponse:
    html = (
        f"<!doctype html><title>{title}</title><body style='{NOTICE_STYLE}'><h1>{title}</h1>{text}"
    )
    return HTMLResponse(html, status_code=status, headers=HEADERS)


def _nothing_yet() -> str:
    dag_id = Settings.load().names.hourly_dag_id
    return (
        "<p>The hourly run checks each window after it has written it, and its results appear "
        f"here. Start the DAG <code>{dag_id}</code>, or backfill it, and come back.</p>"
    )


NOTICE_STYLE = "font: 16px sans-serif; max-width: 40em; margin: 4em auto; line-height: 1.5"
NO_SUCH_PAGE = (
    "<p>This page was not built, or has been removed since. "
    f"<a href='{DATA_DOCS_URL}/'>All checked windows</a></p>"
)
HEADERS = {
    # The pages come from Airflow's own address and show values out of the database: no script in
    # them may act with the reader's session. Their styles are in the pages.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Cache-Control": "no-cache",  # pages are rebuilt under the same names
    "X-Content-Type-Options": "nosniff",
}
