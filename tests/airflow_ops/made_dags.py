"""The DAGs of the project's pipelines, by id, as dags/pipelines.py makes them."""

from airflow.sdk import DAG
from lockstep.airflow_ops.dags.project import make_dags
from lockstep.settings import Settings


def dags_of(settings: Settings | None = None) -> dict[str, DAG]:
    return {dag.dag_id: dag for dag in make_dags(settings or Settings.load())}
