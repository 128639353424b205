"""What a driver is expected to take: refused where the machine has less."""

from types import SimpleNamespace

import psutil
import pytest
from lockstep.settings import Settings
from lockstep.supervise import launcher, lease
from lockstep.supervise.desired import read_desired
from lockstep.supervise.driver_memory import (
    BASE_BYTES,
    MODE_BYTES,
    DriverTooLargeError,
    expected_bytes,
)

GIB = 1024**3


@pytest.mark.parametrize(
    ("memory", "heap"),
    [("1g", GIB), ("512m", GIB // 2), ("2GB", 2 * GIB), ("1024", GIB), ("1048576k", GIB)],
)
def test_a_driver_takes_its_heap_and_more_for_each_mode(memory: str, heap: int) -> None:
    expected = expected_bytes(Settings(spark_driver_memory=memory), 3)
    assert expected == heap + BASE_BYTES + 3 * MODE_BYTES


def test_a_driver_that_does_not_fit_is_refused_and_nothing_is_started_or_desired(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    available = expected_bytes(settings, 2)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available - 1))
    with pytest.raises(DriverTooLargeError, match="2 streams more take up to 1,"):
        launcher.start(settings, ["outbox", "message"], "a test")
    assert read_desired(settings, "outbox") is None
    assert lease.holder(settings, "outbox") is None
    launcher.start(settings, ["outbox"], "a test")
