"""How Delta tables are committed to by delta-rs, and how a failure is reported."""

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import PostCommitHookProperties, WriterProperties
from deltalake.exceptions import DeltaError

from lockstep.errors import LakehouseError

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
WRITER = WriterProperties(compression="ZSTD")


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
