"""A pipeline of another shape: parcels, whose key has two columns, one of them a word of SQL."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName, write_catalog
from lockstep.pipeline.plan import Plan, plan_of
from lockstep.pipeline.project import read_project
from lockstep.pipeline.result import write_result

PARCEL = Table(
    TableName("depot", "parcel"),
    (
        Column("zone", "text", False),
        Column("number", "integer", False),
        Column("weight", "numeric(8,2)"),
        Column("packed_at", "timestamp with time zone", False),
    ),
    ("zone", "number"),
)
QUERY = "SELECT p.zone AS `group`, p.number, p.packed_at AS packed, p.weight FROM depot.parcel AS p"
COLUMNS = {"group": "string", "number": "int", "packed": "timestamp", "weight": "decimal(8,2)"}
MANIFEST = """
format_version = 1
sources = ["depot"]
semantics = "as_of_commit"
fact = "depot.parcel"
key = ["group", "number"]
time = "packed"
modes = ["temporal"]
"""
SOURCE = """
format_version = 1
kind = "postgres"
host = "localhost"
port = 5432
database = "depot"
roles = { read = "reader", capture = "capture" }
"""


def parcels(folder: Path, more: str = "", types: Mapping[str, str] = COLUMNS) -> Plan:
    """The plan, with the types of its result, from a project below this folder.

    more: at the end of the manifest.
    """
    files = {
        "sources/depot/source.toml": SOURCE,
        "sources/depot/catalog.lock": write_catalog(Catalog("depot", (PARCEL,))),
        "sql/parcels/pipeline.toml": MANIFEST + more,
        "sql/parcels/query.sql": QUERY,
    }
    for path, text in files.items():
        file = folder / "include" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    plan = plan_of(read_project(folder).pipeline("parcels"))
    return replace(plan, result_lock=write_result(types, plan.name, plan.version))
