"""Who signs in to the services: least privilege each."""

from enum import StrEnum


class Role(StrEnum):
    """The database roles, least privilege each (devstack/roles.sql).

    OWNER and SHOP are the pizzeria's, of its source's roles.sql.
    """

    ADMIN = "lockstep_admin"
    OWNER = "pizzeria_owner"
    SHOP = "shop"
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
