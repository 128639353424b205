"""What a home that has done its work looks like: on its disk, in Kafka, in PostgreSQL.

Homes outlive the code that made them, so that all of this is part of what a version promises.
Names and shapes are read; what differs from run to run (ids, numbers, ports) is left out.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from deltalake import DeltaTable
from lockstep.accounts import KafkaUser, Role
from lockstep.kafka_login import client
from lockstep.settings import Settings
from pizzeria.names import CONNECTOR

from tests.connect_rest import ask_connect

SECONDS_MAX = 30
NOT_RECORDED = ("postgres/", "kafka/data/", "postgres-location")
"""Files that are other programs' own, and one that only root's homes have."""
PARTIAL = re.compile(r"/\.[^/]+\.[0-9a-f]{8}$")
"""A small file before it takes its name: a heartbeat, each second."""
TIDYING = ("OPTIMIZE", "VACUUM START", "VACUUM END")
"""Commits that come with the number of commits, which is larger on a slow machine."""
VARYING = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID"),
        (r"/checkpoint/[0-9a-f]{32}/", "/checkpoint/UUID/"),
        (r"/state/.*", "/state/…"),
        (r"/_delta_log/.*", "/_delta_log/…"),
        (r"/\.?part-.*", "/…"),
        (r"/(sources/\d+|offsets|commits)/.*", r"/\1/…"),
        (r"classes-[0-9a-f]+", "classes-DIGEST"),
        (r"=\d{4}-\d\d-\d\d/", "=DAY/"),
    )
]
ROLES = """
SELECT rolname, rolsuper, rolreplication, rolcreatedb, rolcreaterole, rolconnlimit
FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> current_user ORDER BY rolname
"""
PUBLICATIONS = """
SELECT
    pubname, pubinsert, pubupdate, pubdelete, pubtruncate, array_agg(tablename ORDER BY tablename)
FROM pg_publication INNER JOIN pg_publication_tables USING (pubname)
GROUP BY pg_publication.oid, pubname ORDER BY pubname
"""
SLOTS = """
SELECT slot_name, plugin, database, temporary, failover FROM pg_replication_slots ORDER BY slot_name
"""
IDENTITIES = """
SELECT relname, relreplident FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname
"""


def layout_of(settings: Settings) -> dict[str, object]:
    """All of it, as JSON; the services must run."""
    return {
        "files": sorted(set(_files(settings.home))),
        "keys of files": dict(_keys_of_files(settings.home / "streams")),
        "tables": {table.name: _table(table) for table in sorted(_tables(settings))},
        "connector": _connector(settings),
        "kafka": _kafka(settings),
        "records": _records(settings),
        "postgres": _postgres(settings),
    }


def _files(home: Path) -> Iterator[str]:
    """Not those being written at this moment: the streams run."""
    for folder, _, names in os.walk(home):
        for name in names:
            path = (Path(folder) / name).relative_to(home).as_posix()
            if not path.startswith(NOT_RECORDED) and not PARTIAL.search(path):
                for pattern, text in VARYING:
                    path = pattern.sub(text, path)
                yield path


def _keys_of_files(streams: Path) -> Iterator[tuple[str, list[str]]]:
    for file in sorted(streams.glob("*/*.json")):
        yield file.relative_to(streams).as_posix(), sorted(json.loads(file.read_text()))


def _tables(settings: Settings) -> Iterator[Path]:
    for log in Path(settings.lakehouse_uri).rglob("_delta_log"):
        yield log.parent


def _table(folder: Path) -> dict[str, object]:
    """Columns, partitions, and what its commits carry in addition to the rows."""
    table = DeltaTable(str(folder))
    actions = [
        json.loads(line)
        for commit in sorted((folder / "_delta_log").glob("*.json"))
        for line in commit.read_text().splitlines()
    ]
    return {
        "columns": {
            field.name: json.loads(field.to_json())["type"] for field in table.schema().fields
        },
        "partitions": table.metadata().partition_columns,
        "configuration": table.metadata().configuration,
        "application transactions": sorted({a["txn"]["appId"] for a in actions if "txn" in a}),
        "commits": sorted(
            set(_commit_texts(a["commitInfo"] for a in actions if "commitInfo" in a))
        ),
    }


def _commit_texts(commits: Iterable[dict]) -> Iterator[str]:
    """The operation, and the keys that Lockstep adds to a commit."""
    for commit in commits:
        if commit["operation"] in TIDYING:
            continue
        own = sorted(key for key in commit if key.startswith("lockstep"))
        metadata = commit.get("userMetadata")
        keys = sorted(json.loads(metadata)) if metadata else []
        yield f"{commit['operation']}: {', '.join([*own, *keys])}"


def _connector(settings: Settings) -> dict[str, str]:
    answer = ask_connect(settings, "GET", f"{CONNECTOR}/config")
    own = {str(settings.home): "HOME", str(settings.postgres_port): "PORT"}
    return {
        key: reduce(lambda text, part: text.replace(*part), own.items(), value)
        for key, value in answer.json().items()
    }


def _kafka(settings: Settings) -> dict[str, object]:
    admin = AdminClient(client(settings, KafkaUser.ADMIN))
    topics = admin.list_topics(timeout=SECONDS_MAX).topics
    every = (None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    rights = admin.describe_acls(AclBindingFilter(ResourceType.ANY, *every)).result(SECONDS_MAX)
    return {
        "topics": {name: len(topic.partitions) for name, topic in sorted(topics.items())},
        "rights": sorted(
            f"{one.principal} {one.operation.name} {one.restype.name} "
            f"{one.resource_pattern_type.name} {one.name}"
            for one in rights
        ),
    }


def _records(settings: Settings) -> list[str]:
    """Of each kind of record in the change topic, its keys down to the second level."""
    reader = Consumer(
        {
            **client(settings, KafkaUser.READER),
            "group.id": "lockstep",
            "enable.partition.eof": True,
        }
    )
    [topic] = [
        name for name in reader.list_topics(timeout=SECONDS_MAX).topics if name.endswith(".changes")
    ]
    reader.assign([TopicPartition(topic, 0, 0)])
    kinds = set()
    while (message := reader.poll(SECONDS_MAX)) is not None and message.error() is None:
        if message.value() is not None:  # a tombstone follows a delete
            kinds.add(_kind(json.loads(message.value())))
    reader.close()
    assert message.error().code() == KafkaError._PARTITION_EOF
    return sorted(kinds - {None})


def _kind(record: dict) -> str | None:
    """None for a notification of progress: how many come differs from run to run."""
    if record.get("type", "STARTED") not in ("STARTED", "COMPLETED"):
        return None
    named = record.get("source", {}).get("table") or record.get("message", {}).get("prefix")
    kind = record.get("op") or record.get("status") or record.get("type")
    keys = (
        f"{key}({' '.join(sorted(value))})" if isinstance(value, dict) else key
        for key, value in sorted(record.items())
    )
    return f"{kind} {named or ''}: {' '.join(keys)}"


def _postgres(settings: Settings) -> dict[str, object]:
    with psycopg.connect(**settings.connection(Role.ADMIN)) as admin:
        return {
            "roles": [list(row) for row in admin.execute(ROLES)],
            "publications": [list(row) for row in admin.execute(PUBLICATIONS)],
            "slots": [list(row) for row in admin.execute(SLOTS)],
            "replica identities": [list(row) for row in admin.execute(IDENTITIES)],
        }
