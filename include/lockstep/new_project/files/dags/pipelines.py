"""The DAGs of every pipeline of the project: hourly run, comparison, repair, streams, publishing.

Wiring only. A pipeline is a folder of include/sql; lockstep.airflow_ops.dags makes its DAGs.
"""

from airflow.sdk import get_parsing_context
from lockstep.airflow_ops.dags.project import make_dags
from lockstep.settings import Settings

make_dags(Settings.load(), get_parsing_context().dag_id)
