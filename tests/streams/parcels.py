"""A second pipeline, planned without a folder: parcels, by depot and number, each weighed once.

Its fact's key has two columns, neither of them an integer, and its time is a local one.
"""

from dataclasses import replace

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.manifest import PipelineManifest
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import Pipeline, Source
from lockstep.pipeline.result import write_result
from lockstep.pipeline.source import SourceManifest

WEIGHINGS = Table(
    TableName("scales", "weighings"),
    (
        Column("depot", "text", False),
        Column("parcel", "numeric(6,1)", False),
        Column("at", "timestamp without time zone", False),
        Column("grams", "integer[]", False),
    ),
    ("depot", "parcel"),
)
QUERY = """
SELECT depot AS `the Depot`, parcel AS parcel_no, at AS weighed_at, grams FROM scales.weighings
"""
MANIFEST = {
    "format_version": 1,
    "sources": ("carrier",),
    "semantics": "as_of_commit",
    "fact": "scales.weighings",
    "key": ("the Depot", "parcel_no"),
    "time": "weighed_at",
    "modes": ("outbox", "message"),
    "outbox": "scales.outbox",
    "message_prefix": "weighed",
    "time_zones": {"scales.weighings.at": "Europe/Berlin"},
}
SOURCE = {
    "format_version": 1,
    "kind": "postgres",
    "host": "h",
    "port": 1,
    "database": "d",
    "roles": {"read": "r", "capture": "c"},
}
COLUMNS = {
    "the Depot": "string",
    "parcel_no": "decimal(6,1)",
    "weighed_at": "timestamp",
    "grams": "array<int>",
}


def parcels() -> Plan:
    source = Source("carrier", SourceManifest(**SOURCE), Catalog("carrier", (WEIGHINGS,)))
    plan = plan_of(Pipeline("parcels", PipelineManifest(**MANIFEST), source, QUERY))
    return replace(plan, result_lock=write_result(COLUMNS, plan.name, plan.version))
