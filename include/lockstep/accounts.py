"""Who signs in to the services: least privilege each."""

from enum import StrEnum


class Role(StrEnum):
    """The library's database roles, least privilege each (devstack/roles.sql).

    Those of a source's applications are `logins` in its source.toml.
    """

    ADMIN = "lockstep_admin"
    BATCH_READER = "batch_reader"
    CDC = "cdc"
    AIRFLOW = "airflow"


class KafkaUser(StrEnum):
    """Who signs in to Kafka."""

    ADMIN = "lockstep"
    """May do everything: the broker itself, Connect, who deletes topics."""
    READER = "lockstep_reader"
    """May read the change topic, and nothing else: streams, with their executors."""


AIRFLOW_DATABASE = "airflow"
"""The database of Airflow's metadata, which the role AIRFLOW owns."""
CONNECT_USER = "lockstep"
"""Who signs in to Connect's REST interface."""
