"""Opens Delta tables by delta-rs, also while another process or thread commits to them."""

from collections.abc import Mapping

from deltalake import DeltaTable
from tenacity import retry, retry_if_exception_message, stop_after_attempt

ATTEMPTS_MAX = 5


@retry(
    retry=retry_if_exception_message(match="(?s).*contiguous commit files"),
    stop=stop_after_attempt(ATTEMPTS_MAX),
    reraise=True,
)
def open_delta(
    uri: str, version: int | None = None, storage_options: Mapping[str, str] | None = None
) -> DeltaTable:
    """The table at a folder or URI, in its newest version if none is given.

    A listing of its log can miss one of several entries that are made meanwhile, which delta-rs
    refuses: it is made again. Raises DeltaError and OSError, as delta-rs does.
    """
    return DeltaTable(uri, version=version, storage_options=storage_options)
