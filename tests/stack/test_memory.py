"""What a process has freed goes back to the system, not before it is due."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from lockstep.host import memory
from lockstep.host.memory import FreeMemory

CHUNK, CHUNKS = 64 * 1024, 2_000
"""Below glibc's limit for a mapping of its own, 128 KiB."""

CYCLE_AFTER_MODULES = """
import gc
import weakref

from lockstep.host.memory import collect_less

class Cycle:
    def __init__(self):
        self.own = self

gone_through = len(gc.get_objects())
collect_less()
assert len(gc.get_objects()) < gone_through / 10
cycle = weakref.ref(Cycle())
made = []
while cycle() is not None and len(made) < 1_000_000:
    made.append([])
print(len(made))
"""

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's function"
)


@pytest.fixture
def kept_free() -> Iterator[int]:
    """Bytes that the C library keeps, though all but the last of its chunks are free."""
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    chunks = [library.malloc(CHUNK) for _ in range(CHUNKS)]
    for chunk in chunks:
        ctypes.memset(chunk, 1, CHUNK)
    for chunk in chunks[:-1]:
        library.free(chunk)
    yield CHUNK * CHUNKS
    library.free(chunks[-1])


def resident() -> int:
    return psutil.Process(os.getpid()).memory_info().rss


def test_what_is_due_is_given_back(kept_free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RETURN_SECONDS", 0.0)
    before = resident()
    FreeMemory().return_when_due()
    assert before - resident() > kept_free // 2


def test_nothing_is_given_back_before(kept_free: int) -> None:
    before = resident()
    FreeMemory().return_when_due()
    assert abs(before - resident()) < kept_free // 4


def test_cycles_are_collected_later_and_modules_are_not_gone_through() -> None:
    made = subprocess.run(
        [sys.executable, "-c", CYCLE_AFTER_MODULES], check=True, capture_output=True, text=True
    )
    assert 1_000 < int(made.stdout) <= memory.NEW_OBJECTS_MAX + 1_000
