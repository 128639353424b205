"""Rows in memory, each with its kept versions: packed in SQLite, not objects of Python.

A row of three numbers takes 70 bytes of the process, in a dict with its values packed 213
(`lockstep bench rows`). To find one takes 3.5 microseconds instead of 0.5. Knows nothing of
streams; for one thread at a time.
"""

import pickle
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing

from lockstep.pipeline.values import comparable
from lockstep.streams.table_rows import Key

Values = tuple[object, ...] | None
Versions = tuple[tuple[int, Values], ...]
"""Of one row: the commit LSN of each version and its values, None of a delete, in order."""
Places = tuple[int, ...]
Bucket = dict[Key, Versions]
"""The rows whose keys have the same hash: one, but for collisions."""

_TABLES = """
CREATE TABLE packed (key_hash INTEGER PRIMARY KEY, bucket BLOB NOT NULL);
CREATE TABLE leading (
    number INTEGER, value_hash INTEGER, key_hash INTEGER, PRIMARY KEY (number, value_hash, key_hash)
) WITHOUT ROWID;
"""


class RowStore:
    """The kept versions of a table's rows by key, and keys by the values in other columns.

    count: of versions.
    """

    def __init__(self, indexed: Iterable[Places]) -> None:
        """indexed: the places in a row's values by which its key is to be found, too."""
        self.count = 0
        self._indexed = tuple(indexed)
        self._sql = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._sql.executescript(_TABLES)
        self._rows = 0

    def __len__(self) -> int:
        """How many rows have a version."""
        return self._rows

    def items(self) -> Iterator[tuple[Key, Versions]]:
        """All rows; what is changed meanwhile may be as before."""
        with closing(self._sql.execute("SELECT bucket FROM packed")) as found:
            for (packed,) in found:
                yield from _unpacked(packed).items()

    def versions(self, key: Key) -> Versions:
        """All of the row's; none when it has none."""
        return self._bucket(hash(key)).get(key, ())

    def change(self, key: Key, changed: Callable[[Versions], Versions]) -> bool:
        """Replace the row's versions by what `changed` makes of them, one at least.

        Returns whether these are others.
        """
        key_hash = hash(key)
        bucket = self._bucket(key_hash)
        before = bucket.get(key, ())
        after = changed(before)
        if after is before:
            return False
        new_bucket = {**bucket, key: after}
        self._sql.execute("REPLACE INTO packed VALUES (?, ?)", (key_hash, _packed(new_bucket)))
        self._rows += len(new_bucket) - len(bucket)
        self.count += len(after) - len(before)
        for number, places in enumerate(self._indexed):
            old, new = (set(map(hash, _values(one, places))) for one in (bucket, new_bucket))
            self._sql.executemany(
                "DELETE FROM leading WHERE number = ? AND value_hash = ? AND key_hash = ?",
                [(number, value_hash, key_hash) for value_hash in old - new],
            )
            self._sql.executemany(
                "INSERT INTO leading VALUES (?, ?, ?)",
                [(number, value_hash, key_hash) for value_hash in new - old],
            )
        return True

    def keys_by(self, places: Places, values: Collection[Key]) -> set[Key]:
        """The keys of the rows of which a version has some of these values in indexed places."""
        number, wanted = self._indexed.index(places), set(values)
        query = "SELECT key_hash FROM leading WHERE number = ? AND value_hash = ?"
        found = {
            key_hash
            for value in wanted
            for (key_hash,) in self._sql.execute(query, (number, hash(value)))
        }
        return {
            key
            for key_hash in found
            for key, versions in self._bucket(key_hash).items()
            if not wanted.isdisjoint(_values({key: versions}, places))
        }

    def _bucket(self, key_hash: int) -> Bucket:
        query = "SELECT bucket FROM packed WHERE key_hash = ?"
        found = self._sql.execute(query, (key_hash,)).fetchone()
        return {} if found is None else _unpacked(found[0])


def _values(bucket: Bucket, places: Places) -> set[Key]:
    """What the versions have in these places; nothing of one that is null there."""
    found = {
        tuple(comparable(values[place]) for place in places)
        for versions in bucket.values()
        for _, values in versions
        if values is not None
    }
    return {value for value in found if None not in value}


def _packed(bucket: Bucket) -> bytes:
    return pickle.dumps(bucket, pickle.HIGHEST_PROTOCOL)


def _unpacked(packed: bytes) -> Bucket:
    return pickle.loads(packed)  # noqa: S301 - packed in this process
