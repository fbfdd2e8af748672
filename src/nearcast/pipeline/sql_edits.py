"""A text with some places rewritten, which knows where in the first text each of its own places is from."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearcast.pipeline.sql_tokens import place


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`origins`: of each piece, where it begins in `text`, where in `source` it is from, whether it is unchanged."""

    source: str
    text: str
    origins: tuple[tuple[int, int, bool], ...]

    def place(self, at: int) -> str:
        """Line and column in the first text. What was put in is from where it was put in."""
        origin = 0
        for start, source, kept in self.origins:
            if start > at:
                break
            origin = source + (at - start if kept else 0)
        return place(self.source, origin)


@dataclass(slots=True)
class Edits:
    """Replacements of parts that do not overlap, and insertions: at one place in the order in which they were made."""

    made: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, start: int, stop: int, text: str) -> None:
        self.made.append((start, stop, text))

    def insert(self, at: int, text: str) -> None:
        self.made.append((at, at, text))

    def within(self, start: int, stop: int) -> Edits:
        """Those of a part, and no longer here."""
        taken = [each for each in self.made if start <= each[0] and each[1] <= stop]
        self.made = [each for each in self.made if each not in taken]
        return Edits([(one - start, other - start, text) for one, other, text in taken])

    def apply(self, text: str, before: str = "", after: str = "") -> Rewritten:
        pieces: list[str] = [before]
        origins = [(0, 0, False)]
        length, at = len(before), 0

        def put(piece: str, source: int, kept: bool) -> None:
            nonlocal length
            origins.append((length, source, kept))
            pieces.append(piece)
            length += len(piece)

        for start, stop, new in sorted(self.made, key=lambda each: each[:2]):
            put(text[at:start], at, kept=True)
            put(new, start, kept=False)
            at = stop
        put(text[at:], at, kept=True)
        put(after, len(text), kept=False)
        return Rewritten(text, "".join(pieces), tuple(origins))
