"""Packages: each import is declared by name, each package is pinned with hashes, in two lists.

requirements.in is what production needs, requirements-dev.in what tests and benchmarks need, too.
"""

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.project import PROJECT_DIR

LISTS = ("requirements", "requirements-dev")
PRODUCT = ("include", "dags", "jobs", "plugins")
OUTSIDE = ("examples", "tools")
OURS = {"lockstep", "lockstep_tools", "pizzeria", "tests"}
PEERS = {"datacompy"}
"""Of `lockstep bench`: of no use in production."""
IN_OWN_ENVIRONMENTS = {"pyflink"}
"""Of a peer that `lockstep bench` installs apart from ours, with hashes of its own."""
MODULES_OF_OTHER_NAMES = {"airflow": "apache-airflow"}
"""airflow is a namespace that many packages share."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(name: str) -> dict[str, str]:
    """The lines of NAME.in: each requirement by its package's name."""
    lines = (PROJECT_DIR / f"{name}.in").read_text(encoding="utf-8").splitlines()
    wanted = [re.sub(r"\[.*\]", "", line.split("#")[0].strip()) for line in lines]
    return {
        canonical(re.split(r"[<>=]", requirement)[0]): requirement
        for requirement in wanted
        if requirement and not requirement.startswith("-")
    }


def pins(name: str) -> dict[str, str]:
    """NAME.txt: version and hashes of each package by its name."""
    text = (PROJECT_DIR / f"{name}.txt").read_text(encoding="utf-8")
    blocks = [block for block in re.split(r"(?m)^(?=[A-Za-z0-9])", text) if "==" in block]
    return {canonical(block.split("==")[0]): block for block in blocks}


def imported(source: str) -> Iterator[str]:
    """The packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def version_of(pin: str) -> str:
    return re.match(r"\S+==([^ ;\\]+)", pin).group(1)


def applies(requirement: Requirement) -> bool:
    """On this system, and without an extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def undeclared(sources: dict[str, str], declared: set[str]) -> list[str]:
    """Imports whose package is not declared, as "file: module"."""
    providers = packages_distributions()
    found = []
    for file, source in sources.items():
        known_elsewhere = {*sys.stdlib_module_names, *OURS, *IN_OWN_ENVIRONMENTS}
        for module in set(imported(source)) - known_elsewhere:
            known = providers.get(module, [module])
            names = {canonical(MODULES_OF_OTHER_NAMES.get(module, name)) for name in known}
            if not names & declared:
                found.append(f"{file}: {module}")
    return sorted(found)


def sources_below(*folders: str) -> dict[str, str]:
    files = [file for name in folders for file in Path(PROJECT_DIR, name).rglob("*.py")]
    return {str(file.relative_to(PROJECT_DIR)): file.read_text("utf-8") for file in files}


def test_every_import_of_the_product_is_declared() -> None:
    assert undeclared(sources_below(*PRODUCT), set(asked_for("requirements"))) == []


def test_every_import_of_the_tests_the_example_and_the_tools_is_declared() -> None:
    declared = set(asked_for("requirements")) | set(asked_for("requirements-dev"))
    assert undeclared(sources_below("tests", *OUTSIDE), declared) == []


def test_an_import_that_is_not_declared_is_found() -> None:
    sources = {"a.py": "def f():\n    from botocore.client import Config", "b.py": "import json"}
    assert undeclared(sources, {"rich"}) == ["a.py: botocore"]


@pytest.mark.parametrize("name", LISTS)
def test_every_pinned_package_has_hashes(name: str) -> None:
    found = pins(name)
    assert len(found) > 10
    assert [package for package, block in found.items() if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize(
    ("name", "lists"), [("requirements", LISTS[:1]), ("requirements-dev", LISTS)]
)
def test_the_compiled_lists_hold_what_is_asked_for(name: str, lists: tuple[str, ...]) -> None:
    found = {package: block for compiled in lists for package, block in pins(compiled).items()}
    for package, requirement in asked_for(name).items():
        assert package in found
        if "==" in requirement:
            assert found[package].startswith(f"{requirement} ")


def test_production_s_versions_are_the_only_ones() -> None:
    """Tests run what production runs. What it has on some systems only may be in both lists."""
    production, development = pins("requirements"), pins("requirements-dev")
    for package in set(production) & set(development):
        assert ";" in production[package].splitlines()[0]
        assert version_of(production[package]) == version_of(development[package])


def test_every_package_s_own_requirements_are_in_the_lists() -> None:
    """pip takes nothing else: with hashes, one that is missing ends the set-up."""
    blocks = [block for name in LISTS for block in pins(name).values()]
    wanted = [Requirement(block.split("\\")[0].strip()) for block in blocks]
    here = {canonical(one.name) for one in wanted if applies(one)}
    assert len(here) > 100
    missing = {
        f"{package}: {needed}"
        for package in here
        for needed in map(Requirement, requires(package) or ())
        if applies(needed) and canonical(needed.name) not in here
    }
    assert missing == set()


def test_production_installs_no_tool_of_development() -> None:
    tools = {"pytest", "ruff", "selenium", "sqlfluff", "uv", *PEERS}
    assert tools <= set(pins("requirements-dev"))
    assert not tools & set(pins("requirements"))
