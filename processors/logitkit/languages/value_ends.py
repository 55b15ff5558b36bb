r"""The texts that may end a value between tags: one marker, after more or less white space.

In the format of Qwen-Coder, a value ends with `\n</parameter>`. Models also write `</parameter>` directly after it. If both are
allowed, `a\n</parameter>` could be the value `a` with the long end, or `a` and a line feed with the short one. The long end wins:
as much white space belongs to the end as one of the ends has. So a value that ends with a line feed has the long end only, and
each text has one reading, which does not depend on the schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Repeat
from logitkit.vocabulary.marker import encoded

__all__ = ["ValueEnds"]


@dataclass(frozen=True)
class ValueEnds:
    r"""The one or two ends of values.

    Args:
        texts: The ends; the first one is what is written. They have the same marker after different white space.

    Example:
        >>> ends = ValueEnds(("\n</p>", "</p>"))
        >>> ends.marker, ends.stop("a\n</p>", 0, 2), ends.stop("a</p>", 0, 1)
        ('</p>', 1, 1)
    """

    texts: tuple[str, ...]

    @classmethod
    def of(cls, end: str, also: str | None) -> ValueEnds:
        """Return one or two ends."""
        return cls((end,) if also is None else (end, also))

    @cached_property
    def marker(self) -> str:
        """The text that does not occur in raw text: each end without the white space around it."""
        return self.texts[0].strip()

    @cached_property
    def longest(self) -> str:
        """The end with the most white space before the marker, which may follow any text."""
        return max(self.texts, key=lambda end: len(self._space(end)))

    def check(self, argument: str) -> None:
        """Refuse ends with which it would not be clear where a value stops.

        Args:
            argument: The name of the argument with the first end; that with the second one is `{argument}_also`.

        Raises:
            ConfigurationError: An end is not allowed.
        """
        for name, end in zip((argument, also := f"{argument}_also"), self.texts, strict=False):
            if not isinstance(end, str):
                allowed = "None and str" if name == also else "str"
                raise ConfigurationError(f"{name} is {end!r} of type {type(end).__name__}; allowed is {allowed}")
            encoded(name, end)
            marker = end.strip()
            if not marker or any((marker[:size] + end).find(marker) < size for size in range(1, len(marker))):
                raise ConfigurationError(
                    f"{name} is {end!r}; allowed is a text whose marker is not empty, and whose end is not its beginning, so "
                    "that it is clear where a value stops"
                )
        for end in self.texts[1:]:
            space = self._space(self.texts[0])
            if end.strip() != self.marker or self._space(end) == space:
                raise ConfigurationError(
                    f"{also} is {end!r}; allowed are None and a text with the marker of {argument}, {self.marker!r}, after other "
                    f"white space than {space!r}, so that it is clear where a value stops"
                )

    def stop(self, text: str, start: int, marker: int) -> int:
        """Return where a raw text stops that begins at `start`, and whose marker stands at `marker`."""
        spaces = [space for end in self.texts if text.endswith(space := self._space(end), start, marker)]
        return marker - max(map(len, spaces), default=0)

    def after(self, value: str) -> str:
        """Return the end to write after a raw text, so that this text is read again."""
        return self.longest if self._taken and value.endswith(self._taken) else self.texts[0]

    def free(self, texts: TextLanguage) -> TextLanguage:
        """Return those of some texts that any end may follow; only the longest end may follow the others."""
        if not self._taken:
            return texts
        tail = [Characters(CharSet.single(ord(character))) for character in self._taken]
        return texts - TextLanguage.of_tree(concatenate([Repeat(Characters(ANY), 0, None), *tail]), texts.limits)

    @cached_property
    def _taken(self) -> str:
        """The white space that the longest end takes from the end of a text before a shorter end; empty if it takes none."""
        space = self._space(self.longest)
        shorter = [self._space(end) for end in self.texts if end != self.longest]
        return next((space.removesuffix(other) for other in shorter if space.endswith(other)), "")

    def _space(self, end: str) -> str:
        return end[: end.index(self.marker)]
