"""What the DAGs are made of: timetable, deadline, operators, assets. Never imports pyspark.

Airflow's scheduler, triggerer and workers import these modules by name, so everything they must
load lives here, in the installed package, and not in the DAG or plugins folders.
"""
