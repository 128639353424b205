"""The page that Prometheus reads the streams' metrics from; what is on it is observe's business.

A service of its own, for it must report a stream whose driver is dead, and of all drivers at once.
"""

import os
import signal
import sys

import httpx

from lockstep.host.certificates import certificates
from lockstep.host.environment import settings_environment
from lockstep.host.files import bounded_log
from lockstep.host.ports import Port
from lockstep.host.process import Launch
from lockstep.settings import Settings

COMMAND = (sys.executable, "-m", "lockstep.observe.prometheus")
HTTP_SECONDS_MAX = 5.0


class Metrics:
    """The exporter as a service of the stack; it needs no other and starts no stream."""

    name = "metrics"
    needs: tuple[str, ...] = ()
    ready_seconds_max = 60.0
    stop_signal = signal.SIGTERM
    stop_seconds_max = 5.0

    def address(self, settings: Settings) -> str:
        return settings.metrics_url if settings.metrics_port else ""

    def ports(self, settings: Settings) -> list[Port]:
        return [Port.of(settings, "metrics_host", "metrics_port")]

    def launch(self, settings: Settings) -> Launch:
        return Launch(
            command=COMMAND,
            log=bounded_log(settings.home, self.name),
            environment=metrics_environment(settings),
            working_folder=settings.home,
        )

    def problem(self, settings: Settings) -> str | None:
        try:
            answer = httpx.get(
                settings.metrics_url, timeout=HTTP_SECONDS_MAX, verify=certificates()
            )
            answer.raise_for_status()
        except httpx.HTTPError as error:
            return f"{settings.metrics_url}: {error}"
        return None

    def trouble(self, settings: Settings) -> str | None:
        return None

    def finish(self, settings: Settings) -> None:
        return


def metrics_environment(settings: Settings) -> dict[str, str]:
    """The settings, and nothing else of ours but what Python needs."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, **settings_environment(settings)}
