"""Verdicts and differences for people: signs, both sides' values, what explains them. Pure."""

import json
from collections.abc import Iterator

from lockstep.ledger.entries import Difference
from lockstep.model.verdict import DifferenceClass, Verdict

SIGNS = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.WAITING: "…",
    Verdict.NOT_COVERED: "−",  # noqa: RUF001 - a minus sign
}
_COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red"}


def coloured(verdict: Verdict, text: str) -> str:
    """The text in a terminal's colour for the verdict, as rich's markup."""
    return f"[{_COLOURS.get(verdict, 'yellow')}]{text}[/]"


def explanation(one: Difference) -> str:
    """The evidence in a sentence or two."""
    evidence = json.loads(one.evidence)
    change, written = evidence.get("change"), evidence.get("written")
    match one.kind:
        case DifferenceClass.DIMENSION_DRIFT:
            text = "; ".join(_drift(each) for each in evidence["explained_by"])
        case DifferenceClass.CHANGED_AFTER_CUT:
            text = f"{evidence['what']} by {_transaction(change)}, which the cut does not see"
        case DifferenceClass.DUPLICATE_IN_STREAM:
            text = f"{evidence['repeated_changes'] + 1} changes by {_transaction(change)}"
        case DifferenceClass.MISSING_IN_STREAM:
            text = f"written by {_transaction(written)}"
            if written is None:
                text = "the source's history has no such row at the cut"
            text = f"{text}; {evidence.get('topic', '')}".rstrip("; ")
            if change is not None:
                text += f"; the stream's last change is {change['op']} by {_transaction(change)}"
        case DifferenceClass.MISSING_IN_BATCH:
            text = f"changed by {_transaction(change)}, which the cut sees"
        case DifferenceClass.LOOKUP_RACE:
            text = "; ".join([_race(evidence), *map(_drift, evidence.get("explained_by", ()))])
        case _:
            text = "; ".join(_mismatch(evidence))
    return text


def both_sides(one: Difference) -> str:
    """The differing columns, batch before stream; the whole row where one side lacks it."""
    if one.batch is None or one.stream is None:
        return _listed(one.batch or one.stream or "{}")
    batch, stream = json.loads(one.batch), json.loads(one.stream)
    names = json.loads(one.differing_columns)
    return "\n".join(f"{n}: {plain(batch[n])} | {plain(stream[n])}" for n in names)


def _listed(text: str) -> str:
    return ", ".join(plain(value) for value in json.loads(text).values())


def plain(value: object) -> str:
    """A value of a row; of a list its items, of a struct the values of its fields."""
    if isinstance(value, list):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, dict):
        return " ".join(map(plain, value.values()))
    return str(value)


def _race(evidence: dict) -> str:
    """What a raced look-up saw of the row: evidence of earlier versions does not say it."""
    change = evidence["change"]
    text = f"looked up after {_transaction(change)}, and marked as raced"
    if "seen" not in evidence:
        return text
    seen = evidence["seen"]
    if seen is None:
        return f"{text}: not yet visible then"
    if seen["tx_id"] == change["tx_id"]:
        return text
    done = {"c": "made", "u": "changed", "d": "cancelled"}[seen["op"]]
    return f"{text}, as {_transaction(seen)} had {done} it"


def _mismatch(evidence: dict) -> Iterator[str]:
    """What each side is of; and what it is to have, where the comparison kept that."""
    text = f"the stream has it as of {_transaction(evidence['change'])}"
    if not evidence["is_same_transaction"]:
        text += f", the batch as of {_transaction(evidence['written'])}"
    yield text
    if "batch_rows" in evidence:
        yield f"the hourly table has this key {evidence['batch_rows']:,} times"
    if "looked_up" in evidence:
        yield f"marked as raced, and looked up {evidence['looked_up']}"
    for name, sides in evidence.get("by_query", {}).items():
        at_cut, then = (
            plain(sides[side]) if side in sides else "no single row" for side in ("batch", "stream")
        )
        yield f"{name}: the query gives {at_cut} at the cut | {then} for the stream"


def _drift(change: dict) -> str:
    what = f"{change['table']} {change['id']}: {change['column']}"
    return f"{what} {change['from']} → {change['to']} by {_transaction(change)}"


def _transaction(change: dict | None) -> str:
    if change is None or change["tx_id"] is None:
        return "the initial snapshot"
    return f"transaction {change['tx_id']} at {change['committed_at']}"
