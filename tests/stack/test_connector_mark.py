"""The connector marks one slot only: that of the snapshot, and no other one once that is over."""

import pytest
from lockstep.capture import connector
from lockstep.capture.connectors import Connector, connector_of
from lockstep.settings import Settings

INITIAL = {"snapshot": "INITIAL", "snapshot_completed": False, "lsn": 1}


class Connect:
    """A worker with the connector in it; notes what it is sent."""

    def __init__(self) -> None:
        self.config: dict | None = {"slot.name": "lockstep", connector.MARK: "true"}
        self.offset: dict | None = None
        self.sent: list[dict] = []

    def get(self, _settings: Settings, _connector: Connector, what: str) -> dict | None:
        if what == "config":
            return self.config
        assert what == "offsets"
        return {"offsets": [{"partition": {}, "offset": self.offset}] if self.offset else []}

    def send(
        self, _settings: Settings, _connector: Connector, method: str, what: str, body: dict
    ) -> None:
        assert (method, what) == ("PUT", "config")
        self.sent.append(body)
        self.config = body


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    worker = Connect()
    monkeypatch.setattr(connector, "_get", worker.get)
    monkeypatch.setattr(connector, "_send", worker.send)
    monkeypatch.setattr(connector, "_wait_until_running", lambda *_, **__: None)
    return worker


@pytest.mark.parametrize("offset", [None, INITIAL])
def test_a_snapshot_under_way_is_not_disturbed(connect: Connect, offset: dict | None) -> None:
    connect.offset = offset
    assert not connector.clear_mark(Settings(), connector_of(Settings()))
    assert connect.sent == []


@pytest.mark.parametrize("offset", [{"lsn": 2}, {**INITIAL, "snapshot_completed": True}])
def test_after_its_snapshot_the_connector_is_marked_once(connect: Connect, offset: dict) -> None:
    connect.offset = offset
    assert connector.clear_mark(Settings(), connector_of(Settings()))
    assert connector.clear_mark(Settings(), connector_of(Settings()))
    assert connect.sent == [{"slot.name": "lockstep", connector.MARK: "false"}]


def test_a_start_waits_until_the_snapshots_offset_is_kept(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        connect.offset = {"lsn": 2} if len(pauses) == 3 else INITIAL

    connect.config = {**connector_of(Settings()).configuration(), "name": "pizzeria"}
    monkeypatch.setattr(connector, "failure", lambda *_: None)
    monkeypatch.setattr(connector, "_wait_until_it_writes", lambda *_: None)
    monkeypatch.setattr(connector, "_comes_to_read_its_slot", lambda *_: True)
    monkeypatch.setattr(connector.time, "sleep", pause)
    connector.ensure_running(Settings(), connector_of(Settings()))
    assert [sent[connector.MARK] for sent in connect.sent] == ["false"]
    assert len(pauses) == 3


def test_without_a_connector_nothing_is_marked(connect: Connect) -> None:
    connect.config = None
    assert not connector.clear_mark(Settings(), connector_of(Settings()))
