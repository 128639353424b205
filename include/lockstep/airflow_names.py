"""Names in Airflow that no pipeline has a part in."""

MAINTENANCE_DAG_ID = "lockstep_maintenance"
SPARK_CONNECTION = "spark_default"
SPARK_POOL = "lockstep_spark"
"""Its slots are the Spark sessions that tasks may have at a time: one, on two cores."""
NOTIFY_CONNECTION = "lockstep_notify"
DATA_DOCS_URL = "/lockstep/data-docs"
PARITY_URL = "/lockstep/parity"
