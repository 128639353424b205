"""Imports point down only (ARCHITECTURE.md), and what Airflow parses stays light.

Imports inside functions count as well: a lazy import is still a dependency.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.project import PROJECT_DIR

LIBRARY = PROJECT_DIR / "include" / "lockstep"
TOP_FOLDERS = ("dags", "jobs", "plugins")
OF_NEW_PROJECTS = set((LIBRARY / "new_project" / "files").rglob("*.py"))
"""Files that `lockstep init` copies: those of the top folders once more."""
OUTSIDE = {
    "pizzeria": PROJECT_DIR / "examples" / "pizzeria" / "pizzeria",
    "lockstep_tools": PROJECT_DIR / "tools" / "lockstep_tools",
}
"""Packages next to the library, which knows none of them. Their own are named with a dot."""

FOUNDATION = {
    *("accounts", "airflow_names", "delta_tables", "errors", "faults", "file_lock"),
    *("kafka_login", "model", "project", "settings", "waiting", "whole_folder"),
}
"""What every room may import."""

ALLOWED = {
    "errors": set(),
    "model": {"errors"},
    "accounts": set(),
    "waiting": set(),
    "whole_folder": {"errors"},
    "airflow_names": set(),
    "project": {"errors"},
    "settings": {"accounts", "errors", "pipeline", "project"},
    "faults": set(),
    "delta_tables": set(),
    "file_lock": {"errors"},
    "kafka_login": {"accounts", "settings"},
    "pipeline": {"accounts", "errors", "model"},
    "jars": FOUNDATION,
    "spark": FOUNDATION | {"jars"},
    "cdc": FOUNDATION,
    "enrich": FOUNDATION | {"cdc", "pipeline"},
    "sources": FOUNDATION | {"cdc", "pipeline"},
    "sinks": FOUNDATION | {"cdc", "pipeline"},
    "batch": FOUNDATION | {"jars", "cdc", "enrich", "pipeline", "sinks", "sources", "spark"},
    "quality": FOUNDATION | {"cdc", "ledger", "parity", "pipeline", "sinks", "sources"},
    "ledger": FOUNDATION | {"pipeline", "sinks", "sources"},
    "parity": FOUNDATION
    | {"cdc", "enrich", "jars", "ledger", "pipeline", "sinks", "sources", "spark"},
    "repair": FOUNDATION | {"cdc", "ledger", "pipeline", "sinks", "sources"},
    "host": FOUNDATION,
    "jvm": FOUNDATION | {"host", "jars"},
    "capture": FOUNDATION | {"host", "jars", "jvm", "pipeline", "sources"},
    "airflow_admin": FOUNDATION | {"host", "pipeline"},
    "devstack": FOUNDATION | {"airflow_admin", "capture", "host", "jars", "jvm", "pipeline"},
    "supervise": FOUNDATION | {"host", "pipeline"},
    "parity_pages": FOUNDATION | {"ledger", "observe", "pipeline", "supervise"},
    "observe": FOUNDATION | {"pipeline", "sinks", "sources", "supervise"},
    "streams": FOUNDATION
    | {
        *("cdc", "enrich", "jars", "ledger", "observe", "pipeline", "sinks", "sources", "spark"),
        *("capture", "host", "jvm", "supervise"),
    },
    "histories": FOUNDATION | {"cdc", "enrich", "pipeline", "spark", "streams"},
    "maintain": FOUNDATION | {"airflow_admin", "host", "pipeline", "sinks", "supervise"},
    "publish": FOUNDATION | {"ledger", "pipeline", "sinks", "sources", "supervise"},
    "cli": FOUNDATION
    | {
        *(
            "airflow_admin",
            "batch",
            "capture",
            "cdc",
            "devstack",
            "host",
            "jars",
            "ledger",
            "maintain",
        ),
        *("observe", "parity", "parity_pages", "pipeline", "publish", "quality", "repair"),
        *("jvm", "new_project", "histories", "sources", "streams", "supervise"),
    },
    "airflow_ops": FOUNDATION
    | {
        *("jars", "ledger", "maintain", "parity", "pipeline", "publish", "quality", "repair"),
        *("capture", "sources", "spark", "supervise"),
    },
    "airflow_ui": FOUNDATION | {"ledger", "parity_pages", "pipeline", "quality"},
    "airflow_plugin": FOUNDATION | {"airflow_ops", "airflow_ui"},
    "new_project": {"errors", "whole_folder"},
    "dags": FOUNDATION | {"airflow_ops"},
    "plugins": {"airflow_plugin"},
    "jobs": {"errors", "batch", "parity", "quality"},
    "pizzeria.errors": {"errors"},
    "pizzeria.names": {"pipeline"},
    "pizzeria.shop": FOUNDATION | {"pizzeria.errors", "pizzeria.names", "sources"},
    "pizzeria.demo": FOUNDATION
    | {
        *("airflow_admin", "airflow_ops", "ledger", "parity", "pipeline", "sources"),
        *("supervise",),
        *("pizzeria.errors", "pizzeria.names", "pizzeria.shop"),
    },
    "pizzeria.commands": FOUNDATION
    | {
        *("airflow_admin", "cli", "devstack", "jars", "ledger", "parity", "pipeline", "sources"),
        *("supervise",),
        *("pizzeria.demo", "pizzeria.errors", "pizzeria.names", "pizzeria.shop"),
    },
    "lockstep_tools.errors": {"errors"},
    "lockstep_tools.reference": {"cli", "pipeline", "project"},
    "lockstep_tools.soak": FOUNDATION
    | {
        *("airflow_admin", "capture", "cdc", "devstack", "host", "observe", "pipeline"),
        *("sources", "streams", "supervise"),
        *("lockstep_tools.errors", "pizzeria.names", "pizzeria.shop"),
    },
    "lockstep_tools.bench": FOUNDATION
    | {
        *("batch", "cdc", "jars", "observe", "parity", "pipeline", "publish", "sinks", "sources"),
        *("capture", "devstack", "host", "jvm", "ledger", "parity_pages", "spark", "streams"),
        *("supervise", "lockstep_tools.errors", "lockstep_tools.soak"),
        *("pizzeria.names", "pizzeria.shop"),
    },
    "lockstep_tools.commands": FOUNDATION
    | {
        *("devstack", "host", "supervise"),
        *("lockstep_tools.bench", "lockstep_tools.errors", "lockstep_tools.soak"),
        *("pizzeria.names", "pizzeria.shop"),
    },
}
"""Room: the rooms it may import. A new room is declared here, where its place can be seen."""

ONLY_IN = {
    "airflow": {"airflow_ops", "airflow_plugin", "airflow_ui", "dags", "plugins"},
    "great_expectations": {"quality"},
    "pyspark": {
        "spark",
        "enrich",
        "histories",
        "sources",
        "sinks",
        "streams",
        "batch",
        "parity",
        "quality",
        "lockstep_tools.bench",
    },
    "delta": {"spark", "sinks"},
    "confluent_kafka": {
        *("capture", "devstack", "sources", "lockstep_tools.bench", "lockstep_tools.soak"),
    },
}
"""Library: the rooms that may import it."""

DAG_SECONDS_MAX = 2.0
"""The longest a DAG's own load may take, once Airflow itself is imported."""


def python_files() -> Iterator[Path]:
    """Every Python file of the product."""
    for folder in (LIBRARY, *(PROJECT_DIR / name for name in TOP_FOLDERS), *OUTSIDE.values()):
        yield from sorted(set(folder.rglob("*.py")) - OF_NEW_PROJECTS)


def room_of(file: Path) -> str:
    """The room of the library, the top folder, or the package outside that a file is in."""
    for package, folder in OUTSIDE.items():
        if file.is_relative_to(folder):
            return f"{package}.{file.relative_to(folder).parts[0].removesuffix('.py')}"
    inside = file.relative_to(LIBRARY if file.is_relative_to(LIBRARY) else PROJECT_DIR)
    return inside.parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def violations(room: str, source: str) -> list[str]:
    """What the imports of a room's file break, as 'line: what'."""
    found = []
    for line, name in imports_of(ast.parse(source)):
        library, *rest = name.split(".")
        if not library:
            found.append(f"{line}: relative import {name}")
        elif library == "lockstep" and rest and rest[0] not in ALLOWED.get(room, set()) | {room}:
            found.append(f"{line}: {room} may not import lockstep.{rest[0]}")
        elif library in OUTSIDE and f"{library}.{rest[0]}" not in ALLOWED.get(room, set()) | {room}:
            found.append(f"{line}: {room} may not import {library}.{rest[0]}")
        elif room not in ONLY_IN.get(library, {room}):
            found.append(f"{line}: {room} may not import {library}")
        elif room in ("model", "errors") and library not in {
            *sys.stdlib_module_names,
            "lockstep",
        }:
            found.append(f"{line}: {room} may import the standard library only, not {library}")
    return found


def test_every_import_points_down() -> None:
    files = list(python_files())
    assert len(files) > 40
    found = [
        f"{file.relative_to(PROJECT_DIR)}:{violation}"
        for file in files
        if file.parent not in {LIBRARY, *OUTSIDE.values()} or file.name != "__init__.py"
        for violation in violations(room_of(file), file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def place_of(module: str) -> Path | None:
    """The file of one of our modules or packages; None if there is none."""
    package, *inside = module.split(".")
    path = {"lockstep": LIBRARY, **OUTSIDE}[package].joinpath(*inside)
    found = path.with_name(f"{path.name}.py"), path / "__init__.py"
    return next((file for file in found if file.exists()), None)


@cache
def names_of(file: Path) -> set[str]:
    """What a module defines or imports, wherever that stands."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
    return names


def dangling(source: str) -> list[str]:
    """Our modules, and names in them, that a file imports and that are not there."""
    found = []
    for line, name in imports_of(ast.parse(source)):
        if name.split(".")[0] not in {"lockstep", *OUTSIDE} or place_of(name):
            continue
        module, _, member = name.rpartition(".")
        file = module and place_of(module)
        if not file or member not in names_of(file):
            found.append(f"{line}: there is no {name}")
    return found


def test_every_import_of_our_own_is_there() -> None:
    """Those inside functions too, which are run by few tests or by none."""
    found = [
        f"{file.relative_to(PROJECT_DIR)}:{one}"
        for file in python_files()
        for one in dangling(file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from lockstep.ledger.formatting import coloured", 0),
        ("from lockstep.ledger import formatting", 0),
        ("def late():\n    import lockstep.ledger.formatting", 0),
        ("def late():\n    from lockstep.ledger.words import coloured", 1),
        ("from lockstep.ledger.formatting import colored", 1),
        ("from pizzeria.shop import nothing", 1),
        ("import lockstep.no_such_module", 1),
    ],
)
def test_an_import_of_what_is_not_there_is_found(source: str, count: int) -> None:
    assert len(dangling(source)) == count


def test_every_room_is_declared_and_exists() -> None:
    rooms = {room_of(file) for file in python_files() if file.name != "__init__.py"}
    assert rooms == set(ALLOWED)


def test_the_allowed_imports_have_no_circle() -> None:
    assert len(list(TopologicalSorter(ALLOWED).static_order())) == len(ALLOWED)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("sources", "from lockstep.batch import run"),
        ("cdc", "from lockstep import sinks"),
        ("batch", "def late():\n    import lockstep.cli.batch"),
        ("airflow_ops", "from pyspark.sql import SparkSession"),
        ("cli", "from airflow.sdk import DAG"),
        ("model", "import pydantic"),
        ("enrich", "from . import orders"),
        ("devstack", "from pizzeria.shop import loader"),
        ("pizzeria.shop", "from lockstep_tools.soak import kills"),
        ("undeclared", "import lockstep.model.window"),
    ],
)
def test_an_import_that_points_up_is_found(room: str, source: str) -> None:
    assert len(violations(room, source)) == 1


LOAD = """
import importlib.util, json, sys, time
import airflow.sdk, airflow.plugins_manager
loads = {}
for file in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location(f"loaded_{len(loads)}", file)
    started = time.process_time()
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    loads[file] = time.process_time() - started
heavy = [name for name in ("pyspark", "great_expectations", "pandas") if name in sys.modules]
print(json.dumps({"seconds": loads, "heavy": heavy}))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Every DAG file and plugin executed in a new process: processor seconds, heavy imports."""
    files = [
        str(file) for name in ("dags", "plugins") for file in (PROJECT_DIR / name).glob("*.py")
    ]
    home = tmp_path_factory.mktemp("airflow")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    run = subprocess.run(
        [sys.executable, "-c", LOAD, *files],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_loading_all_dags_and_plugins_imports_nothing_heavy(loaded: dict) -> None:
    assert len(loaded["seconds"]) >= 2
    assert loaded["heavy"] == []


def test_every_dag_and_plugin_loads_quickly(loaded: dict) -> None:
    """Processor time, for the wall's depends on who else is at work."""
    slow = {file: s for file, s in loaded["seconds"].items() if s > DAG_SECONDS_MAX}
    assert slow == {}
