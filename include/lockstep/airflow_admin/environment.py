"""Airflow's whole configuration, as environment variables made from our settings.

No airflow.cfg is edited anywhere. Airflow itself is never imported here.
"""

import base64
import json
import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

from lockstep.accounts import AIRFLOW_DATABASE, Role
from lockstep.airflow_names import SPARK_CONNECTION
from lockstep.host.environment import settings_environment
from lockstep.host.files import make_private_folder, write_private, write_private_once
from lockstep.settings import Settings

ADMIN_USER = "admin"
PARALLELISM = 4
"""Tasks at once: two cores, and a task that submits to Spark mostly waits."""
REFRESH_SECONDS = 5
"""How soon a new or changed DAG file is seen."""


def airflow_environment(settings: Settings) -> dict[str, str]:
    """The environment in which every Airflow process, and any `airflow` command, is to run.

    It holds passwords: give it to a process, never print it. The files that it refers to (keys,
    the sign-in password) are written, for their owner alone, when they are missing.
    """
    keys = _keys(settings)
    return {
        **_inherited(),
        **settings_environment(settings),
        "AIRFLOW_HOME": str(airflow_home(settings)),
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet_key"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt_secret"],
        "AIRFLOW__API__SECRET_KEY": keys["api_secret_key"],
        **_metadata_database(settings),
        **_api_server(settings),
        **_what_runs(settings),
        **_spark(settings),
    }


def airflow_home(settings: Settings) -> Path:
    return settings.home / "airflow"


def _inherited() -> dict[str, str]:
    """Our own environment without what would configure Airflow or give a password away."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "LOCKSTEP_", "PG"))
    }
    programs = Path(sys.executable).parent
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept.get('PATH', os.defpath)}"}


def _metadata_database(settings: Settings) -> dict[str, str]:
    password = quote(settings.password(Role.AIRFLOW), safe="")
    host = (
        f"[{settings.postgres_host}]" if ":" in settings.postgres_host else settings.postgres_host
    )
    rest = f"{Role.AIRFLOW}:{password}@{host}:{settings.postgres_port}/{AIRFLOW_DATABASE}"
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{rest}",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"postgresql+asyncpg://{rest}",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
    }


def _api_server(settings: Settings) -> dict[str, str]:
    return {
        "AIRFLOW__API__HOST": settings.airflow_host,
        "AIRFLOW__API__PORT": str(settings.airflow_port),
        "AIRFLOW__API__BASE_URL": settings.airflow_url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{settings.airflow_url}/execution/",
        "AIRFLOW__CORE__AUTH_MANAGER": (
            "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN_USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(_passwords_file(settings)),
    }


def _what_runs(settings: Settings) -> dict[str, str]:
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(settings.project / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(settings.project / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(PARALLELISM),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": str(REFRESH_SECONDS),
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(airflow_home(settings) / "logs"),
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SCARF_NO_ANALYTICS": "true",
    }


def _spark(settings: Settings) -> dict[str, str]:
    """The connection that jobs are submitted through; the provider finds spark-submit on PATH."""
    connection = {
        "conn_type": "spark",
        "host": settings.spark_master,
        "extra": {"spark-binary": "spark-submit", "deploy-mode": "client"},
    }
    return {
        f"AIRFLOW_CONN_{SPARK_CONNECTION.upper()}": json.dumps(connection),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _passwords_file(settings: Settings) -> Path:
    return airflow_home(settings) / "sign-in.json"


def write_sign_in_password(settings: Settings) -> None:
    """Give the one user of the sign-in page the password of our secrets."""
    make_private_folder(airflow_home(settings))
    password = settings.airflow_ui_password
    if password is not None:
        sign_in = {ADMIN_USER: password.get_secret_value()}
        write_private(_passwords_file(settings), json.dumps(sign_in) + "\n")


def _keys(settings: Settings) -> dict[str, str]:
    """Airflow's own keys: made once, for what they encrypt and sign outlives a restart."""
    path = make_private_folder(airflow_home(settings)) / "keys.json"
    keys = {
        "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "jwt_secret": secrets.token_urlsafe(64),
        "api_secret_key": secrets.token_urlsafe(64),
    }
    write_private_once(path, json.dumps(keys))
    return json.loads(path.read_text())
