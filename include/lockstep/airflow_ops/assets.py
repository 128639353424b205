"""The data that DAGs announce and wait for, as Airflow assets."""

from airflow.sdk import Asset

from lockstep import pizzeria

HOURLY_ORDERS = Asset(
    name="pizzeria_orders_enriched_batch",
    uri=pizzeria.HOURLY_ASSET_URI,
    group="pizzeria",
)
"""The hourly table. An event means: the window in its extra is written and its checks passed."""
