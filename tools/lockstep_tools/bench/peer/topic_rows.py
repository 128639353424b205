"""The outbox's rows as the change topic has them."""

import json

from lockstep.settings import Settings
from lockstep.sources import change_topic
from pizzeria.names import OUTBOX

from lockstep_tools.bench.peer.rows import Committed

_MARK = OUTBOX.encode()
"""In each record of the outbox: others are left out before they are parsed."""


def topic_rows(settings: Settings) -> Committed:
    """All that are in the topic now, in its order."""
    end = change_topic.end_offset(settings)
    values = (
        value
        for stretch in change_topic.read_again(settings, 0, end)
        for _, value in stretch
        if value is not None and _MARK in value
    )
    return [found for value in values if (found := committed(value)) is not None]


def committed(value: bytes) -> tuple[int, int] | None:
    """Order and commit (source.ts_us) of an inserted row of the outbox; None of other records."""
    record = json.loads(value)
    is_row = record.get("op") in ("c", "r") and record["source"]["table"] == OUTBOX
    return (record["after"]["order_id"], record["source"]["ts_us"]) if is_row else None
