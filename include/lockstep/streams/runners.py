"""Which runner a stream has: the source's reader, or a query of Spark's own."""

import shutil
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
from lockstep.supervise.folder import mode_folder

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

    def runner(self, modes: Modes, mode: str, sink: Sink, location: Path, name: str) -> Runner:
        """Of a mode of the pipeline, or of the history. name: in its driver.

        location: made, and emptied, for a query of Spark's, which keeps something there. Raises
        StreamError when Kafka does not answer.
        """
        given_up = modes.given_up(mode)
        if self.settings.stream_reading == "reader" and mode != StreamMode.TRANSACTION:
            return ReaderRunner(self.settings, name, sink, readers=self.readers, given_up=given_up)
        shutil.rmtree(location, ignore_errors=True)  # nothing needs that of an earlier start
        make_private_folder(location)
        stage = _stage_of(mode)
        follower = Follower(
            self.settings,
            name,
            sink,
            xid_near=self.readers.xid_near,
            given_up=given_up,
            held_back=stage is not None,
        )
        return MicroBatches(self.settings, follower, self.spark, location, stage)


def checkpoint_location(settings: Settings, mode: str) -> Path:
    """The folder of Spark's own bookkeeping of the mode's query; a start needs nothing of it."""
    return mode_folder(settings, mode) / "checkpoint"


def _stage_of(mode: str) -> Stage | None:
    """What the mode's records go through in Spark before they come to the driver."""
    if mode != StreamMode.TRANSACTION:
        return None
    from lockstep.streams.open_transactions import unpacked, whole_transactions

    return Stage(whole_transactions, unpacked)
