"""Every SQL file parses: Spark's below include/sql, PostgreSQL's below include/postgres.

Bodies in PL/pgSQL and a few utility statements are beyond the parser, which then keeps them as
text; a query, a view and a table never are.
"""

import logging
from pathlib import Path

import pytest
import sqlglot
from lockstep.settings import PROJECT_DIR
from sqlglot import expressions

INCLUDE = PROJECT_DIR / "include"
FILES = [
    pytest.param(file, dialect, id=str(file.relative_to(INCLUDE)))
    for folder, dialect in (("sql", "spark"), ("postgres", "postgres"))
    for file in sorted((INCLUDE / folder).rglob("*.sql"))
]
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


def test_there_are_files_of_both_kinds() -> None:
    assert {file.values[1] for file in FILES} == {"spark", "postgres"}


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_broken_sql_is_refused(dialect: str) -> None:
    with pytest.raises(sqlglot.ParseError):
        statements("SELECT order_id FROM WHERE (order_time < now()", dialect)
