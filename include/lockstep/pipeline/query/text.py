"""The author's text: its tokens, where the clauses of each SELECT are, and edits of it.

Here are places only, of what the tokenizer finds. What the text means, and what it may hold, is
decided elsewhere, on the tree.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from lockstep.pipeline.errors import Position, QueryRefusedError

_JOIN_WORDS = {"left", "right", "full", "inner", "cross", "outer", "semi", "anti", "natural"}
_SET_OPERATORS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_CLAUSES = {
    TokenType.FROM: "from",
    TokenType.WHERE: "where",
    TokenType.GROUP_BY: "group",
    TokenType.HAVING: "having",
    TokenType.ORDER_BY: "order",
    TokenType.LATERAL: "lateral",
}


@dataclass(frozen=True)
class Clause:
    """kind: select, from, join, lateral, where, group, having or order; tokens [first, last]."""

    kind: str
    first: int
    last: int


@dataclass
class Block:
    """One SELECT of the text: its clauses in their order."""

    clauses: list[Clause] = field(default_factory=list)

    def all_of(self, kind: str) -> list[Clause]:
        return [clause for clause in self.clauses if clause.kind == kind]

    def last_before_group(self) -> int:
        """The last token of what stands before GROUP BY and HAVING: where a WHERE would follow."""
        rows = ("select", "from", "join", "lateral", "where")
        return max(clause.last for clause in self.clauses if clause.kind in rows)


@dataclass(frozen=True)
class Call:
    """A function call: its lower-case name, and the tokens of name and closing parenthesis."""

    name: str
    first: int
    last: int


class SqlText:
    """The text of query.sql and the places in it. Offsets count characters from 0."""

    def __init__(self, sql: str, file: Path) -> None:
        """Raises QueryRefusedError when the text has no tokens of SQL."""
        self.sql, self.file = sql, file
        try:
            self.tokens: Sequence[Token] = Spark().tokenize(sql)
        except SqlglotError as error:
            raise QueryRefusedError(file, Position(1, 1), sql, why=str(error)) from error
        self.closing = dict(_pairs(self.tokens))
        self.blocks: list[Block] = []
        self._owners = self._scan()

    def position(self, offset: int) -> Position:
        before = self.sql[:offset]
        return Position(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)

    def refused(
        self, place: tuple[int, int], why: str, remedy: str = "", *, text: str = ""
    ) -> QueryRefusedError:
        """place: offsets [first, last] of what is shown, unless `text` is."""
        shown = text or self.sql[place[0] : place[1] + 1]
        return QueryRefusedError(self.file, self.position(place[0]), shown, why=why, remedy=remedy)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The offsets [first, last] of the tokens [first, last]."""
        return self.tokens[first].start, self.tokens[last].end

    def clause_span(self, clause: Clause) -> tuple[int, int]:
        return self.span(clause.first, clause.last)

    def block_at(self, offset: int) -> Block | None:
        """The innermost SELECT in whose clauses the offset is."""
        for index, token in enumerate(self.tokens):
            if token.start <= offset <= token.end:
                return self._owners[index]
        return None

    def calls(self) -> Iterator[Call]:
        """Every function call, and what is written like one."""
        for opening, last in self.closing.items():
            name = self.tokens[opening - 1] if opening else None
            if name is not None and name.text and (name.text[0].isalpha() or name.text[0] == "_"):
                yield Call(name.text.lower(), opening - 1, last)

    def overs(self, block: Block) -> Iterator[int]:
        """The opening parenthesis of each OVER ( … ) of a SELECT."""
        for index in range(len(self.tokens)):
            is_over = self.word(index) == "over" and self.word(index + 1) == "("
            if is_over and self._owners[index] is block:
                yield index + 1

    def word(self, index: int) -> str:
        """The lower-case text of a token; empty beyond the last one."""
        return self.tokens[index].text.lower() if 0 <= index < len(self.tokens) else ""

    def _scan(self) -> list[Block | None]:
        """The innermost block of each token. A parenthesis may hold a block of its own."""
        owners: list[Block | None] = []
        open_blocks: list[_Open | None] = [None]
        for index, token in enumerate(self.tokens):
            if token.token_type is TokenType.R_PAREN and len(open_blocks) > 1:
                _close(open_blocks.pop(), index - 1)
            elif token.token_type in _SET_OPERATORS or token.token_type is TokenType.SEMICOLON:
                _close(open_blocks[-1], index - 1)
                open_blocks[-1] = None
            elif token.token_type is TokenType.SELECT:
                open_blocks[-1] = _Open(Block(), "select", index)
                self.blocks.append(open_blocks[-1].block)
            elif (current := open_blocks[-1]) is not None and (kind := self._starts(index)):
                current.begin(kind, index)
            owners.append(next((one.block for one in reversed(open_blocks) if one), None))
            if token.token_type is TokenType.L_PAREN:
                open_blocks.append(None)
        _close(open_blocks[0], len(self.tokens) - 1)
        return owners

    def _starts(self, index: int) -> str | None:
        """The kind of clause that begins with this token of a SELECT."""
        kind = _CLAUSES.get(self.tokens[index].token_type)
        if kind == "from" and self.word(index - 1) == "distinct":
            return None  # IS DISTINCT FROM
        if kind is not None:
            return kind
        if self.word(index - 1) in _JOIN_WORDS:
            return None  # the join began with the word before
        ahead = index
        while self.word(ahead) in _JOIN_WORDS:
            ahead += 1
        return "join" if self.word(ahead) == "join" else None


@dataclass
class _Open:
    """A block whose last clause has not ended yet."""

    block: Block
    kind: str
    first: int

    def begin(self, kind: str, index: int) -> None:
        self.block.clauses.append(Clause(self.kind, self.first, index - 1))
        self.kind, self.first = kind, index


def _close(current: _Open | None, last: int) -> None:
    if current is not None:
        current.block.clauses.append(Clause(current.kind, current.first, last))


def _pairs(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Opening and closing parentheses, by the index of their tokens."""
    opened = []
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(index)
        elif token.token_type is TokenType.R_PAREN and opened:
            yield opened.pop(), index


@dataclass(frozen=True)
class Edit:
    """Replace the text from start up to, not including, end; an insertion has start = end."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class EditedText:
    """A text with edits, and the way back from its offsets to those of the text before."""

    text: str
    original: str
    pieces: tuple[tuple[int, int, int], ...]
    """(offset in `text`, its length, offset in `original`) of what was copied."""

    @classmethod
    def of(cls, original: str, edits: Iterable[Edit]) -> Self:
        """Edits that insert at the same offset keep their order."""
        parts, pieces, done, length = [], [], 0, 0
        for edit in [*sorted(edits, key=lambda one: one.start), Edit(len(original), 0, "")]:
            copied = original[done : edit.start]
            pieces.append((length, len(copied), done))
            parts += [copied, edit.text]
            length += len(copied) + len(edit.text)
            done = edit.end
        return cls("".join(parts), original, tuple(pieces))

    def original_offset(self, offset: int) -> int:
        """Exact for copied text; of inserted text the offset before which it was inserted."""
        source_before = 0
        for start, length, source in self.pieces:
            if offset < start:
                return source_before
            if offset < start + length:
                return source + offset - start
            source_before = source + length
        return min(source_before, max(len(self.original) - 1, 0))
