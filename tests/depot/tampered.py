"""A pipeline's hourly table and a change log, read, changed in many ways, and written again.

Each fault is done to a row that agrees; it gives the class of each row that differs afterwards.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from lockstep.settings import Settings
from lockstep.sinks.append_log import CAPTURE_APP_ID, FRONTIER_APP_ID, RESUME_APP_ID

Key = tuple[str | int, ...]
Expected = dict[Key, str]


class Tampered:
    """hourly, log: the rows. They are written by `write`, with all that their commits say."""

    def __init__(self, settings: Settings, plan: Plan, rng: Random) -> None:
        self.plan, self.rng = plan, rng
        self._folder = settings.table_uri(plan.change_log(Mode.TEMPORAL))
        self._hourly = DeltaTable(settings.table_uri(plan.hourly_table))
        self._log = DeltaTable(self._folder)
        self.hourly = self._hourly.to_pyarrow_table().to_pylist()
        self.log = self._log.to_pyarrow_table().to_pylist()
        self._run = next(
            commit["userMetadata"] for commit in self._hourly.history() if "userMetadata" in commit
        )
        self._made = 0

    def key(self, row: dict) -> Key:
        return tuple(row[name] for name in self.plan.key)

    def row(self, key: Key) -> dict:
        return next(one for one in self.hourly if self.key(one) == key)

    def change(self, key: Key) -> dict:
        """The only change of a row."""
        (found,) = (one for one in self.log if self.key(one) == key)
        return found

    def plain_keys(self, differing: Collection[Key]) -> list[Key]:
        """Rows that agree, each with one change only, in random order."""
        of_key = Counter(map(self.key, self.log))
        found = sorted(map(self.key, self.hourly))
        found = [key for key in found if of_key[key] == 1 and key not in differing]
        self.rng.shuffle(found)
        return found

    def new_key(self) -> Key:
        """Of no row."""
        self._made += 1
        return (str(UUID(int=10**9 + self._made)), *(1 for _ in self.plan.key[1:]))

    def value_column(self) -> str:
        """A column of the result that is neither of the key nor the time."""
        own = [*self.plan.key, self.plan.time]
        return self.rng.choice([one for one in self.plan.result.columns if one not in own])

    def write(self) -> None:
        schema = self._hourly.to_pyarrow_table().schema
        write_deltalake(
            self._hourly,
            pa.Table.from_pylist(self.hourly, schema),
            mode="overwrite",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": self._run}),
        )
        reached = [
            Transaction(name, version)
            for name in (FRONTIER_APP_ID, RESUME_APP_ID, CAPTURE_APP_ID)
            if (version := self._log.transaction_version(name)) is not None
        ]
        schema, metadata = self._log.to_pyarrow_table().schema, self._log.metadata()
        shutil.rmtree(self._folder)  # a change log can only be appended to
        write_deltalake(
            self._folder,
            pa.Table.from_pylist(self.log, schema),
            description=metadata.description,
            partition_by=metadata.partition_columns,
            commit_properties=CommitProperties(app_transactions=reached),
        )


def change_lost(tables: Tampered, key: Key) -> Expected:
    tables.log.remove(tables.change(key))
    return {key: "missing_in_stream"}


def change_doubled(tables: Tampered, key: Key) -> Expected:
    tables.log.append(dict(tables.change(key)))
    return {key: "duplicate_in_stream"}


def change_of_no_row(tables: Tampered, key: Key) -> Expected:
    other = tables.new_key()
    tables.log.append(tables.change(key) | dict(zip(tables.plan.key, other, strict=True)))
    return {other: "missing_in_batch"}


def deleted_in_the_stream(tables: Tampered, key: Key) -> Expected:
    own = [name for name in tables.plan.result.columns if name not in tables.plan.key]
    tables.change(key).update(dict.fromkeys(own), op="d")
    return {key: "missing_in_stream"}


def row_lost(tables: Tampered, key: Key) -> Expected:
    tables.hourly.remove(tables.row(key))
    return {key: "missing_in_batch"}


def row_of_nothing(tables: Tampered, key: Key) -> Expected:
    other = tables.new_key()
    tables.hourly.append(tables.row(key) | dict(zip(tables.plan.key, other, strict=True)))
    return {other: "missing_in_stream"}


def row_doubled(tables: Tampered, key: Key) -> Expected:
    tables.hourly.append(dict(tables.row(key)))
    return {key: "value_mismatch"}


def value_off_in_the_stream(tables: Tampered, key: Key) -> Expected:
    _spoil(tables.change(key), tables.value_column())
    return {key: "value_mismatch"}


def value_off_in_the_hourly_table(tables: Tampered, key: Key) -> Expected:
    _spoil(tables.row(key), tables.value_column())
    return {key: "value_mismatch"}


def value_turned_null(tables: Tampered, key: Key) -> Expected:
    change = tables.change(key)
    name = tables.value_column()
    change[name] = "a text that is not there" if change[name] is None else None
    return {key: "value_mismatch"}


def other_time(tables: Tampered, key: Key) -> Expected:
    tables.change(key)[tables.plan.time] += timedelta(microseconds=1)
    return {key: "value_mismatch"}


def value_of_another_row(tables: Tampered, key: Key) -> Expected:
    """One that is plausible."""
    change, name = tables.change(key), tables.value_column()
    others = {str(value): value for one in tables.log if (value := one[name]) is not None}
    others.pop(str(change[name]), None)
    if others:
        change[name] = others[tables.rng.choice(sorted(others))]
    return {key: "value_mismatch"} if others else {}


def _spoil(row: dict, name: str) -> None:
    value = row[name]
    if value is None or isinstance(value, str):
        row[name] = f"{value or ''} was never there"
    elif isinstance(value, bool):
        row[name] = not value
    elif isinstance(value, list):
        row[name] = [*value, {"goods_label": "never packed", "parcels": 1}]
    else:
        row[name] = value + (Decimal("0.01") if isinstance(value, Decimal) else 1)


FAULTS: tuple[Callable[[Tampered, Key], Expected], ...] = (
    change_lost,
    change_doubled,
    change_of_no_row,
    deleted_in_the_stream,
    row_lost,
    row_of_nothing,
    row_doubled,
    value_off_in_the_stream,
    value_off_in_the_hourly_table,
    value_turned_null,
    other_time,
    value_of_another_row,
)
