"""The question that gives a row of scalars for each change of a window's rows. Pure."""

from collections.abc import Iterable
from pathlib import Path
from string import Template

from lockstep.model.log import SNAPSHOT_COMMIT_LSN
from lockstep.model.window import Window
from lockstep.pipeline.result import Result
from lockstep.pipeline.row_keys import quoted
from lockstep.quality.row_sql import in_window
from lockstep.sinks.window_conditions import up_to

_CHANGES = Template(Path(__file__).with_name("change_log.sql").read_text(encoding="utf-8"))


def changes_sql(result: Result, window: Window, frontier: int | None = None) -> str:
    """change_log.sql for a result. frontier: of changes up to this commit LSN; None: of all."""
    names = [quoted(name) for name in result.key]
    return _CHANGES.substitute(
        key=", ".join(_qualified(names)),
        key_names=", ".join(names),
        same_key=" AND ".join(
            f"(change_log.{name} IS NOT DISTINCT FROM window_rows.{name})" for name in names
        ),
        has_key=_each_is(names, "NOT NULL"),
        values_are_null=_each_is(map(quoted, result.values), "NULL") or "TRUE",
        in_window=in_window(result, window, "change_log."),
        up_to_frontier=up_to(frontier),
        snapshot_lsn=SNAPSHOT_COMMIT_LSN,
    )


def _qualified(names: Iterable[str]) -> list[str]:
    return [f"change_log.{name}" for name in names]


def _each_is(names: Iterable[str], what: str) -> str:
    return " AND ".join(f"{name} IS {what}" for name in _qualified(names))
