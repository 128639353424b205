"""`lockstep bench rows`: rows kept in memory for look-ups, and the same in a dict, values packed.

Each store of each shape of row in a process of its own, by turns.
"""

import gc
import pickle
import random
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple, Protocol

from lockstep.streams.row_store import RowStore, Versions
from lockstep.streams.table_rows import Key

from lockstep_tools.bench.memory import own_bytes

Row = tuple[object, ...]
FOUND_SHARE = 4
"""One of so many rows is looked up."""


class Store(Protocol):
    """Keeps the versions of rows by their keys."""

    def versions(self, key: Key) -> Versions: ...
    def change(self, key: Key, changed: Callable[[Versions], Versions]) -> bool: ...


class PackedDict:
    """What the store is compared with."""

    def __init__(self) -> None:
        self._rows: dict[Key, bytes] = {}

    def versions(self, key: Key) -> Versions:
        packed = self._rows.get(key)
        return () if packed is None else pickle.loads(packed)  # noqa: S301 - packed here

    def change(self, key: Key, changed: Callable[[Versions], Versions]) -> bool:
        self._rows[key] = pickle.dumps(changed(self.versions(key)), pickle.HIGHEST_PROTOCOL)
        return True


class Measured(NamedTuple):
    """Resident bytes of a row, and microseconds to add one and to find one."""

    bytes_of_row: float
    add_us: float
    find_us: float


def _named(number: int, rng: random.Random) -> Row:
    return number, f"First{rng.randrange(10**6)} Last"


def _numbers(number: int, rng: random.Random) -> Row:
    return number, rng.randrange(10**6), rng.randrange(50)


def _uuids(_number: int, rng: random.Random) -> Row:
    return _uuid(rng), _uuid(rng), rng.randrange(50)


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


SHAPES: dict[str, Callable[[int, random.Random], Row]] = {
    "an id and a name": _named,
    "three numbers": _numbers,
    "two UUIDs and a number": _uuids,
}
STORES: dict[str, Callable[[], Store]] = {
    "in SQLite": lambda: RowStore([]),
    "in a dict, packed": PackedDict,
}


def measure(rows: int, rounds: int) -> dict[tuple[str, str], Measured]:
    """Medians by shape and store."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for _ in range(rounds):
        for shape in SHAPES:
            for store in STORES:
                with ProcessPoolExecutor(1, get_context("spawn")) as process:
                    measured = process.submit(_measure, shape, store, rows).result()
                found.setdefault((shape, store), []).append(measured)
    return {
        of: Measured(*(statistics.median(values) for values in zip(*all_, strict=True)))
        for of, all_ in found.items()
    }


def _measure(shape: str, store: str, rows: int) -> Measured:
    kept = STORES[store]()
    gc.collect()
    bytes_before = own_bytes()
    add_seconds = 0.0
    for number, row in enumerate(_rows(shape, rows)):
        new = ((number, row),)
        started = time.perf_counter()
        kept.change(row[:1], partial(_added, new))
        add_seconds += time.perf_counter() - started
    gc.collect()
    bytes_ = own_bytes() - bytes_before
    looked_up = [row[:1] for row in _rows(shape, rows)][::FOUND_SHARE]
    started = time.perf_counter()
    for key in looked_up:
        kept.versions(key)
    find_seconds = time.perf_counter() - started
    return Measured(bytes_ / rows, 1e6 * add_seconds / rows, 1e6 * find_seconds / len(looked_up))


def _added(new: Versions, before: Versions) -> Versions:
    return before + new


def _rows(shape: str, count: int) -> Iterator[Row]:
    rng = random.Random(count)  # noqa: S311 - no secret
    return (SHAPES[shape](number, rng) for number in range(count))
