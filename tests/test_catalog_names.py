"""No table or column of a project's catalogs is named in the library: a pipeline is a folder.

Identifiers count and strings, docstrings do not.
"""

import ast
import re
from collections.abc import Iterator

import pytest
from lockstep.pipeline.project import read_project

from tests.project import PROJECT_DIR

LIBRARY = PROJECT_DIR / "include" / "lockstep"
EVERYDAY = frozenset({"id", "name", "op", "payload", "published_at", "tables"})
"""Names of the catalog that are terms of the library, too."""


def catalog_names() -> set[str]:
    sources = read_project(PROJECT_DIR).sources.values()
    tables = [table for source in sources for table in source.catalog.tables]
    columns = {column.name for table in tables for column in table.columns}
    return (columns | {table.name.name for table in tables}) - EVERYDAY


NAMES = catalog_names()
IN_TEXT = re.compile(rf"(?<!\w)({'|'.join(sorted(NAMES))})(?!\w)")


def named_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each identifier and each string, but docstrings, that names one."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts = [] if id(node) in docstrings else IN_TEXT.findall(node.value)
        else:
            own = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
            texts = [one for one in own if isinstance(one, str) and one in NAMES]
        yield from ((getattr(node, "lineno", 0), text) for text in texts)


def test_no_module_names_a_table_or_a_column() -> None:
    found = {}
    for file in sorted(LIBRARY.rglob("*.py")):
        names = list(named_in(ast.parse(file.read_text(encoding="utf-8"))))
        if names:
            found[str(file.relative_to(LIBRARY))] = names
    assert found == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("order_time = 1", 1),
        ("f(pizzas=1)", 1),
        ("row.client_id", 1),
        ("query = 'SELECT price FROM t'", 1),
        ("'''Says what a price is.'''", 0),
        ("priced = 'prices'", 0),
        ("tables = ['id']", 0),
    ],
)
def test_a_name_is_found_in_identifiers_and_strings(source: str, count: int) -> None:
    assert len(list(named_in(ast.parse(source)))) == count
