"""Names of tables, topics, roles and DAGs are in NAMED_IN, SQL and connectors only.

A name that is also an everyday word (orders, tables, shop) cannot be distinguished: those are
looked for behind SQL's FROM, JOIN, INTO, UPDATE and TABLE. Docstrings may name what they like, and
so may the statements of the shop: it stands for the application whose own tables these are.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lockstep import accounts, airflow_names
from lockstep.accounts import Role
from lockstep.model import log
from lockstep.pipeline import names, result_tables
from pizzeria import names as pizzeria

from tests.project import PROJECT_DIR

LIBRARY = PROJECT_DIR / "include" / "lockstep"
SHOP = PROJECT_DIR / "examples" / "pizzeria" / "pizzeria" / "shop"


NAMED_IN = (accounts, airflow_names, log, names, pizzeria)
"""The modules of names."""


def names_of_modules() -> set[str]:
    """Every string constant of these modules but a column's name, and the roles."""
    constants = [
        value
        for module in NAMED_IN
        for name, value in vars(module).items()
        if name.isupper() and value != pizzeria.ORDER_TIME
    ]
    return {value for value in (*constants, *Role, *pizzeria.Login) if isinstance(value, str)}


def distinctive(names: set[str]) -> set[str]:
    """The names that no one writes by chance, and the last step of those that are paths."""
    paths = {name.rsplit("/", 1)[-1] for name in names}
    return {name for name in names | paths if re.search(r"[a-z][_./]", name)}


NAMES = distinctive(names_of_modules())
WRITTEN_OUT = re.compile(
    r"(?<![\w.])("
    + "|".join(sorted(map(re.escape, NAMES), key=len, reverse=True))
    + r")(?!\w|\.sql)"
)
IN_SQL = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+("
    + "|".join(sorted(pizzeria.CAPTURED_TABLES))
    + r")(?!\w)"
)
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s")


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a file, except docstrings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def names_in(source: str, *, in_shop: bool = False) -> list[str]:
    """The names written out in a file's strings, as 'line: name'."""
    return [
        f"{line}: {match}"
        for line, text in literals(ast.parse(source))
        if not (in_shop and STATEMENT.match(text))
        for match in WRITTEN_OUT.findall(text) + IN_SQL.findall(text)
    ]


def test_no_name_is_written_outside_the_modules_of_names() -> None:
    """pipeline/result_tables.py has the columns of pipelines' tables, pizzeria.py its own."""
    packages = ("dags", "examples", "jobs", "plugins", "tools")
    folders = (LIBRARY, *(PROJECT_DIR / name for name in packages))
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    assert len(files) > 40
    found = [
        f"{file.relative_to(PROJECT_DIR)}:{name}"
        for file in files
        if file not in {Path(module.__file__) for module in (*NAMED_IN, result_tables)}
        for name in names_in(file.read_text(encoding="utf-8"), in_shop=SHOP in file.parents)
    ]
    assert not found, "\n".join(found)


def test_the_library_names_no_source_and_no_pipeline_of_the_repository() -> None:
    """Not even as an example."""
    include = PROJECT_DIR / "include"
    folders = [*(include / "sources").iterdir(), *(include / "sql").iterdir()]
    names = "|".join(sorted(folder.name for folder in folders))
    named = re.compile(rf"(?<![a-z0-9])({names})(?![a-z0-9])", re.I)
    found = [
        f"{file.relative_to(LIBRARY)}: {match}"
        for file in sorted(LIBRARY.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
        for match in named.findall(file.read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("table = 'orders_outbox'", 1),
        ("query = f'SELECT 1 FROM order_enriched_in WHERE {x}'", 1),
        ("query = 'SELECT id FROM orders WHERE id = %s'", 1),
        ("topic = 'lockstep.pizzeria.changes'", 1),
        ("def f():\n    '''Reads orders_outbox.'''", 0),
        ("title = 'orders'", 0),
        ("field = 'batch_reader_password'", 0),
    ],
)
def test_a_written_out_name_is_distinguished_from_other_text(source: str, count: int) -> None:
    assert len(names_in(source)) == count


def test_only_the_shops_statements_may_name_its_tables() -> None:
    statement, argument = "query = 'SELECT id FROM orders_outbox'", "f('orders_outbox')"
    assert names_in(statement, in_shop=True) == []
    assert len(names_in(statement, in_shop=False)) > 0
    assert len(names_in(argument, in_shop=True)) == 1
