"""Keeps the streams running as Airflow's operator does, for a soak without Airflow.

One driver hosts all modes, so that two cores suffice; the judgements and the pauses between
restarts are lockstep.supervise's own.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lockstep.capture import connector
from lockstep.capture.connectors import registered_connector
from lockstep.errors import LockstepError, ServiceError
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.supervise import keeper, launcher
from lockstep.supervise.desired import DesiredState, write_desired
from lockstep.supervise.errors import StreamFailedError
from lockstep.supervise.observation import Observation, observe
from lockstep.supervise.patience import Patience
from lockstep.supervise.restart_policy import GiveUp

from lockstep_tools.soak.findings import Finding

LOOK_SECONDS = 0.5
REASON = "kept running by the soak"


class Guard(threading.Thread):
    """Restarts what is not well until stopped. One that it gives up is a finding."""

    def __init__(self, settings: Settings, modes: Sequence[StreamMode]) -> None:
        super().__init__(name="guard", daemon=True)
        self._settings = settings
        self._connector = registered_connector(settings)
        self._modes = [str(mode) for mode in modes]
        self._patience = {mode: Patience() for mode in self._modes}
        self._done = threading.Event()
        self._is_away = threading.Event()
        self._findings: list[Finding] = []
        self.restarts = 0

    def begin(self) -> None:
        """Start what does not run, wait until it works, and watch from then on."""
        missing = [mode for mode in self._modes if observe(self._settings, mode).holder is None]
        if missing:
            launcher.start(self._settings, missing, REASON)
        self.start()

    def run(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            if self._is_away.is_set():
                continue
            try:
                seen = self._look()
                is_over = [self._is_over(one) for one in seen]
                if any(is_over):  # then of all that are not well, for one driver hosts them
                    self._restart([one for one in seen if one.finding.health.wrong])
                self._restart_connector()
            except LockstepError as error:  # looked at again in a moment, by the policy's count
                self._note("guard", str(error).splitlines()[0])
            except Exception as error:  # a defect; without the guard nothing restarts the streams
                self._note("guard", repr(error))

    def stop(self) -> None:
        self._done.set()
        self.join()

    @contextmanager
    def away(self) -> Iterator[None]:
        """For the block something else keeps the streams running."""
        self._is_away.set()
        try:
            yield
        finally:
            self._is_away.clear()

    def taken(self) -> list[Finding]:
        """What was found since the last call: streams given up, unexpected errors."""
        found, self._findings = self._findings, []
        return found

    def ignore_restarts(self) -> None:
        """Restarts after an intended kill are not counted against the stream."""
        for mode in self._modes:
            write_desired(self._settings, mode, DesiredState.RUNNING, REASON, 0)

    def _look(self) -> list[Observation]:
        return [observe(self._settings, mode) for mode in self._modes]

    def _is_over(self, seen: Observation) -> bool:
        patience = self._patience[seen.mode]
        return patience.is_over(seen.finding, seen.heartbeat, time.monotonic())

    def _restart(self, ill: list[Observation]) -> None:
        """One new driver for all that is ill, after the pause that the policy asks for."""
        steps = [keeper.next_step(seen) for seen in ill]
        if given_up := [s.mode for s, step in zip(ill, steps, strict=True) if _gives_up(step)]:
            why = "; ".join(f"{seen.mode} {seen.finding.why}" for seen in ill)
            self._note(", ".join(given_up), f"given up: {why}")
            self._done.set()
            return
        if self._done.wait(max(step.pause_seconds for step in steps)):
            return
        number = max(step.number for step in steps)
        held = [seen.mode for seen in ill if seen.holder is not None]
        if held:
            launcher.stop(self._settings, held, f"{REASON}: started again")
        self.restarts += 1
        try:
            launcher.start(self._settings, [seen.mode for seen in ill], REASON, number)
        except StreamFailedError:
            return  # a service is away; the policy says when to try again, and when no more

    def _restart_connector(self) -> None:
        try:
            if connector.failure(self._settings, self._connector) is not None:
                connector.restart_failed(self._settings, self._connector)
        except ServiceError:
            return  # Connect is being restarted by the scenario

    def _note(self, subject: str, text: str) -> None:
        self._findings.append(Finding("guard", subject, text))


def _gives_up(step: object) -> bool:
    return isinstance(step, GiveUp)
