"""Our own classes for Connect: compiled once, and the places from which a connector goes on."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lockstep import jars
from lockstep.capture import connector_classes as connect_classes
from lockstep.capture.connector_classes import compiled
from lockstep.jvm.java import java, java_environment
from lockstep.jvm.java_classes import compile_java
from lockstep.settings import Settings

pytestmark = pytest.mark.services

HARNESS = Path(__file__).parent / "java" / "OffsetsOf.java"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def offsets_of(settings: Settings) -> Callable[..., list[tuple[str, str]]]:
    """Runs records KIND:LSN:COMMIT through the class; gives their (lsn, lsn_commit)."""
    own = compiled(settings)
    harness = settings.home / "harness"
    harness.mkdir()
    against = [own, *jars.classpath(settings, "connect")]
    compile_java([HARNESS], harness, against)
    classpath = os.pathsep.join(map(str, (harness, *against)))

    def run(*records: str) -> list[tuple[str, str]]:
        done = subprocess.run(
            [java(), "-cp", classpath, HARNESS.stem, *records],
            env=java_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return [tuple(line.split()) for line in done.stdout.splitlines()]

    return run


def test_a_place_within_a_transaction_is_the_end_of_the_last_whole_one(offsets_of) -> None:
    records = ("begin:20:10", "change:20:10", "change:25:10", "end:30:30", "begin:30:30")
    placed = [("10", "10")] * 3 + [("30", "30")] * 2
    assert offsets_of(*records) == placed


def test_a_heartbeat_between_the_commit_and_its_end_is_not_believed(offsets_of) -> None:
    records = ("begin:20:10", "change:25:10", "heartbeat:30:30", "end:30:30", "heartbeat:30:30")
    assert offsets_of(*records)[2:] == [("10", "10"), ("30", "30"), ("30", "30")]


def test_a_connector_that_goes_on_within_a_transaction_of_before_leaves_its_beginning(
    offsets_of,
) -> None:
    assert offsets_of("change:25:10", "heartbeat:30:30", "end:30:30") == [
        ("10", "10"),
        ("10", "10"),
        ("30", "30"),
    ]


def test_the_first_transaction_after_a_snapshot_can_begin_at_its_begin(offsets_of) -> None:
    records = ("begin:20:-", "change:25:-", "heartbeat:30:30", "end:30:30")
    assert offsets_of(*records) == [("20", "20")] * 3 + [("30", "30")]


def test_rows_of_the_snapshot_keep_their_places(offsets_of) -> None:
    assert offsets_of("snapshot:5:-", "snapshot:5:-") == [("5", "null")] * 2


def test_the_classes_list_the_connector_for_connect(settings: Settings) -> None:
    connectors = (compiled(settings) / connect_classes.CONNECTORS).read_text(encoding="utf-8")
    assert connectors.split() == ["lockstep.WholeTransactionsConnector"]
