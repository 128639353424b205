"""`lockstep airflow …`: Airflow's own command line, in the environment of this stack's Airflow."""

import os
import sys
from pathlib import Path

import typer

from lockstep.errors import ServiceError
from lockstep.settings import Settings

_NOISE = (
    "ignore:Could not import graphviz",  # pictures of DAGs, which need a package of the system's
    "ignore:Using `httpx` with `starlette.testclient`",
)
"""Warnings that Airflow's command prints each time, and that no user can act on."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(name="airflow", context_settings=passed_on)(airflow)


def airflow(context: typer.Context) -> None:
    """Run Airflow's own command, e.g. `lockstep airflow backfill create --help`."""
    from lockstep.airflow_admin.environment import airflow_environment

    settings = Settings.load()
    if not settings.secrets_path.exists():
        raise ServiceError(f"there is no stack in {settings.home} yet: run `lockstep up`")
    program = Path(sys.executable).with_name("airflow")
    environment = {"PYTHONWARNINGS": ",".join(_NOISE), **airflow_environment(settings)}
    os.execve(program, [str(program), *context.args], environment)  # noqa: S606
