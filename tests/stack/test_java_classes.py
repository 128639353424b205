"""Our own Java classes: compiled once for each state of their sources, by whoever comes first."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lockstep.errors import ServiceError
from lockstep.jvm.java_classes import compiled, spark_jars

GREETER = 'package shop; public class Greeter {{ public String word() {{ return "{}"; }} }}'


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "sources" / "shop").mkdir(parents=True)
    return tmp_path / "sources"


def write(sources: Path, text: str) -> None:
    (sources / "shop" / "Greeter.java").write_text(text, encoding="utf-8")


def test_only_changed_sources_are_compiled_again(sources: Path, tmp_path: Path) -> None:
    write(sources, GREETER.format("hello"))
    before = compiled(sources, [], tmp_path / "classes")
    made_ns = (before / "shop" / "Greeter.class").stat().st_mtime_ns
    assert compiled(sources, [], tmp_path / "classes") == before
    assert (before / "shop" / "Greeter.class").stat().st_mtime_ns == made_ns
    write(sources, GREETER.format("good evening"))
    assert compiled(sources, [], tmp_path / "classes") != before


def test_two_at_once_get_the_same_whole_folder(sources: Path, tmp_path: Path) -> None:
    write(sources, GREETER.format("hello"))
    into = tmp_path / "classes"
    with ThreadPoolExecutor(2) as both:
        folders = set(both.map(lambda _: compiled(sources, [], into), range(2)))
    assert [into / one.name for one in folders] == list(into.iterdir())


def test_sources_that_are_wrong_leave_nothing_and_are_named(sources: Path, tmp_path: Path) -> None:
    write(sources, "class Broken {")
    with pytest.raises(ServiceError, match=r"cannot be compiled: .*Greeter\.java"):
        compiled(sources, [], tmp_path / "classes")
    assert list((tmp_path / "classes").iterdir()) == []


def test_a_jar_that_is_not_there_is_named() -> None:
    with pytest.raises(ServiceError, match="nonesuch"):
        spark_jars("nonesuch")
