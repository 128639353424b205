"""The errors a user can meet. Each says what is wrong, with its numbers, and what to do.

Entry points print such an error on one line and exit with its ``exit_code``; anything else is a
defect of ours and keeps its traceback.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_OF_A_PIPELINE = re.compile(r"\blockstep (?=(?:batch|capture|parity|publish|quality|stream) )")
"""Commands that work for one pipeline."""


class LockstepError(Exception):
    """Base of every expected failure."""

    exit_code = 2
    restart_helps = True
    """Of an error that ends a stream: the same start, later, may succeed without a person."""


class ConfigurationError(LockstepError):
    """A setting is missing, malformed, or contradicts another."""

    restart_helps = False


class WindowError(LockstepError):
    """The window of order times cannot be used."""


class LakehouseError(LockstepError):
    """The lakehouse cannot be read or written: no table, missing rights, no room, a lock held."""


class WindowNotWrittenError(LakehouseError):
    """No run's commit replaced exactly this window, or a later run wrote over it."""


class WriterBusyError(LakehouseError):
    """Another process is writing the same table."""


class ServiceError(LockstepError):
    """A service of the embedded stack did not start, stopped, or does not answer."""


class StreamError(LockstepError):
    """A stream cannot start, or has stopped: the message names the cause and the remedy."""


def with_pipeline(text: str, pipeline: str) -> str:
    """The text with each command as it is called for this pipeline; empty: the project's own."""
    return _OF_A_PIPELINE.sub(f"lockstep --pipeline {pipeline} ", text) if pipeline else text


@contextmanager
def exit_on_error() -> Iterator[None]:
    """For each main: a LockstepError becomes one line on standard error and its exit code.

    Commands that the line names have the pipeline that LOCKSTEP_PIPELINE chose.
    """
    try:
        yield
    except LockstepError as error:
        text = with_pipeline(str(error), os.environ.get("LOCKSTEP_PIPELINE", ""))
        sys.stderr.write(f"error: {text}\n")
        sys.exit(error.exit_code)
