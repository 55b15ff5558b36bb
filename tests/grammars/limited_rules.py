"""Rules with `max_tokens` in plain Python: which sequences of tokens a grammar of a few parts allows.

A token writes a rule if at least one of its bytes belongs to the rule's text. At most `most` tokens may write it. A rule ends
where it cannot go on, or where its last token ends. No automaton is involved: all splits of a text are tried.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

__all__ = ["Anywhere", "Fixed", "Inside", "Limited", "Part", "Repeated", "accepted", "grammar_of", "is_accepted"]


@dataclass(frozen=True)
class Fixed:
    """A fixed text."""

    text: str


@dataclass(frozen=True)
class Limited:
    """A rule of a limited number of tokens.

    Args:
        name: Its name.
        pattern: Its texts before the marker.
        begins: The beginnings of these texts.
        most: The largest number of tokens.
        suffix: The marker that ends it, as one character; empty: it has none.
    """

    name: str
    pattern: str
    begins: str
    most: int
    suffix: str = ""


@dataclass(frozen=True)
class Repeated:
    """Parts, once or several times."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Inside:
    """Parts, within any number of brackets, or none."""

    opening: str
    parts: tuple[Part, ...]
    closing: str


@dataclass(frozen=True)
class Anywhere:
    """One of two parts."""

    first: Part
    second: Part


Part = Fixed | Limited | Repeated | Inside | Anywhere


def grammar_of(parts: Sequence[Part]) -> str:
    """Return the grammar in Lark's syntax."""
    rules: dict[str, str] = {}

    def written(part: Part) -> str:
        match part:
            case Fixed(text):
                return f'"{text}"'
            case Limited(name, pattern, _, most, suffix):
                marker = f', suffix="{suffix}"' if suffix else ""
                rules[name] = f"{name}[max_tokens={most}{marker}]: /{pattern}/"
                return name
            case Repeated(inner):
                return f"({' '.join(map(written, inner))})+"
            case Inside(opening, inner, closing):
                name = f"inside{len(rules)}"
                rules[name] = ""
                rules[name] = f'{name}: "{opening}" {name} "{closing}" | {" ".join(map(written, inner))}'
                return name
            case Anywhere(first, second):
                return f"({written(first)} | {written(second)})"

    start = "start: " + " ".join(map(written, parts))
    return "\n".join([start, *rules.values()])


class _Reading:
    """The ways to read one sequence of tokens."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self.text = b"".join(tokens).decode()
        self.token_ends = [*accumulate(map(len, tokens))]
        self.byte = [0, *accumulate(len(c.encode()) for c in self.text)]

    def ends(self, parts: Sequence[Part], begin: int) -> set[int]:
        places = {begin}
        for part in parts:
            places = {end for place in places for end in self.of(part, place)}
        return places

    def of(self, part: Part, begin: int) -> Iterator[int]:
        match part:
            case Fixed(text):
                if self.text.startswith(text, begin):
                    yield begin + len(text)
            case Limited():
                yield from self.limited(part, begin)
            case Repeated(parts):
                todo, seen = [begin], set[int]()
                while todo:
                    fresh = self.ends(parts, todo.pop()) - seen
                    seen |= fresh
                    todo += fresh
                yield from seen
            case Inside(opening, parts, closing):
                yield from self.ends(parts, begin)
                if self.text.startswith(opening, begin):
                    for end in self.of(part, begin + len(opening)):
                        if self.text.startswith(closing, end):
                            yield end + len(closing)
            case Anywhere(first, second):
                yield from self.of(first, begin)
                yield from self.of(second, begin)

    def limited(self, part: Limited, begin: int) -> Iterator[int]:
        for end in range(begin, len(self.text) + 1):
            written = self.text[begin:end]
            # The tokens whose last byte comes after the first byte of the text, up to the one that has its last byte.
            first, last = self.byte[begin], self.byte[end]
            tokens = bisect_left(self.token_ends, last) - bisect_right(self.token_ends, first) + 1 if written else 0
            if tokens > part.most:
                return
            is_cut = tokens == part.most and last in self.token_ends
            if part.suffix:
                before, marker, after = written.partition(part.suffix)
                if after:
                    return
                if re.fullmatch(part.pattern, before) and (marker or is_cut):
                    yield end
            elif re.fullmatch(part.pattern, written):
                goes_on = re.fullmatch(part.begins, self.text[begin : end + 1]) and end < len(self.text)
                if is_cut or not goes_on:
                    yield end


def is_accepted(parts: Sequence[Part], tokens: Sequence[bytes]) -> bool:
    """Whether tokens are a complete text."""
    try:
        reading = _Reading(tokens)
    except UnicodeDecodeError:
        return False
    return len(reading.text) in reading.ends(parts, 0)


def accepted(parts: Sequence[Part], tokens: Sequence[bytes], longest: int) -> set[tuple[int, ...]]:
    """Return all sequences of up to `longest` tokens that are complete texts."""
    found = set()
    for length in range(longest + 1):
        for ids in product(range(len(tokens)), repeat=length):
            if is_accepted(parts, [tokens[i] for i in ids]):
                found.add(ids)
    return found
