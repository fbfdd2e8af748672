"""The tokens of Spark SQL, with their places in the text: so much of the language as must be known to leave it alone.

Spark's own lexer would have to be asked through py4j: a running JVM for every check of a text, none at all over Spark
Connect, and classes that change with each release. That the two agree where it matters is tested.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from nearcast.domain.errors import ChannelError


class Kind(enum.Enum):
    WORD = enum.auto()
    QUOTED = enum.auto()  # an identifier in backquotes
    STRING = enum.auto()
    NUMBER = enum.auto()
    SIGN = enum.auto()
    END = enum.auto()


@dataclass(frozen=True, slots=True)
class Token:
    """`text[start:stop]` of the query."""

    kind: Kind
    text: str
    start: int
    stop: int

    def is_word(self, *words: str) -> bool:
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind is Kind.SIGN and self.text in signs

    @property
    def name(self) -> str:
        """Of an identifier, as it is compared: Spark does not mind the case of letters."""
        text = self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text
        return text.lower()


_SPACE = re.compile(r"(?:\s+|--(?:\\\n|[^\r\n])*)+")
_TOKEN = re.compile(
    r"""
      (?P<STRING> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*"
                | (?P<tag>\$\w*\$).*?(?P=tag) )
    | (?P<QUOTED> `(?:[^`]|``)*` )
    | (?P<NUMBER> (?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?!\w) )
    | (?P<WORD>   \w+ )
    | (?P<SIGN>   /\*\+ | \*/ | :: | \|\| | \|> | <=> | <> | != | <= | >= | == | => | -> | << | >>>? | [^'"`\s] )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[Token]:
    """Without comments, hints apart, and with one END. Raises ChannelError for what is not closed."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if skipped := _SPACE.match(text, at):
            at = skipped.end()
        elif text.startswith("/*", at) and not text.startswith("/*+", at):
            at = _after_comment(text, at)
        else:
            match = _TOKEN.match(text, at)
            if match is None:
                raise ChannelError(f"{place(text, at)}: a {text[at]} that is not closed")
            kind = "STRING" if match.lastgroup == "tag" else str(match.lastgroup)
            found.append(Token(Kind[kind], match[0], at, match.end()))
            at = match.end()
    return [*found, Token(Kind.END, "", len(text), len(text))]


def place(text: str, at: int) -> str:
    """For people: lines and columns begin with 1."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


def partners(text: str, found: list[Token]) -> dict[int, int]:
    """For every opening parenthesis the closing one, and the other way round. Raises ChannelError."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(found):
        if token.is_sign("("):
            opened.append(index)
        elif token.is_sign(")"):
            if not opened:
                raise ChannelError(f"{place(text, token.start)}: a ) that closes nothing")
            other = opened.pop()
            pairs[other], pairs[index] = index, other
    if opened:
        raise ChannelError(f"{place(text, found[opened[-1]].start)}: a ( that is not closed")
    return pairs


def _after_comment(text: str, start: int) -> int:
    """Comments nest."""
    depth, at = 0, start
    while True:
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        elif at >= len(text):
            raise ChannelError(f"{place(text, start)}: a comment that is not closed")
        else:
            at += 1
