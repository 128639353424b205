"""One value of a key as canonical text: a token of JSON, the same for values that are equal.

Each function takes a value as types.py converts it, not null. Within one type two values have one
token if and only if PostgreSQL holds them for equal. Which type has which function is never here.
"""

import base64
import json
from datetime import date, datetime
from decimal import Decimal


def number(value: int) -> str:
    return str(value)


def boolean(value: bool) -> str:
    return "true" if value else "false"


def decimal(value: Decimal) -> str:
    """Without trailing zeros, exponent or the sign of zero: 1.0 and 1.00 are equal."""
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def padded_text(value: str) -> str:
    """Of char(n), whose trailing blanks do not count (manual, "Character Types")."""
    return text(value.rstrip(" "))


def uuid(value: str) -> str:
    return text(value.lower())


def binary(value: bytes) -> str:
    return text(base64.b64encode(value).decode())


def day(value: date) -> str:
    return text(value.isoformat())


def instant(value: datetime) -> str:
    """In UTC with microseconds, whatever the value's own offset."""
    in_utc = value if not value.utcoffset() else value - value.utcoffset()
    return text(f"{in_utc.replace(tzinfo=None).isoformat(timespec='microseconds')}Z")
