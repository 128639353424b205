"""Arrow tables kept in a temporary file until they are written on."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa


@dataclass(frozen=True)
class Spooled:
    """Tables in a file that is removed with the block. count: their rows."""

    _file: BinaryIO
    count: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order in which they came."""
        self._file.seek(0)
        with pa.ipc.open_stream(self._file) as stream:
            yield from stream


@contextmanager
def spooled(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[Spooled]:
    """Take all the tables, each of this schema, into a file in the system's temporary folder."""
    count = 0
    with tempfile.TemporaryFile() as file:
        with pa.ipc.new_stream(file, schema) as stream:
            for table in tables:
                stream.write_table(table)
                count += table.num_rows
        yield Spooled(file, count)
