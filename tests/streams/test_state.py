"""What a stream says that it holds: it grows and shrinks with what is held."""

from pathlib import Path

import pytest
from lockstep.cdc.records import EnvelopeDecoder
from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached
from lockstep.streams.given_up import GivenUp
from lockstep.streams.reader_runner import ReaderRunner
from lockstep.streams.source_reader import SourceReader, SourceReaders
from pizzeria.names import CLIENTS

from tests.cdc.histories import change, placed
from tests.streams.topics import passing


class Caching:
    """A sink that keeps some rows in memory."""

    wanted = frozenset({CLIENTS})
    reached = Reached(0, 0)
    cached_rows = 0
    maintain = None


def test_the_state_of_a_stream_is_what_it_caches_and_what_it_waits_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceReader, "start", lambda _: None)
    settings, sink = Settings(home=tmp_path), Caching()
    readers = SourceReaders(settings, GivenUp(list, EnvelopeDecoder("topic")), xid_near=1000)
    runner = ReaderRunner(settings, "temporal", sink, readers=readers, given_up=passing())
    assert runner.state_rows == 0
    sink.cached_rows = 3
    assert runner.state_rows == 3
    runner._stream = readers.subscribe(sink.reached)
    readers.of(runner._stream).tracker.feed(placed([change(7, 1, CLIENTS), change(7, 2, CLIENTS)]))
    assert runner.state_rows == 5
