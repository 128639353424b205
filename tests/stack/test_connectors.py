"""A source's connector next to the pizzeria's, and the file with the passwords of both."""

import json
import re
import stat
from pathlib import Path

import pytest
from lockstep.capture import connectors
from lockstep.capture.connector_secrets import keep_passwords, password_reference, source_key
from lockstep.capture.connectors import (
    SOURCE_TEMPLATE,
    TEMPLATES,
    connector_of,
    of_source,
    registered_connector,
    table_pattern,
)
from lockstep.devstack import connect
from lockstep.devstack.secrets import with_secrets
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.project import Source
from lockstep.pipeline.source import Roles, SourceManifest
from lockstep.project import read_project_file
from lockstep.settings import Settings

ARRAYS = Table(
    TableName("public", "arrays"),
    (Column("id", "integer", False), Column("small", "smallint[]", False)),
    ("id",),
)
NULLABLE = Table(
    TableName("public", "nullable"),
    (Column("id", "integer", False), Column("small", "smallint[]")),
    ("id",),
)
SOURCE = Source(
    "depot",
    SourceManifest(
        format_version=1,
        kind="postgres",
        host="db.example.com",
        database="Depot",
        roles=Roles(read="reader", capture="follower"),
    ),
    Catalog("depot", (ARRAYS, NULLABLE)),
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return with_secrets(Settings(home=tmp_path / "home"))


def test_sources_are_captured_as_the_pizzeria_is_but_for_its_outbox() -> None:
    own, project = (
        json.loads(text)
        for text in (
            SOURCE_TEMPLATE.read_text(encoding="utf-8"),
            read_project_file(TEMPLATES / "pizzeria.json"),
        )
    )
    outbox = {name for name in project if name.startswith("snapshot.select")}
    assert outbox
    assert own == {name: text for name, text in project.items() if name not in outbox}


def test_a_sources_connector_has_names_of_its_own(settings: Settings) -> None:
    own, other = of_source(settings, SOURCE, [ARRAYS.name]), connector_of(settings)
    values = own.configuration()
    assert values["database.hostname"] == "db.example.com"
    assert values["database.user"] == "follower"
    assert values["database.password"] == password_reference(settings, source_key("depot"))
    assert not any("${lockstep" in value for value in values.values())
    shared = ("slot.name", "publication.name", "topic.prefix", "transforms.route.replacement")
    assert all(values[name] != other.configuration()[name] for name in shared)
    assert own.name != other.name


def test_to_ask_how_the_connector_is_plans_no_query(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = connector_of(settings)
    monkeypatch.delattr(connectors, "tables_followed")
    asked = registered_connector(settings)
    assert (asked.name, asked.source, asked.tables) == (whole.name, whole.source, ())
    assert whole.tables


def test_only_an_array_that_stops_the_connector_makes_it_ask_for_whole_rows(
    settings: Settings,
) -> None:
    own = of_source(settings, SOURCE, [ARRAYS.name, NULLABLE.name])
    assert own.full_identity == {ARRAYS.name}


@pytest.mark.parametrize("name", ["site", "a.b", "x,y", "(a|b)*", "$^", "Größe 1", 'q"q', "a\\b"])
def test_a_tables_pattern_matches_its_own_name_only(name: str) -> None:
    table = TableName("public", name)
    assert re.fullmatch(table_pattern(table), str(table))
    assert not re.fullmatch(table_pattern(table), f"publicx{name}")
    assert not re.search(r"(?<!\\),", table_pattern(table))


def test_a_start_of_connect_keeps_the_passwords_of_sources(settings: Settings) -> None:
    keep_passwords(settings, {source_key("depot"): "of before"})
    keep_passwords(settings, {source_key("depot"): "sesame = open", source_key("other"): "o"})
    connect.write_configuration(settings)
    file = settings.home / "connect" / "secrets.properties"
    lines = dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())
    assert lines[source_key("depot")] == "sesame = open"
    assert len(lines) == 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
