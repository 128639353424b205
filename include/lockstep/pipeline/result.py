"""A pipeline's result: its columns with their types, its key, its time.

Only Spark's analysis knows the types that a query gives. result.lock in the pipeline's folder keeps
what it found, with the version of the pipeline that it is of, so that what runs without a JVM knows
them as well. `lockstep pipeline lock` writes it. Pure: no Spark, no database.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_FILE = "result.lock"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Result:
    """columns: name and Delta type of each, in the query's order. key: of a row, in the order of
    the fact's primary key. time: the column that says which window a row is in; None without one.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    time: str | None

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The columns that are not in the key: all that a delete leaves null."""
        return tuple(name for name in self.columns if name not in self.key)

    @cached_property
    def schema(self) -> "pa.Schema":
        """The columns in Arrow; all may be null."""
        from lockstep.pipeline.delta_types import arrow_schema  # with pyarrow, which DAGs need not

        return arrow_schema(self.columns)


def write_result(columns: Mapping[str, str], pipeline: str, version: str) -> str:
    """The text of result.lock."""
    content = {
        "format_version": FORMAT_VERSION,
        "pipeline": pipeline,
        "version": version,
        "columns": dict(columns),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_columns(lock: str | None, file: Path, pipeline: str, version: str) -> dict[str, str]:
    """Name and Delta type of each column of the result, as the lock's text has them.

    lock: None when there is no file. Raises PipelineError then, when it is damaged, or when it is
    of another version of the pipeline: its types may be others.
    """
    remedy = f"`lockstep pipeline lock {pipeline}` writes it"
    if lock is None:
        raise PipelineError(f"{file} is missing: {remedy}")
    try:
        content = json.loads(lock)
        found = (content["format_version"], content["pipeline"], content["version"])
        columns = {str(name): str(kind) for name, kind in content["columns"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{file} is damaged ({error!r}): {remedy}") from error
    if found != (FORMAT_VERSION, pipeline, version):
        raise PipelineError(
            f"{file} is of version {found[2]} of pipeline {found[1]}, and the folder is of version "
            f"{version}: the query, or what it reads, has changed since: {remedy}"
        )
    return columns
