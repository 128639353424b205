"""Airflow for tests: its own empty home, set before anything imports airflow. No database."""

import os
import tempfile

if "airflow" not in __import__("sys").modules:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="lockstep-airflow-tests-")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
