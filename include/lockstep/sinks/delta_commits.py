"""How Delta tables are opened and committed to by delta-rs, and how a failure is reported."""

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable, PostCommitHookProperties, WriterProperties
from deltalake.exceptions import DeltaError
from tenacity import retry, retry_if_exception_message, stop_after_attempt

from lockstep.errors import LakehouseError

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
WRITER = WriterProperties(compression="ZSTD")


@retry(
    retry=retry_if_exception_message(match="(?s).*contiguous commit files"),
    stop=stop_after_attempt(5),
    reraise=True,
)
def open_busy(uri: str) -> DeltaTable:
    """The table that may be committed to at this moment: a listing of its log can miss one of
    several new entries."""
    return DeltaTable(uri)


@contextmanager
def translate_delta_errors(uri: str) -> Iterator[None]:
    """Raise LakehouseError for what delta-rs or the file system refuses."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise LakehouseError(
            f"the table {uri} cannot be written: {error}; what it holds is unharmed: "
            "make room or give the rights, then start again"
        ) from error
