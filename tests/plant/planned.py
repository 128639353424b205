"""The plant's plan made from a catalog that is written here, without a database."""

from pathlib import Path

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName, write_catalog
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings

from tests.plant.project import Plant

SEED = 5
NAMES = Plant.of(SEED)
SITE = Table(
    TableName("public", NAMES.site),
    (Column(NAMES.code, "text", False), Column(NAMES.city, "text")),
    (NAMES.code,),
)
SENSOR = Table(
    TableName(NAMES.schema, NAMES.sensor),
    (
        Column(NAMES.id, "uuid", False),
        Column(NAMES.serial, "integer", False),
        Column(NAMES.name, "text", False),
        Column(NAMES.factor, "numeric(6,3)"),
        Column(NAMES.site_code, "text"),
    ),
    (NAMES.id,),
)
FACT = Table(
    TableName(NAMES.schema, NAMES.fact),
    (
        Column(NAMES.id, "uuid", False),
        Column(NAMES.sensor_id, "uuid", False),
        Column(NAMES.value, "numeric(12,3)"),
        Column(NAMES.taken_at, "timestamp with time zone", False),
    ),
    (NAMES.id,),
)


def planned(folder: Path, *tables: Table, **texts: str) -> Plan:
    """The plan of the plant's pipeline over these tables; texts replace the folder's files."""
    catalog = Catalog(NAMES.source, tables or (FACT, SENSOR, SITE))
    NAMES.write(folder, Settings(), write_catalog(catalog))
    for name, text in texts.items():
        path = {"manifest": "pipeline.toml", "query": "query.sql"}[name]
        (folder / "include" / "sql" / NAMES.pipeline / path).write_text(NAMES.sql(text))
    return plan_of(read_project(folder).pipeline(NAMES.pipeline))
