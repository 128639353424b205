"""Rows of a table, each with its kept versions: packed in a temporary file of SQLite's.

The process keeps the pages used last, CACHE_KIB of them, and the system's page cache the others, as
far as there is room. A row of three numbers takes 8 bytes of the process when there are 200,000,
in a dict with its values packed 213 (`lockstep bench rows`). To find one takes 3.5 microseconds
instead of 0.5. The file has no name, and ends with the process. Knows nothing of streams; for one
thread at a time.
"""

import pickle
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing

from lockstep.errors import StreamError
from lockstep.pipeline.values import comparable
from lockstep.streams.table_rows import Key

Values = tuple[object, ...] | None
Versions = tuple[tuple[int, Values], ...]
"""Of one row: the commit LSN of each version and its values, None of a delete, in order."""
Places = tuple[int, ...]
Bucket = dict[Key, Versions]
"""The rows whose keys have the same hash: one, but for collisions."""

CACHE_KIB = 2_048
_TABLES = f"""
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -{CACHE_KIB};
CREATE TABLE packed (key_hash INTEGER PRIMARY KEY, bucket BLOB NOT NULL);
CREATE TABLE leading (
    number INTEGER, value_hash INTEGER, key_hash INTEGER, PRIMARY KEY (number, value_hash, key_hash)
) WITHOUT ROWID;
"""


class RowStore:
    """The kept versions of a table's rows by key, and keys by the values in other columns.

    count: of versions. Each call raises StreamError when the file cannot be written or read, and
    from then on every other one does, too.
    """

    def __init__(self, indexed: Iterable[Places]) -> None:
        """indexed: the places in a row's values by which its key is to be found, too."""
        self.count = 0
        self._indexed = tuple(indexed)
        self._sql = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._sql.executescript(_TABLES)
        self._usable = _Usable(self._sql)
        self._rows = 0

    def __len__(self) -> int:
        """How many rows have a version."""
        return self._rows

    def items(self) -> Iterator[tuple[Key, Versions]]:
        """All rows; what is changed meanwhile may be as before."""
        query = "SELECT bucket FROM packed"
        with self._usable, closing(self._sql.execute(query)) as found:
            for (packed,) in found:
                yield from _unpacked(packed).items()

    def versions(self, key: Key) -> Versions:
        """All of the row's; none when it has none."""
        with self._usable:
            return self._bucket(hash(key)).get(key, ())

    def change(self, key: Key, changed: Callable[[Versions], Versions]) -> bool:
        """Replace the row's versions by what `changed` makes of them, one at least.

        Returns whether these are others.
        """
        with self._usable:
            key_hash = hash(key)
            bucket = self._bucket(key_hash)
            before = bucket.get(key, ())
            after = changed(before)
            if after is before:
                return False
            self._replace(key_hash, bucket, {**bucket, key: after})
            self.count += len(after) - len(before)
            return True

    def _replace(self, key_hash: int, bucket: Bucket, new_bucket: Bucket) -> None:
        self._sql.execute("REPLACE INTO packed VALUES (?, ?)", (key_hash, _packed(new_bucket)))
        self._rows += len(new_bucket) - len(bucket)
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

    def keys_by(self, places: Places, values: Collection[Key]) -> set[Key]:
        """The keys of the rows of which a version has some of these values in indexed places."""
        number, wanted = self._indexed.index(places), set(values)
        query = "SELECT key_hash FROM leading WHERE number = ? AND value_hash = ?"
        with self._usable:
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


class _Usable:
    """A block that asks SQLite. What fails there leaves a file that cannot be trusted, unused."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self._sql = sql

    def __enter__(self) -> None: ...

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, sqlite3.Error):
            self._sql.close()
            raise StreamError(
                f"the temporary file of the rows that look-ups find: {error}; make room in its "
                "folder, which is $TMPDIR or /var/tmp, and start the stream again"
            ) from error


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
