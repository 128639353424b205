"""What a source's stream belongs to: what is gone or another one is named, with what to do."""

from pathlib import Path

import pytest
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings, source_password_setting
from lockstep.sources.capture import CaptureFacts
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.streams import source_identity
from lockstep.streams.errors import (
    OtherCaptureError,
    SlotLostError,
    SlotRecreatedError,
    TopicIncompleteError,
)
from lockstep.streams.source_history import history_log
from lockstep.streams.source_identity import SourceIdentity

from tests.plant.planned import NAMES, planned

FACTS = CaptureFacts(7, "plant", True, "reserved", None, True, 100, 100, 120)


class Services:
    """What database and Kafka would say."""

    def __init__(self) -> None:
        self.facts: CaptureFacts | None = FACTS
        self.topic: str | None = "first"
        self.is_delivered = False
        self.asked = 0

    def clear_mark(self, *_: object) -> bool:
        self.asked += 1
        return self.is_delivered

    def answer(self, *_: object) -> CaptureFacts:
        if self.facts is None:
            raise PostgresUnavailableError("no answer")
        return self.facts


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    answers = Services()
    monkeypatch.setenv(source_password_setting(NAMES.source, "capture"), "secret")
    monkeypatch.setattr(source_identity, "capture_facts_at", answers.answer)
    monkeypatch.setattr(source_identity, "topic_id", lambda *_: answers.topic)
    monkeypatch.setattr(source_identity, "require_complete_topic", lambda *_: None)
    monkeypatch.setattr(source_identity, "TOPIC_GONE_SECONDS", 0)
    monkeypatch.setattr(source_identity.connector, "clear_mark", answers.clear_mark)
    return answers


def capture_in(folder: Path, *tables: str) -> SourceIdentity:
    """The plant's capture, found as a driver does at its start."""
    planned(folder)
    source = read_project(folder).sources[NAMES.source]
    found = SourceIdentity(Settings(home=folder / "home"), source)
    found.require(tables)
    return found


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        (FACTS._replace(has_slot=False), SlotLostError),
        (FACTS._replace(wal_status="lost"), SlotLostError),
        (FACTS._replace(has_mark=False), SlotRecreatedError),
    ],
    ids=["gone", "lost log", "made again"],
)
def test_a_slot_that_is_not_the_first_snapshots_ends_the_stream_with_the_sources_own_remedy(
    tmp_path: Path, services: Services, facts: CaptureFacts, error: type[Exception]
) -> None:
    running = capture_in(tmp_path)
    running.look()
    services.facts = facts
    remedy = f"`lockstep source capture {NAMES.source} --new-snapshot`"
    for look in (running.look, lambda: capture_in(tmp_path)):
        with pytest.raises(error, match=remedy):
            look()


def test_a_service_that_does_not_answer_is_no_evidence(tmp_path: Path, services: Services) -> None:
    running = capture_in(tmp_path)
    services.facts = None
    running.look()


def test_a_topic_that_is_gone_or_another_one_ends_the_stream(
    tmp_path: Path, services: Services
) -> None:
    running = capture_in(tmp_path)
    services.topic = None
    with pytest.raises(TopicIncompleteError, match="is gone"):
        running.look()
    services.topic = "second"
    with pytest.raises(OtherCaptureError, match="is of another capture"):
        running.look()


def test_a_table_with_rows_of_another_capture_is_refused(
    tmp_path: Path, services: Services
) -> None:
    first = capture_in(tmp_path)
    uri = str(tmp_path / "history")
    log = history_log(uri, planned(tmp_path).tables, 1, first.capture_id)
    log.append(log.schema.empty_table(), 5, 1)
    capture_in(tmp_path, uri)
    services.topic = "second"
    with pytest.raises(OtherCaptureError, match=f"{uri} is of another capture"):
        capture_in(tmp_path, uri)


def test_the_connector_is_asked_to_mark_no_other_slot_until_it_does(
    tmp_path: Path, services: Services
) -> None:
    running = capture_in(tmp_path)
    running.look()
    services.is_delivered = True
    running.look()
    running.look()
    assert services.asked == 2
