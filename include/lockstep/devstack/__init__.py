"""The embedded services: PostgreSQL, Kafka, Kafka Connect and Airflow on this machine's loopback.

Each service is one module that says how it is configured, started and probed; `control` starts and
stops them in order. Nothing here knows what flows through the services, and the rest of the product
meets them by address.
"""
