"""What is said of two catalogs of a source. Tables and columns: tests/plant/test_source_add.py."""

from dataclasses import replace

from lockstep.pipeline.catalog import Catalog, Column, ReplicaIdentity, Table, TableName
from lockstep.pipeline.catalog_changes import catalog_changes, concerned
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project

from tests.project import PROJECT_DIR

SITE = Table(TableName("public", "site"), (Column("id", "integer", False),), ("id",))
BEFORE = Catalog("depot", (SITE,), {"mood": ("good",)}, {"code": "text"})


def changes(site: Table, **other: dict) -> list[str]:
    return catalog_changes(BEFORE, replace(BEFORE, tables=(site,), **other))


def test_the_same_catalog_has_no_change() -> None:
    assert changes(SITE) == []


def test_a_change_of_nulls_key_or_identity_is_said() -> None:
    assert changes(replace(SITE, columns=(Column("id", "integer"),))) == [
        "column public.site.id may be null now"
    ]
    assert changes(replace(SITE, key=())) == ["table public.site has the primary key none (was id)"]
    assert changes(replace(SITE, replica_identity=ReplicaIdentity.FULL)) == [
        "table public.site has REPLICA IDENTITY FULL"
    ]


def test_what_a_type_is_made_of_is_a_change_of_its_columns() -> None:
    assert changes(SITE, enums={"mood": ("good", "bad")}, domains={"code": "bigint"}) == [
        "enum mood has the labels good, bad",
        "domain code is over bigint (was text)",
    ]


def test_a_changed_enum_or_domain_concerns_who_reads_a_column_of_it() -> None:
    project = read_project(PROJECT_DIR)
    source = project.pipeline("consignments_booked").source
    catalog = source.catalog
    assert not list(concerned(project, source.name, catalog))
    [(enum, labels)] = catalog.enums.items()
    read = {
        name: sorted(
            f"{table.name}.{column}"
            for table in plan_of(pipeline).tables.values()
            for column in table.columns
            if catalog.table(table.name).column(column).type == enum
        )
        for name, pipeline in project.pipelines.items()
        if pipeline.source == source
    }
    assert any(read.values())
    after = replace(catalog, enums={enum: (*labels, "new")})
    assert dict(concerned(project, source.name, after)) == {
        name: columns for name, columns in read.items() if columns
    }
