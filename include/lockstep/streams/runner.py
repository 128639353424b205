"""What a driver runs for each of its streams: something that reads, and a writer.

Reader: the source's change topic is read once for all (reader_runner.py). Micro-batches of Spark:
a query for each stream (micro_batches.py), for mode `transaction`, and where the setting
`stream_reading` asks for them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from lockstep.cdc.transactions import IncompleteTransaction
from lockstep.observe.latency import LatencyWindow
from lockstep.sinks.append_log import Reached
from lockstep.streams.upkeep import Upkeep
from lockstep.streams.writer import Progress, Writer


class Position(NamedTuple):
    """How far a stream has got in the change topic; what its table holds is `reached`.

    next_offset: all before it is dealt with. frontier: the commit LSN of the last whole
    transaction, committed_us: its time; None before there is one.
    """

    next_offset: int
    frontier: int | None
    committed_us: int | None


class Runner(ABC):
    """One stream at work. Made, started and stopped by the driver's main thread.

    neighbours: other streams of the same driver, to which it leaves their share of the cores.
    adapts: whether another number of them counts from now on; else from its next start.
    """

    adapts = False

    def __init__(self, writer: Writer) -> None:
        self.name = writer.name
        self.neighbours = 0
        self.error: BaseException | None = None
        self._writer = writer
        self._upkeep = Upkeep(self.name, writer.sink.maintain)

    @abstractmethod
    def start(self, neighbours: int = 0) -> None:
        """Go on where the table says."""

    @abstractmethod
    def stop(self) -> None:
        """End after the write under way, and wait for it. Nothing is written from then on."""

    @abstractmethod
    def failure(self) -> BaseException | None:
        """Why it ended by itself; None while it runs."""

    @property
    @abstractmethod
    def position(self) -> Position:
        """How far it has got; any thread may ask."""

    @property
    @abstractmethod
    def state_rows(self) -> int:
        """What it keeps outside its tables; any thread may ask."""

    @abstractmethod
    def incomplete(self) -> Sequence[IncompleteTransaction]:
        """Transactions that ended, and of which changes are missing; does not wait."""

    @property
    def reached(self) -> Reached:
        """How far the sink's table goes."""
        return self._writer.sink.reached

    @property
    def progress(self) -> Progress:
        return self._writer.progress

    @property
    def latency(self) -> LatencyWindow:
        return self._writer.latency
