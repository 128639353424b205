"""Data Docs are for people who are signed in to Airflow, and show nothing but themselves."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from lockstep.airflow_names import DATA_DOCS_URL
from lockstep.airflow_ui import data_docs

ROUTES = ["", "/", "/index.html", "/validations/a.html", "/docs", "/redoc", "/openapi.json", "/x"]
ESCAPES = [
    "/%2e%2e/secrets.env",
    "/..%2fsecrets.env",
    "/validations/%2e%2e/%2e%2e/secrets.env",
    "/%2fetc/passwd",
    "//etc/passwd",
    "/link.html",
    "/linked/secrets.env",
    "/%00",
    "/" + "a" * 5000,
]


@pytest.fixture
def folder(tmp_path):
    """Data Docs of one window, next to a file that must not be served."""
    docs = tmp_path / "data_docs"
    (docs / "validations").mkdir(parents=True)
    (docs / "index.html").write_text("<h1>All windows</h1>")
    (docs / "validations" / "a.html").write_text("<h1>One window</h1>")
    (tmp_path / "secrets.env").write_text("PASSWORD=x")
    (docs / "link.html").symlink_to(tmp_path / "secrets.env")
    (docs / "linked").symlink_to(tmp_path)
    return docs


@pytest.fixture
def client_for(token_of):
    """A function from folder and role to a client of the app as Airflow mounts it."""

    def client(folder, role="viewer", *, signed_in=True):
        airflow = FastAPI()
        airflow.mount(DATA_DOCS_URL, data_docs.create_app(folder))
        cookies = {"_token": token_of(role)} if signed_in else {}
        return TestClient(airflow, cookies=cookies)

    return client


@pytest.mark.parametrize("route", ROUTES + ESCAPES)
def test_anybody_not_signed_in_gets_401_on_every_route(client_for, folder, route):
    answer = client_for(folder, signed_in=False).get(DATA_DOCS_URL + route)
    assert answer.status_code == 401
    assert "window" not in answer.text


def test_a_forged_token_is_refused(client_for, folder):
    client = client_for(folder)
    client.cookies.set("_token", client.cookies["_token"][:-8] + "AAAAAAAA")
    assert client.get(DATA_DOCS_URL + "/").status_code in (401, 403)


def test_a_user_without_a_role_is_refused(client_for, folder):
    assert client_for(folder, role=None).get(DATA_DOCS_URL + "/").status_code == 403


def test_signed_in_users_read_pages_and_folders_show_their_index(client_for, folder):
    client = client_for(folder)
    for route, text in (("/", "All windows"), ("/validations/a.html", "One window")):
        answer = client.get(DATA_DOCS_URL + route)
        assert answer.status_code == 200
        assert text in answer.text
        assert answer.headers["content-type"].startswith("text/html")
        assert client.head(DATA_DOCS_URL + route).status_code == 200


def test_no_script_in_a_page_may_act_with_the_readers_session(client_for, folder):
    policy = client_for(folder).get(DATA_DOCS_URL + "/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "connect-src" not in policy


@pytest.mark.parametrize("route", ESCAPES)
def test_no_path_and_no_link_leads_out_of_the_folder(client_for, folder, route):
    answer = client_for(folder).get(DATA_DOCS_URL + route)
    assert answer.status_code == 404
    assert "PASSWORD" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("route", ["/docs", "/redoc", "/openapi.json"])
def test_the_generated_pages_of_the_framework_do_not_exist(client_for, folder, route):
    assert client_for(folder).get(DATA_DOCS_URL + route).status_code == 404


def test_before_the_first_check_the_page_says_so(client_for, tmp_path):
    answer = client_for(tmp_path / "never built").get(DATA_DOCS_URL + "/")
    assert answer.status_code == 200
    assert "Nothing has been checked yet" in answer.text


def test_a_page_that_is_not_there_says_where_the_others_are(client_for, folder):
    answer = client_for(folder).get(DATA_DOCS_URL + "/validations/gone.html")
    assert answer.status_code == 404
    assert f"{DATA_DOCS_URL}/" in answer.text
