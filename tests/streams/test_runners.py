"""Which runner a stream has."""

import pytest
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.streams.micro_batches import MicroBatches
from lockstep.streams.modes import Modes
from lockstep.streams.reader_runner import ReaderRunner
from lockstep.streams.runners import RunnerMaker


@pytest.mark.parametrize(
    ("reading", "mode", "kind"),
    [
        ("reader", StreamMode.OUTBOX, ReaderRunner),
        ("reader", HISTORY, ReaderRunner),
        ("reader", StreamMode.TRANSACTION, MicroBatches),
        ("micro_batches", StreamMode.OUTBOX, MicroBatches),
        ("micro_batches", HISTORY, MicroBatches),
    ],
)
def test_the_reader_serves_all_but_transaction_unless_micro_batches_are_asked_for(
    home: Settings, reading: str, mode: str, kind: type
) -> None:
    settings = home.model_copy(update={"stream_reading": reading})
    modes = Modes.of(settings)
    modes.make_table(StreamMode.OUTBOX)
    sink = modes.sink_of(None, StreamMode.OUTBOX, capture_id=1)
    location = settings.home / "checkpoint"
    maker = RunnerMaker.of(settings, None, modes, xid_near=100)
    runner = maker.runner(modes, mode, sink, location, "a name")
    assert (type(runner), runner.name) == (kind, "a name")
    assert location.exists() is (kind is MicroBatches)
    is_staged = kind is MicroBatches and runner._stage is not None
    assert is_staged is (mode == StreamMode.TRANSACTION)
