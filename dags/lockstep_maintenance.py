"""Keeps bounded, once a day, what grows while the platform runs.

Wiring only: lockstep.airflow_ops.dags makes the DAG.
"""

from lockstep.airflow_ops.dags.maintenance import maintenance_dag

maintenance_dag()
