"""`lockstep airflow …`: Airflow's own command line, in the environment of this stack's Airflow."""

import os
import sys
from pathlib import Path

import typer

from lockstep.errors import ServiceError
from lockstep.settings import Settings


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
    os.execve(program, [str(program), *context.args], airflow_environment(settings))  # noqa: S606
