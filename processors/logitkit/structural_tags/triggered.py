"""The language of free text in which triggers start tags, where a trigger may be only the first part of what a tag begins with.

With the trigger `<tool` and a tag that begins with `<tool_call>`, the model may also write the special token `<tool_call>`, which
contains the trigger and more. So that token starts the tag as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logitkit.languages.combined import either, sequence
from logitkit.languages.dispatching import Dispatch
from logitkit.languages.free_text import AnyText
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.texts import SpecialToken
from logitkit.patterns.syntax import Node

__all__ = ["Marker", "Start", "TriggeredText"]

Marker = str | SpecialToken


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a tag.

    Args:
        trigger: The text or the token that starts it in free text.
        begin: The text that the tag begins with, which begins with the trigger; or the same token.
        rest: The language after `begin`.
    """

    trigger: Marker
    begin: Marker
    rest: Language


@dataclass(frozen=True)
class TriggeredText(Language):
    """Free text in which triggers start tags.

    Args:
        starts: The tags.
        stop_after_first: Whether the text ends with the first tag.
        exclude: Texts and tokens that never occur in the free text.
    """

    starts: tuple[Start, ...]
    stop_after_first: bool = False
    exclude: tuple[Marker, ...] = ()

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        return tuple(start.rest for start in self.starts)

    @property
    def _markers(self) -> AnyText:
        return AnyText(
            (*(start.trigger for start in self.starts), *(start.begin for start in self.starts)), self.exclude
        )

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The special tokens that start tags, or do not occur in the free text."""
        return self._markers.special_tokens

    @property
    def texts(self) -> Iterator[str]:
        """The texts that start tags, or do not occur in the free text."""
        return self._markers.texts

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        rests: dict[Marker, list[Language]] = {}
        for start in self.starts:
            if isinstance(start.begin, str) and isinstance(start.trigger, str):
                size = len(start.trigger)
                # A special token whose name begins in the trigger and ends after it starts the tag too.
                for end in (size, *(last for first, last in writer.names_in(start.begin) if first < size < last)):
                    rest = sequence(start.begin[end:], start.rest)
                    rests.setdefault(start.begin[:end], []).append(rest)
            else:
                rests.setdefault(start.trigger, []).append(start.rest)
        languages = tuple(either(*some) for some in rests.values())
        return Dispatch(tuple(rests), languages, 0, self.stop_after_first, self.exclude).tree(writer)
