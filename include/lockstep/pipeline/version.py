"""Which version of a pipeline a row is of: a digest of all that decides the row's value.

Rows of two versions are not compared: a proof of one says nothing of the other.
"""

import json
from collections.abc import Collection, Mapping
from hashlib import sha256

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.query.analysis import Query
from lockstep.pipeline.type_table import ValueType

DIGITS = 16
VERSION_OF_BEFORE = "9d49c806047c4dcc"
"""Of the one pipeline that there was when rows, commits and lines began to carry a version: those
that carry none are of this one."""
_EVALUATION = 1
"""Greater as soon as this library gives another result for the same folder."""


def pipeline_version(
    query: Query,
    time: str | None,
    types: Mapping[TableName, Mapping[str, ValueType]],
    children: Collection[TableName],
) -> str:
    """DIGITS of hexadecimal. time: the result's. types: of the columns that are read, by table.

    Comments and white space in the query do not count; nor does what the manifest says of modes,
    schedule and tolerance, which decides no value.
    """
    text = query.names.text
    content = {
        "evaluation": _EVALUATION,
        "query": [text.sql[token.start : token.end + 1] for token in text.tokens],
        "fact": str(query.fact),
        "key": query.key,
        "time": time,
        "columns": {
            str(table): {name: [one.pg, one.time_zone] for name, one in columns.items()}
            for table, columns in types.items()
        },
    }
    if children:
        content["children"] = sorted(map(str, children))
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:DIGITS]
