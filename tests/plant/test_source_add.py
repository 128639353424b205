"""`lockstep source add`: what it writes and asks for, of a database new to Lockstep."""

import re
import shutil

import pytest
from lockstep.errors import ConfigurationError
from lockstep.pipeline import names
from lockstep.pipeline.catalog import Catalog
from lockstep.pipeline.project import read_project
from lockstep.settings import source_password_setting
from lockstep.sources.database_catalog import read_database_catalog

from tests.plant.conftest import CAPTURE, NewSource, source

pytestmark = pytest.mark.services


def test_add_writes_a_folder_that_can_be_used(new_source: NewSource) -> None:
    """By a role that may only connect."""
    added = new_source.add()
    assert added.exception is None, added.exception
    own, manifest = new_source.plant.plant, new_source.read.manifest
    assert (manifest.database, manifest.roles.read) == (own.database, own.reader)
    assert manifest.roles.capture == CAPTURE
    assert new_source.read.catalog == read_catalog_of(new_source)
    assert [line.split("(")[0] for line in added.stdout.splitlines()] == [
        f'CREATE ROLE "{CAPTURE}" LOGIN REPLICATION;',
        f'-- Choose its password, in psql: \\password "{CAPTURE}"',
        f'GRANT USAGE ON SCHEMA "{own.schema}" TO "{own.reader}";',
        f'GRANT SELECT ON {listed(new_source)} TO "{own.reader}";',
        f'GRANT CONNECT ON DATABASE "{own.database}" TO "{CAPTURE}";',
        f'GRANT USAGE ON SCHEMA "{own.schema}" TO "{CAPTURE}";',
        f'GRANT USAGE ON SCHEMA "public" TO "{CAPTURE}";',
        f'GRANT SELECT ON {listed(new_source)} TO "{CAPTURE}";',
        f'CREATE PUBLICATION "lockstep__{own.source}" FOR TABLE {listed(new_source)} WITH ',
    ]


def read_catalog_of(new_source: NewSource) -> Catalog:
    own = new_source.plant.plant
    with new_source.plant.owner() as owner:
        return read_database_catalog(owner, own.source, ("public", own.schema))


def listed(new_source: NewSource) -> str:
    """The plant's tables as a statement has them."""
    tables = [table.name for table in read_catalog_of(new_source).tables]
    return ", ".join(f'"{table.schema}"."{table.name}"' for table in tables)


@pytest.mark.parametrize("form", ["//{}:{}@{}", "//{}@{}?password={}"])
def test_a_password_in_the_address_is_refused_and_not_repeated(
    new_source: NewSource, form: str
) -> None:
    user, place = new_source.url.removeprefix("postgres://").split("@")
    in_order = (user, "sesame", place) if ":" in form[:6] else (user, place, "sesame")
    refused = source("add", new_source.name, f"postgres:{form.format(*in_order)}")
    assert isinstance(refused.exception, ConfigurationError)
    assert source_password_setting(new_source.name, "read") in str(refused.exception)
    assert "sesame" not in f"{refused.exception}{refused.output}"
    assert not (new_source.plant.folder / "include" / "sources" / new_source.name).exists()


def test_add_again_says_what_has_changed_and_leaves_the_manifest(new_source: NewSource) -> None:
    new_source.add()
    folder = new_source.plant.folder / "include" / "sources" / new_source.name
    manifest = f"# ours\n{(folder / 'source.toml').read_text()}"
    (folder / "source.toml").write_text(manifest)
    assert "nothing has changed" in source("add", new_source.name).stderr
    new_source.plant.execute(
        "ALTER TABLE $site ADD COLUMN area integer;"
        "ALTER TABLE $schema.$sensor DROP COLUMN $factor, ALTER COLUMN $serial TYPE bigint;"
        "CREATE TABLE other (id int PRIMARY KEY); DROP TABLE $schema.$fact"
    )
    added, own = source("add", new_source.name), new_source.plant.plant
    assert set(added.stderr.splitlines()[4:9]) == {
        f"table {own.schema}.{own.fact} is gone",
        f"column {own.schema}.{own.sensor}.{own.factor} is gone (numeric(6,3))",
        f"column {own.schema}.{own.sensor}.{own.serial} is bigint (was integer)",
        "table public.other is new",
        f"column public.{own.site}.area is new (integer)",
    }
    assert read_project(new_source.plant.folder).sources[own.source].catalog == (
        read_catalog_of(new_source)
    )
    assert (folder / "source.toml").read_text() == manifest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schema", "nowhere"], "no table in the schema nowhere"),
        (["--tables", "public.nothing"], "no table public.nothing"),
        (["--tables", "keyless"], "table public.keyless cannot be captured"),
        (["--read-role", "someone"], "refuses the password|does not answer"),
    ],
)
def test_when_add_fails_nothing_is_written(
    new_source: NewSource, options: list[str], message: str
) -> None:
    new_source.plant.execute("CREATE TABLE keyless (id int)")
    refused = new_source.add(*options)
    assert re.search(message, str(refused.exception)), refused.exception
    sources = new_source.plant.folder / "include" / "sources"
    assert list(sources.iterdir()) == []


def test_another_address_than_the_manifests_is_refused(new_source: NewSource) -> None:
    new_source.add()
    own = new_source.plant.plant
    refused = source("add", own.source, new_source.url.replace(own.database, "elsewhere"))
    assert f"source.toml has {own.database}, not elsewhere" in str(refused.exception)


def test_columns_that_cannot_be_read_are_named_and_what_full_identity_opens(
    new_source: NewSource,
) -> None:
    new_source.plant.execute(
        "CREATE TABLE arrays (id int PRIMARY KEY, small smallint[] NOT NULL, any_ numeric(5,2)[]);"
        "CREATE TABLE plain (id int PRIMARY KEY, at timestamp, length interval);"
        "ALTER TABLE plain REPLICA IDENTITY NOTHING"
    )
    added = new_source.add()
    refused = re.findall(r"no pipeline can read: table public\.(\w+), column (\w+)", added.stderr)
    assert refused == [("arrays", "small"), ("arrays", "any_"), ("plain", "length")]
    assert added.stdout.splitlines()[:2] == [
        'ALTER TABLE "public"."arrays" REPLICA IDENTITY FULL;',
        'ALTER TABLE "public"."plain" REPLICA IDENTITY DEFAULT;',
    ]
    new_source.prepare(added.stdout)
    again = new_source.add()
    assert "column small" not in again.stderr
    assert "column any_" in again.stderr
    assert again.stdout == ""


def test_what_keeps_a_connector_from_starting_or_breaks_the_application_is_warned_of(
    new_source: NewSource,
) -> None:
    new_source.plant.execute(
        "CREATE TABLE keyless (id int); CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);"
        "CREATE TABLE late_key (id int PRIMARY KEY DEFERRABLE);"
        "CREATE TABLE stops (id int PRIMARY KEY, small smallint[] NOT NULL);"
        "CREATE TYPE empty_ AS ENUM (); CREATE TYPE mood AS ENUM ('good');"
        "CREATE DOMAIN moody AS mood; CREATE DOMAIN moodier AS moody"
    )
    added = new_source.add()
    warned = [line for line in added.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 7
    for subject in (
        "table public.keyless is not captured: it has no primary key",
        "table public.late_key is not captured: it has only a deferrable primary key",
        "table public.unlogged is not captured: it is unlogged",
        "table public.stops: the connector stops at a change that leaves a large value of small",
        "enum public.empty_ has no labels",
        "domain public.moody is over an enum",
        "domain public.moodier is over an enum",
    ):
        assert any(subject in line for line in warned), subject
    assert not re.search("keyless|late_key|unlogged", added.stdout)
    new_source.prepare(added.stdout)
    new_source.plant.execute("DELETE FROM keyless; DELETE FROM late_key; DELETE FROM stops")


def test_what_the_database_has_is_not_asked_for_again(new_source: NewSource) -> None:
    """A publication of only some tables is a choice, but for those that pipelines read; and a part
    of the changes is none."""
    own = new_source.plant.plant
    new_source.plant.execute("CREATE TABLE other (id int PRIMARY KEY)")
    first = new_source.add("--tables", own.site)
    new_source.prepare(first.stdout)
    read = new_source.add().stdout
    assert 'ADD TABLE "' in read
    assert own.fact in read
    assert own.sensor in read
    shutil.rmtree(new_source.plant.folder / "include" / "sql")
    assert new_source.add().stdout == ""
    publication = names.publication(own.source)
    new_source.plant.execute(f"ALTER PUBLICATION {publication} SET (publish = 'insert')")
    assert new_source.add("--tables", own.site).stdout.startswith(
        f'ALTER PUBLICATION "{publication}" SET (publish = '
    )
    more = new_source.add("--tables", f"{own.schema}.{own.sensor}")
    assert f'ADD TABLE "{own.schema}"."{own.sensor}";' in more.stdout
