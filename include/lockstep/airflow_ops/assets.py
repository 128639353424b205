"""The data that DAGs announce and wait for, as Airflow assets."""

from airflow.sdk import Asset

from lockstep.pipeline.names import sql_name
from lockstep.pipeline.pipeline_names import PipelineNames


def hourly_asset(names: PipelineNames) -> Asset:
    """The hourly table. An event: the window in its extra is written, and its checks passed."""
    return Asset(
        name=sql_name(names.hourly_table), uri=names.hourly_asset_uri, group=names.pipeline
    )
