"""What has changed between two catalogs of a source, in lines for people."""

from collections.abc import Iterator
from contextlib import suppress

from lockstep.pipeline.catalog import Catalog, Column, Table
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.pg_types import PgType, RefusedError, parse_type
from lockstep.pipeline.plan import PlannedTable, plan_of
from lockstep.pipeline.project import Project


def catalog_changes(before: Catalog, after: Catalog) -> list[str]:
    """A line for each table and column added, removed or of another type, key or identity."""
    old, new = ({table.name: table for table in one.tables} for one in (before, after))
    lines = [f"table {name} is gone" for name in old if name not in new]
    for name, table in new.items():
        if name in old:
            lines += _table_changes(old[name], table)
        else:
            lines.append(f"table {name} is new")
    return [*lines, *_type_changes(before, after)]


def concerned(project: Project, source: str, after: Catalog) -> Iterator[tuple[str, list[str]]]:
    """Each pipeline of the source that reads what has changed, and what of it: columns, also those
    whose enum or domain is another one now, or tables with another key or replica identity.

    project: with the catalog of before. A pipeline that cannot be planned is left out.
    """
    for pipeline in project.pipelines.values():
        if pipeline.source.name != source:
            continue
        with suppress(PipelineError):
            before, plan = pipeline.source.catalog, plan_of(pipeline)
            changed = [
                what for one in plan.tables.values() for what in _changed_in(one, before, after)
            ]
            if changed:
                yield pipeline.name, changed


def _changed_in(read: PlannedTable, before: Catalog, after: Catalog) -> Iterator[str]:
    old = before.table(read.name)
    new = next((table for table in after.tables if table.name == read.name), None)
    if new is None or (new.key, new.replica_identity) != (old.key, old.replica_identity):
        yield str(read.name)
        return
    there = {column.name: column for column in new.columns}
    for name in read.columns:
        was, now = old.column(name), there.get(name)
        if now != was or _type(now, after) != _type(was, before):
            yield f"{read.name}.{name}"


def _type(column: Column, catalog: Catalog) -> PgType | str:
    """What the catalog makes of its type's name: an enum has other labels, a domain another base.

    A text where it refuses the type.
    """
    try:
        return parse_type(column.type, catalog)
    except RefusedError as error:
        return str(error)


def _table_changes(before: Table, after: Table) -> Iterator[str]:
    old, new = ({column.name: column for column in one.columns} for one in (before, after))
    for name, column in old.items():
        if name not in new:
            yield f"column {after.name}.{name} is gone ({column.type})"
    for name, column in new.items():
        if name not in old:
            yield f"column {after.name}.{name} is new ({column.type})"
        elif old[name].type != column.type:
            yield f"column {after.name}.{name} is {column.type} (was {old[name].type})"
        elif old[name].is_nullable != column.is_nullable:
            now = "may be null now" if column.is_nullable else "is NOT NULL now"
            yield f"column {after.name}.{name} {now}"
    if before.key != after.key:
        now, then = (", ".join(key) or "none" for key in (after.key, before.key))
        yield f"table {after.name} has the primary key {now} (was {then})"
    if before.replica_identity != after.replica_identity:
        yield f"table {after.name} has REPLICA IDENTITY {after.replica_identity.upper()}"


def _type_changes(before: Catalog, after: Catalog) -> Iterator[str]:
    """Of enums and domains that both have; a column names others when it is new or retyped."""
    for name, labels in after.enums.items():
        if before.enums.get(name, labels) != labels:
            yield f"enum {name} has the labels {', '.join(labels)}"
    for name, base in after.domains.items():
        if before.domains.get(name, base) != base:
            yield f"domain {name} is over {base} (was {before.domains[name]})"
