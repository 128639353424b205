"""The pizzeria itself: what fills its database, as its cashiers and waiters would.

Everything here writes to PostgreSQL as the role `shop`, and knows nothing of Spark, Kafka, Delta
or Airflow.
"""
