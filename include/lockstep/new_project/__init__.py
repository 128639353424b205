"""A folder that is a new project: what Airflow and spark-submit start from, and no pipeline yet."""
