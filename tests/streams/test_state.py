"""What a stream says that it holds: it grows and shrinks with what is held."""

from pathlib import Path

from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached
from lockstep.streams.runner import Runner
from pizzeria.names import CLIENTS

from tests.cdc.histories import change, placed
from tests.streams.topics import passing


class Caching:
    """A sink that keeps some rows in memory."""

    wanted = frozenset({CLIENTS})
    reached = Reached(0, 0)
    cached_rows = 0


def test_the_state_of_a_stream_is_what_it_caches_and_what_it_waits_with(tmp_path: Path) -> None:
    sink = Caching()
    runner = Runner(Settings(home=tmp_path), "temporal", sink, xid_near=1000, given_up=passing())
    assert runner.state_rows == 0
    sink.cached_rows = 3
    assert runner.state_rows == 3
    runner.tracker.feed(placed([change(7, 1, CLIENTS), change(7, 2, CLIENTS)]))
    assert runner.state_rows == 5
