"""The service of the streams' metrics: served on loopback, left out when switched off."""

from collections.abc import Iterator

import httpx
import pytest
from lockstep.devstack import control
from lockstep.devstack.metrics import Metrics
from lockstep.devstack.service import State
from lockstep.errors import ServiceError
from lockstep.host.ports import free_ports, require_usable
from lockstep.settings import Settings
from pizzeria.names import MANIFEST


@pytest.fixture
def settings(stack_settings: Settings) -> Iterator[Settings]:
    """A home whose only started service, if any, is the one of this test."""
    (port,) = free_ports(1)
    home = stack_settings.home / "metrics-only"
    own = stack_settings.model_copy(update={"home": home, "metrics_port": port})
    yield own
    control.down(own)


def test_the_page_is_served_until_the_service_is_stopped(settings: Settings) -> None:
    control.up(settings, [Metrics.name])
    page = httpx.get(settings.metrics_url)
    assert f'lockstep_stream_up{{mode="outbox",pipeline="{MANIFEST}"}} 0.0' in page.text
    assert page.headers["content-type"].startswith("text/plain")
    found = {one.service: one for one in control.statuses(settings)}[Metrics.name]
    assert (found.state, found.address) == (State.RUNNING, settings.metrics_url)
    control.down(settings)
    with pytest.raises(httpx.ConnectError):
        httpx.get(settings.metrics_url)


def test_port_zero_switches_it_off() -> None:
    off = Settings(metrics_port=0)
    assert Metrics.name in control._chosen(Settings(), ())
    assert Metrics.name not in control._chosen(off, ())
    assert Metrics.name not in control._chosen(off, ["kafka"])
    assert Metrics().address(off) == ""
    with pytest.raises(ServiceError, match="LOCKSTEP_METRICS_PORT"):
        require_usable(Metrics().ports(off))


def test_it_is_served_to_this_machine_only() -> None:
    with pytest.raises(ServiceError, match="LOCKSTEP_METRICS_HOST"):
        require_usable(Metrics().ports(Settings(metrics_host="192.0.2.1")))
