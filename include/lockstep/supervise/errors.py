"""How a stream is not started or not stopped."""

from lockstep.errors import StreamError
from lockstep.pipeline.names import SEPARATOR


class StreamBusyError(StreamError):
    """Another process runs the mode."""

    def __init__(self, mode: str, pid: int | None) -> None:
        status, stop = {
            "publisher": ("publish status", "publish stop"),
            "history": ("stream status", "stream stop all"),  # of whichever driver hosts it
        }.get(mode, (f"stream status {mode}", f"stream stop {mode}"))
        lockstep = "lockstep"
        if SEPARATOR in mode:  # of another pipeline
            pipeline, own = mode.split(SEPARATOR, 1)
            lockstep, status, stop = (
                f"lockstep --pipeline {pipeline}",
                f"stream status {own}",
                f"stream stop {own}",
            )
        super().__init__(
            f"the stream {mode} is run by another process (pid {pid or 'unknown'}); "
            f"`{lockstep} {status}` shows it, `{lockstep} {stop}` stops it"
        )
        self.mode, self.pid = mode, pid


class StreamFailedError(StreamError):
    """The stream did not come to work, or ceased to; with the end of its driver's log."""

    def __init__(self, mode: str, why: str, log_end: str = "") -> None:
        ending = f"; the end of its driver's log:\n{log_end}" if log_end else ""
        super().__init__(f"the stream {mode}: {why}{ending}")
        self.mode, self.why = mode, why


class StreamNotStoppedError(StreamError):
    """Even a kill did not free the mode."""

    def __init__(self, modes: list[str], seconds: float) -> None:
        super().__init__(
            f"{', '.join(modes)} still run {seconds:.0f} s after they were to stop, though their "
            "driver was killed; `fuser` on streams/<address>/lease.lock finds who holds them"
        )
        self.modes, self.seconds = modes, seconds
