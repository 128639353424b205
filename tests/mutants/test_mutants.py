"""The list of mutants fits the library as it is, and a run of it says what became of each."""

import dataclasses
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mutants import own_library
from tests.mutants.catalog import LIBRARY, PROJECT, Mutant, MutantError, all_mutants, read_mutants
from tests.mutants.project_copy import RED, Outcome, copy_project
from tests.mutants.run import Verdict, judged

COUNT = 40
MUTANTS = all_mutants()


def test_there_are_forty_with_ids_of_their_own() -> None:
    assert len(MUTANTS) == COUNT
    assert len({one.id for one in MUTANTS}) == COUNT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.id)
def test_a_mutant_changes_one_place_of_the_library(mutant: Mutant) -> None:
    """Where this fails, the library has changed: write the mutant again, with the same fault."""
    text = (PROJECT / LIBRARY / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    assert mutant.after != mutant.before
    assert mutant.goes_wrong.endswith(".")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.id)
def test_the_tests_that_a_mutant_names_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.split("::")
        text = (PROJECT / file).read_text(encoding="utf-8")
        for name in names:
            assert f" {name.partition('[')[0]}(" in text, f"{file} has no {name}"


def test_no_two_mutants_are_the_same() -> None:
    changes = Counter((one.file, one.before, one.after) for one in MUTANTS)
    assert set(changes.values()) == {1}


MUTANT = Mutant("one", "lockstep/limit.py", "a < b", "a <= b", "Too many.", ("tests/a.py", "b.py"))


def test_a_mutant_is_put_into_the_copy_alone(tmp_path: Path) -> None:
    file = tmp_path / LIBRARY / MUTANT.file
    file.parent.mkdir(parents=True)
    file.write_text("return a < b\n")
    MUTANT.put_into(tmp_path)
    assert file.read_text() == "return a <= b\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("return b > a\n", "0 times"),
        ("a < b and a < b\n", "2 times"),
        (None, "is not there"),
    ],
)
def test_a_mutant_that_does_not_fit_is_refused(
    tmp_path: Path, text: str | None, words: str
) -> None:
    file = tmp_path / LIBRARY / MUTANT.file
    if text is not None:
        file.parent.mkdir(parents=True)
        file.write_text(text)
    with pytest.raises(MutantError, match=words):
        MUTANT.put_into(tmp_path)
    assert text is None or file.read_text() == text


def test_a_copy_has_its_own_library_and_tests_and_links_the_rest(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    for name in ("include/lockstep/__init__.py", "tests/conftest.py", "pyproject.toml"):
        assert (project / name).resolve() == tmp_path.resolve() / name
    assert (project / "dags").resolve() == (PROJECT / "dags").resolve()
    assert not (project / ".git").exists()


def test_tests_against_another_library_than_the_copys_are_refused(tmp_path: Path) -> None:
    own_library.pytest_configure(SimpleNamespace(rootpath=PROJECT))
    with pytest.raises(pytest.UsageError, match="the library under test is"):
        own_library.pytest_configure(SimpleNamespace(rootpath=tmp_path))


def test_a_mutant_lacks_no_field_and_has_no_other() -> None:
    fields = {"id": "one", "file": "a.py", "before": "a", "after": "b", "goes_wrong": "It does."}
    whole = "[[mutants]]\ntests = []\n" + "".join(f'{k} = "{v}"\n' for k, v in fields.items())
    assert [one.id for one in read_mutants(whole)] == ["one"]
    for wrong in (whole + 'other = "c"\n', whole.replace("goes_wrong", "wrong")):
        with pytest.raises(TypeError):
            read_mutants(wrong)


@pytest.mark.parametrize(
    ("red", "has_run", "verdict"),
    [
        (["tests/a.py::test_x[1 - 2]", "b.py::test_y"], True, Verdict.KILLED),
        (["tests/a.py::test_x"], True, Verdict.SURVIVED),
        (["tests/a.py::test_x", "b.py.old::test_y"], True, Verdict.SURVIVED),
        ([], True, Verdict.SURVIVED),
        (["tests/a.py::test_x", "b.py"], False, Verdict.BROKEN),
    ],
)
def test_a_mutant_is_killed_by_a_failure_of_each_of_its_tests(
    red: list[str], has_run: bool, verdict: Verdict
) -> None:
    assert judged(MUTANT, Outcome(red, has_run, "", 1.0))[0] is verdict


def test_a_test_kills_by_its_own_name_only() -> None:
    mutant = dataclasses.replace(MUTANT, tests=("a.py::test_x",))
    for red, verdict in (("a.py::test_x[1]", Verdict.KILLED), ("a.py::test_xy", Verdict.SURVIVED)):
        assert judged(mutant, Outcome([red], True, "", 1.0))[0] is verdict


def test_failed_tests_are_found_in_the_output_of_pytest() -> None:
    output = """F.                                                    [100%]
FAILED tests/a.py::test_x[two words] - assert 1 == 2
ERROR tests/a.py::test_y
1 failed, 1 passed, 1 error in 0.01s
"""
    assert RED.findall(output) == ["tests/a.py::test_x[two words]", "tests/a.py::test_y"]
