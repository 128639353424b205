"""Which runner a stream has: the source's reader, or a query of Spark's own."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.cdc.records import EnvelopeDecoder
from lockstep.host.files import make_private_folder
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.micro_batches import MicroBatches, Stage
from lockstep.streams.modes import Modes
from lockstep.streams.reader_runner import ReaderRunner
from lockstep.streams.runner import Runner
from lockstep.streams.sink import Sink
from lockstep.streams.source_reader import SourceReaders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RunnerMaker:
    """Makes the runners of one process, which share a session and the source's readers."""

    settings: Settings
    spark: "SparkSession"
    readers: SourceReaders

    @classmethod
    def of(
        cls,
        settings: Settings,
        spark: "SparkSession",
        modes: Modes,
        xid_near: int,
        gathered: threading.Event | None = None,
    ) -> "RunnerMaker":
        """For the source of these modes. xid_near: a transaction id of about now.

        gathered: as of SourceReaders. Raises StreamError when Kafka does not answer.
        """
        given_up = GivenUp(modes.look, EnvelopeDecoder(modes.plan.change_topic))
        return cls(settings, spark, SourceReaders(settings, given_up, xid_near, gathered))

    def runner(
        self, modes: Modes, mode: str, sink: Sink, checkpoint_location: Path, name: str
    ) -> Runner:
        """Of a mode of the pipeline, or of the history. name: in its driver.

        checkpoint_location: made if it is not there; only a query of Spark's keeps something there.
        Raises StreamError when Kafka does not answer.
        """
        make_private_folder(checkpoint_location)
        given_up = modes.given_up(mode)
        if self.settings.stream_reading == "reader" and mode != StreamMode.TRANSACTION:
            return ReaderRunner(self.settings, name, sink, readers=self.readers, given_up=given_up)
        stage = _stage_of(mode)
        follower = Follower(
            self.settings,
            name,
            sink,
            xid_near=self.readers.xid_near,
            given_up=given_up,
            held_back=stage is not None,
        )
        return MicroBatches(self.settings, follower, self.spark, checkpoint_location, stage)


def _stage_of(mode: str) -> Stage | None:
    """What the mode's records go through in Spark before they come to the driver."""
    if mode != StreamMode.TRANSACTION:
        return None
    from lockstep.streams.open_transactions import unpacked, whole_transactions

    return Stage(whole_transactions, unpacked)
