"""The line of each key and list element of a TOML text, for errors that point at it.

Values are tomllib's, which keeps no lines. This module reads no file and judges nothing.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

KeyPath = tuple[str | int, ...]
"""Keys from the top of a file to a value; an int is the index in a list."""

_TOKEN = re.compile(
    r"""
      (?P<skip>   [ \t\r]+ | \#[^\n]* )
    | (?P<newline> \n )
    | (?P<text>   \"{3} (?:\\.|[^\\])*? \"{3,5}   # up to two quotes belong to the text
                | '{3} .*? '{3,5}
                | "(?:\\.|[^"\\\n])*"
                | '[^'\n]*' )
    | (?P<mark>   [\[\]{},=.] )
    | (?P<bare>   [^\s\[\]{},=.\#"']+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_OF_VALUE = {",", "]", "}", "\n", ""}


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line, from 1, on which each key or list element of a text begins.

    A table has the line of its header, or of the first key that makes it; () is line 1.
    The text is one that tomllib reads: what another gives is not defined.
    """
    return _Scan(text).lines


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "skip":
            yield _Token(found.lastgroup, found.group(), line)
        line += found.group().count("\n")


class _Scan:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {(): 1}
        self._tokens = list(_tokens(text))
        self._next = 0
        self._sizes: dict[KeyPath, int] = {}  # of each array of tables, so far
        table: KeyPath = ()
        while self._peek().kind != "end":
            if self._peek().text == "[":
                table = self._header()
            elif self._peek().kind == "newline":
                self._take()
            else:
                self._pair(table)

    def _peek(self) -> _Token:
        at_end = self._next >= len(self._tokens)
        return _Token("end", "", 0) if at_end else self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token

    def _takes(self, text: str) -> bool:
        """Take the next token if it is this one."""
        is_next = self._peek().kind != "text" and self._peek().text == text
        self._next += is_next
        return is_next

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`; returns the table that its lines belong to."""
        line = self._take().line
        is_array = self._takes("[")
        path: KeyPath = ()
        for key in self._keys():
            path = (*self._newest(path), key)
            self.lines.setdefault(path, line)
        if is_array:
            self._sizes[path] = self._sizes.get(path, 0) + 1
        self._takes("]")
        self._takes("]")
        path = self._newest(path)
        self.lines.setdefault(path, line)
        return path

    def _newest(self, path: KeyPath) -> KeyPath:
        """Of an array of tables its last one, which later headers and keys belong to."""
        return (*path, self._sizes[path] - 1) if path in self._sizes else path

    def _keys(self) -> Iterator[str]:
        """The parts of a dotted key."""
        while True:
            token = self._take()
            yield token.text if token.kind == "bare" else _unquoted(token.text)
            if not self._takes("."):
                return

    def _pair(self, path: KeyPath) -> None:
        line = self._peek().line
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._takes("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._takes("["):
            self._elements(path)
        elif self._takes("{"):
            while not self._takes("}"):
                if not self._takes(",") and not self._takes("\n"):
                    self._pair(path)
        else:
            while self._peek().text not in _ENDS_OF_VALUE:
                self._take()

    def _elements(self, path: KeyPath) -> None:
        index = 0
        while not self._takes("]"):
            if self._takes(",") or self._takes("\n"):
                continue
            self.lines[(*path, index)] = self._peek().line
            self._value((*path, index))
            index += 1


def _unquoted(key: str) -> str:
    """A quoted key's text, with its escapes read as tomllib reads them."""
    [name] = tomllib.loads(f"{key} = 0")
    return name
