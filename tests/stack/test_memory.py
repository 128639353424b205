"""What a process has freed goes back to the system, not before it is due."""

import ctypes
import os
from collections.abc import Iterator

import psutil
import pytest
from lockstep.host import memory
from lockstep.host.memory import FreeMemory

CHUNK, CHUNKS = 64 * 1024, 2_000
"""Below glibc's limit for a mapping of its own, 128 KiB."""

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
