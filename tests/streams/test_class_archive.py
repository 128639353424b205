"""The archive of Spark's classes: made once for each state of what it is made of, and used."""

import threading
from pathlib import Path

import psutil
import pytest
from lockstep.errors import ServiceError
from lockstep.jars import own_jar
from lockstep.settings import Settings
from lockstep.spark import class_archive
from lockstep.streams import class_archive as archiving
from pyspark.sql import SparkSession

WAITS_SECONDS = 0.3
ENDS_SECONDS_MAX = 10


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A jars' folder of the test's own, and classes of ours that need no compiler."""
    monkeypatch.setattr(archiving, "classpath", lambda *_: [])
    monkeypatch.setattr(archiving, "_compile", lambda jar: jar.write_bytes(b"classes"))
    return Settings(home=tmp_path / "home", jars_dir=tmp_path / "jars")


@pytest.fixture
def archived(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The archives made since the test began."""
    made: list[Path] = []

    def archive(settings: Settings) -> None:
        made.append(class_archive(settings))
        made[-1].write_bytes(b"archive")

    monkeypatch.setattr(archiving, "_archive", archive)
    return made


def test_it_is_made_once_for_what_is_installed(
    settings: Settings, archived: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archiving.make(settings, print)
    archiving.make(settings, print)
    assert len(archived) == 1
    monkeypatch.setattr(archiving, "SOURCES", tmp_path)
    (tmp_path / "Other.java").write_text("class Other {}", encoding="utf-8")
    archiving.make(settings, print)
    assert len(archived) == 2


def test_without_one_drivers_have_our_classes_and_it_is_said_why(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def archive(_: Settings) -> None:
        raise ServiceError("no room")

    monkeypatch.setattr(archiving, "_archive", archive)
    said: list[str] = []
    archiving.make(settings, said.append)
    assert said[-1] == "drivers start slower than they could: no room"
    assert own_jar(settings).exists()
    archiving.make(settings, said.append)
    assert "could not be archived" in said[-1]


def test_two_set_ups_at_once_make_one(
    settings: Settings, archived: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each deletes what does not fit, and so would take the other's away from under its JVM."""
    second = threading.Thread(target=archiving.make, args=(settings, print))
    archive = archiving._archive

    def while_another_begins(settings: Settings) -> None:
        if not second.ident:
            second.start()
            second.join(WAITS_SECONDS)
            assert second.is_alive(), "it did not wait for the one under way"
        archive(settings)

    monkeypatch.setattr(archiving, "_archive", while_another_begins)
    archiving.make(settings, print)
    second.join(ENDS_SECONDS_MAX)
    assert not second.is_alive()
    assert len(archived) == 1


def test_what_was_cut_short_is_made_again(
    settings: Settings, archived: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Settings) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(archiving, "_archive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            archiving.make(settings, print)
    archiving.make(settings, print)
    assert len(archived) == 1


@pytest.mark.spark
def test_a_driver_starts_from_it(spark: SparkSession) -> None:
    archive = class_archive(Settings.load())
    assert archive.exists(), "`make setup` says why there is none"
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
    assert jvm.name() == "java"
    assert str(archive) in Path(f"/proc/{jvm.pid}/maps").read_text(encoding="utf-8")
