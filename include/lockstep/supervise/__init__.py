"""Long-running jobs kept running: desired state, lease, heartbeat, launcher.

No Spark and no Airflow: what watches a stream must not need either.
"""
