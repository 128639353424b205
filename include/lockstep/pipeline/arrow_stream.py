"""An Arrow table as bytes, in Arrow's own IPC stream format: for Spark's JVM and Python workers."""

import pyarrow as pa


def to_bytes(table: pa.Table) -> bytes:
    """The table with its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(content: bytes) -> pa.Table:
    """The table that to_bytes, or Spark, wrote."""
    return pa.ipc.open_stream(content).read_all()
