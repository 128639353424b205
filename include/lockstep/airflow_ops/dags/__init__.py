"""What makes the DAGs of a pipeline, a module each. Wiring only: what tasks do is airflow_ops'."""
