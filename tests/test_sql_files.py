"""Every SQL file parses, as Spark's or as PostgreSQL's by its folder.

Bodies in PL/pgSQL and a few utility statements are beyond the parser, which then keeps them as
text; a query, a view and a table never are.
"""

import logging
from pathlib import Path

import pytest
import sqlglot
from sqlglot import expressions

from tests.project import PROJECT_DIR

EXAMPLE = Path("examples", "pizzeria", "pizzeria")
SOAK = Path("tools", "lockstep_tools", "soak")
PEER = Path("tools", "lockstep_tools", "bench", "peer")
FOLDERS = {
    Path("include", "lockstep", "quality"): "spark",  # its dialect knows ${names}
    Path("include", "lockstep", "sources"): "postgres",
    Path("include", "lockstep", "devstack"): "postgres",
    Path("include", "sources"): "postgres",
    Path("include", "sql"): "spark",
    EXAMPLE / "demo" / "sql": "spark",
    EXAMPLE / "shop": "postgres",
    PEER / "sql": "spark",  # Flink's own quotes are the same
    SOAK / "sql": "spark",
    Path("include", "lockstep", "streams"): "postgres",  # DataFusion's quotes are the same
    SOAK / "postgres": "postgres",
}
FILES = [
    pytest.param(file, dialect, id=str(file.relative_to(PROJECT_DIR)))
    for folder, dialect in FOLDERS.items()
    for file in sorted((PROJECT_DIR / folder).rglob("*.sql"))
]
TOP_FOLDERS = ("examples", "include", "tools")
KEPT_AS_TEXT = {"ALTER", "COMMENT", "CREATE", "DO", "GRANT", "REVOKE", "SET"}
"""Statements of PostgreSQL that may be kept as text: none of them reads rows."""


def statements(sql: str, dialect: str) -> list[expressions.Expression]:
    """The parsed statements; raises ParseError at the first that is none."""
    return [found for found in sqlglot.parse(sql, dialect=dialect) if found is not None]


@pytest.mark.parametrize(("file", "dialect"), FILES)
def test_a_sql_file_parses(file: Path, dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="sqlglot")
    parsed = statements(file.read_text(encoding="utf-8"), dialect)
    as_text = {s.this.upper() for s in parsed if isinstance(s, expressions.Command)}
    assert parsed
    assert as_text <= (KEPT_AS_TEXT if dialect == "postgres" else set())


def test_every_sql_file_is_of_a_known_folder() -> None:
    found = {file for top in TOP_FOLDERS for file in (PROJECT_DIR / top).rglob("*.sql")}
    assert found
    assert found == {file.values[0] for file in FILES}


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_broken_sql_is_refused(dialect: str) -> None:
    with pytest.raises(sqlglot.ParseError):
        statements("SELECT order_id FROM WHERE (order_time < now()", dialect)
