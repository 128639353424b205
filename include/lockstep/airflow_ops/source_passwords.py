"""Passwords of a source's roles that Airflow keeps as connections.

A task puts them into the environment of its own process, as which the jobs and drivers that it
starts inherit them; each gets those of its source alone (supervise/launcher.py). Airflow masks them
in its logs.
"""

import os

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from lockstep.pipeline.folder import read_source_manifest
from lockstep.settings import SOURCE_ROLES, Settings, source_connection, source_password_setting


def task_settings(pipeline: str) -> Settings:
    """The settings for a task that signs in to the pipeline's source, or starts what does.

    A connection is asked for last: a password of the environment or of secrets.env stays. Raises as
    Settings.load_for, and PipelineError or ManifestError without a source.
    """
    settings = Settings.load_for(pipeline)
    source = settings.names.source
    if read_source_manifest(settings.project, source).host is not None:
        for role in SOURCE_ROLES:
            if settings.find_source_password(source, role) is None:
                _take(source, role)
    return settings


def _take(source: str, role: str) -> None:
    try:
        password = Connection.get(source_connection(source, role)).password
    except AirflowNotFoundException:
        return
    if password:
        os.environ[source_password_setting(source, role)] = password
