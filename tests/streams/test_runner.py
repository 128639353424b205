"""A runner's stop: after the micro-batch under way, and never in the way of the next one."""

import threading
from pathlib import Path

import pytest
from lockstep.contracts import StreamMode
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.streams import published
from lockstep.streams.runner import Runner
from lockstep.streams.sink import ChangeLogSink, open_change_log

SECONDS_MAX = 10


class QueryThatBeginsAnother:
    """As Spark's: its stop waits for the stream's thread, which is about to call us once more."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.refused = False

    def stop(self) -> None:
        thread = threading.Thread(target=self._begin, daemon=True)
        thread.start()
        thread.join()

    def _begin(self) -> None:
        with pytest.raises(StreamError, match="being stopped"):
            self._runner._micro_batch(None, 1)
        self.refused = True


def test_a_micro_batch_that_begins_during_a_stop_is_refused_and_waits_for_nothing(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path)
    sink = ChangeLogSink(open_change_log(settings, StreamMode.OUTBOX), published.outbox())
    runner = Runner(settings, "outbox", sink, xid_near=1, skipped=frozenset())
    query = runner._query = QueryThatBeginsAnother(runner)
    stopping = threading.Thread(target=runner.stop, daemon=True)
    stopping.start()
    stopping.join(SECONDS_MAX)
    assert not stopping.is_alive(), "the stop waits for the micro-batch that waits for it"
    assert query.refused
