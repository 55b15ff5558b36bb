"""The language of free text: anything, up to a marker or without end.

How many tokens a text takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.characters.text_search import Search
from logitkit.errors import ConfigurationError
from logitkit.languages.language import Language
from logitkit.languages.language_symbols import Symbols
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.texts import SpecialToken, markers_of
from logitkit.parameters.scalars import as_integer
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Machine, Node
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["AnyText", "TooFewTokens", "any_text", "fewest_tokens", "ways_to_write"]


def fewest_tokens(vocabulary: Vocabulary, text: bytes) -> int | None:
    """Return the fewest tokens that contain a text together; None: no tokens do.

    The first token may begin before the text, and the last one may end after it.

    Args:
        vocabulary: The tokens.
        text: The text, at least one byte.

    Example:
        >>> vocabulary = Vocabulary([b"a", b"b", b"xa", b"bc", b"cd", None], eos_ids=[5])
        >>> fewest_tokens(vocabulary, b"abc"), fewest_tokens(vocabulary, b"acb")
        (2, None)
    """
    trie, size = vocabulary.trie, len(text)
    # The fewest tokens that end within the text, by the number of its bytes before that end.
    fewest = {0: 0}
    # The places where a token that begins before the text may end, by the byte before them.
    ends_in: dict[int, list[int]] = {}
    for end in range(1, min(size, trie.depth)):
        ends_in.setdefault(text[end - 1], []).append(end)
    for token in filter(None, vocabulary.tokens):
        if len(token) >= size and text in token:
            return 1
        fewest.update((end, 1) for end in ends_in.get(token[-1], ()) if token.endswith(text[:end]))
    for at in range(size):
        if at not in fewest:
            continue
        count = fewest[at] + 1
        for end, node in enumerate(trie.path(text[at : at + trie.depth]), at + 1):
            # A token that begins with the whole rest of the text may end after it.
            if trie.own[node] or end == size:
                fewest[end] = min(count, fewest.get(end, count))
    return fewest.get(size)


# Steps of the budget. To look at one token for a marker takes about a microsecond, and to find the tokens at one byte of it five.
STEPS_A_TOKEN, STEPS_A_BYTE = 8, 40


class TooFewTokens(ConfigurationError):
    """Free text has a limit of fewer tokens than its marker takes.

    Args:
        marker: The marker that takes the fewest tokens.
        needed: The lowest limit that leaves room for it: the number of its tokens without the last one.
        most: The limit: the maximum number of tokens before the last one of the marker.
    """

    def __init__(self, marker: str, needed: int, most: int) -> None:
        self.marker, self.needed, self.most = marker, needed, most
        super().__init__(marker, needed, most)

    def _message(self) -> str:
        return (
            f"max_tokens is {self.most}, but the marker {self.marker!r} takes at least {self.needed + 1} tokens, of which all "
            f"but the last count; give at least {self.needed}, or, if the model has a token for the marker, a vocabulary with "
            "this special token"
        )


@dataclass(frozen=True)
class AnyText(Language):
    """Free text; see `any_text`."""

    until: tuple[str | SpecialToken, ...] = ()
    exclude: tuple[str | SpecialToken, ...] = ()
    max_tokens: int | None = None

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The special tokens that end it, or do not occur in it."""
        return (marker.token for marker in (*self.until, *self.exclude) if isinstance(marker, SpecialToken))

    @property
    def texts(self) -> Iterator[str]:
        """The texts that end it, or do not occur in it."""
        return (marker for marker in (*self.until, *self.exclude) if isinstance(marker, str))

    def problem(self, writer: LanguageWriter) -> TooFewTokens | None:
        """Return an error if each of its markers takes more tokens than its limit allows."""
        texts = [marker for marker in self.until if isinstance(marker, str)]
        if self.max_tokens is None or len(texts) < len(self.until):
            return None
        # No marker takes more tokens than it has bytes.
        if any(len(text.encode()) <= self.max_tokens + 1 for text in texts):
            return None
        ways = [(text, way) for text in texts for way in writer.symbols(text)]
        counts = [(count, text) for text, way in ways if (count := _fewest(way, writer)) is not None]
        fewest, marker = min(counts, default=(0, ""))
        return TooFewTokens(marker, fewest - 1, self.max_tokens) if fewest > self.max_tokens + 1 else None

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        ways = [ways_to_write(marker, writer) for marker in (*self.until, *self.exclude)]
        search = Search.of(ways, writer.tokens, writer.limits)
        states = len(search.moves)
        end = len(self.until)
        more: list[tuple[CharSet, int | None]] = []
        if self.max_tokens is not None:
            count, ends = writer.token_limit(self.max_tokens)
            more = [(count, None), *([] if end else [(ends, states)])]
        rows = [
            (
                *row,
                *((charset, states) for charset, which in found if max(which) < end),
                *((charset, state if target is None else target) for charset, target in more),
            )
            for state, (row, found) in enumerate(zip(search.moves, search.found, strict=True))
        ]
        if not more:
            return Machine((*rows, ()), (*(not end,) * states, True))
        # The beginning is a state of its own, which differs from those that follow (`nested_grammars.token_limits`).
        rows = [tuple((charset, 1 + target) for charset, target in row) for row in (rows[0], *rows)]
        return Machine((*rows, ()), (*(False,) * (1 + states), True))


def any_text(
    until: str | SpecialToken | Iterable[str | SpecialToken] | None = None,
    exclude: str | SpecialToken | Iterable[str | SpecialToken] = (),
    max_tokens: int | None = None,
) -> AnyText:
    """Return the language of free text, which may contain special tokens.

    Args:
        until: One or several markers, each a text or `special(...)`. The text ends with the first occurrence of one. None:
            there is no marker, and the text may end anywhere.
        exclude: Texts and special tokens that must not occur in it.
        max_tokens: The maximum number of tokens. With `until`, these are the tokens before the last token of the marker, which is
            forced in time. None: there is no limit.

    Raises:
        ConfigurationError: A marker is neither a text nor a special token, or is empty; or `max_tokens` is not a positive
            integer.

    Example:
        >>> any_text(until="</think>")
        AnyText(until=('</think>',), exclude=(), max_tokens=None)
    """
    most = None if max_tokens is None else as_integer(max_tokens)
    if max_tokens is not None and (most is None or most < 1):
        raise ConfigurationError(f"max_tokens is {max_tokens!r}; allowed are None and integers from 1")
    return AnyText(markers_of("until", until), markers_of("exclude", exclude), most)


def ways_to_write(marker: str | SpecialToken, writer: LanguageWriter) -> list[Symbols]:
    """Return all ways to write a marker: a text, or a special token itself."""
    if isinstance(marker, str):
        return writer.symbols(marker)
    return writer.symbols(marker.token, only_token=True)


def _fewest(way: Symbols, writer: LanguageWriter) -> int | None:
    """Return the fewest tokens that hold one way to write a marker; None: no tokens do."""
    total = 0
    for is_named, group in groupby(way, Symbol.is_special_token):
        if is_named:
            total += len([*group])
            continue
        text = "".join(map(chr, group)).encode()
        writer.limits.spend(STEPS_A_TOKEN * writer.vocabulary.size + STEPS_A_BYTE * len(text))
        count = fewest_tokens(writer.vocabulary, text)
        if count is None:
            return None
        total += count
    return total
