"""How long rows took from commit to readable, through the last day, out of the streams' figures."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from deltalake import DeltaTable

from lockstep.pipeline.names import METRICS_PATH
from lockstep.settings import Settings
from lockstep.sources.delta import open_table, run_query
from lockstep.supervise.folder import name_in_project

DAY = timedelta(days=1)
EVERY = timedelta(minutes=10)
"""A point for so long: the median of the medians that were measured in it."""
Points = Sequence[tuple[datetime, float]]
"""When a stretch of EVERY began, and seconds."""


def delays_of_day(
    settings: Settings, modes: Sequence[str], until: datetime
) -> Mapping[str, Points]:
    """Of each mode of the pipeline that is worked for, if it wrote anything in the last day.

    Raises LakehouseError when the figures cannot be read.
    """
    uri = settings.table_uri(METRICS_PATH)
    if not modes or not DeltaTable.is_deltatable(uri):
        return {}
    names = {name_in_project(settings, mode): mode for mode in modes}
    since = until - DAY
    query = f"""
        SELECT
            mode,
            date_bin(INTERVAL '{EVERY // timedelta(minutes=1)} minutes', measured_at) AS moment,
            median(latency_p50_seconds) AS seconds
        FROM figures
        WHERE measured_date >= DATE '{since.date().isoformat()}'
            AND measured_at >= TIMESTAMP '{since.isoformat()}'
            AND latency_p50_seconds IS NOT NULL
            AND mode IN ({", ".join(f"'{name}'" for name in names)})
        GROUP BY 1, 2
        ORDER BY 1, 2
    """  # noqa: S608 - names of pipelines and modes, and times
    found: dict[str, list[tuple[datetime, float]]] = {}
    for row in run_query(query, {"figures": open_table(uri)}).read_all().to_pylist():
        found.setdefault(names[row["mode"]], []).append((row["moment"], row["seconds"]))
    return {mode: found[mode] for mode in modes if mode in found}
