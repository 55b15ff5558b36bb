"""Special tokens in texts: find the token that a text names, and refuse texts that merely contain such a name."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from logitkit.errors import ConfigurationError

__all__ = ["SpecialNames", "UnknownSpecialTokenWarning"]

# Unknown names are recognised by bars inside angle brackets, ASCII or full-width.
UNKNOWN = re.compile(rb"<(\||\xef\xbd\x9c).*(\||\xef\xbd\x9c)>", re.DOTALL)

# A vocabulary warns about each unknown name once, and about this many at most: requests to a server must not fill a log.
MOST_WARNINGS = 64

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


class UnknownSpecialTokenWarning(UserWarning):
    """A marker, stop or ban looks like the name of a special token that the vocabulary does not have."""


class SpecialNames:
    """The names of a vocabulary's special tokens, built once as `vocabulary.special_names`.

    Args:
        special: The ids of the special tokens, by name.
        tokens: The bytes of each token id, or None where it has no text.
        eos_ids: The ids that end a sequence.
    """

    def __init__(self, special: Mapping[str, int], tokens: Sequence[bytes | None], eos_ids: Collection[int]) -> None:
        self._ids = {name.encode(): token for name, token in special.items()}
        self._names, self._tokens = {token: name for name, token in special.items()}, tokens
        self._folded: dict[str, list[int]] = {}
        for name, token in special.items():
            self._folded.setdefault(name.casefold(), []).append(token)
        # If the token has its name as text, a longer text that contains the name is spelled with that token, like any other.
        hidden = [name for name, token in special.items() if tokens[token] is None]
        self._hidden = frozenset(special[name] for name in hidden)
        self._parts = _Parts.of({name.encode(): name for name in hidden})
        self._folded_parts = _Parts.of({name.casefold().encode(): name for name in hidden})
        self._special, self._eos_ids = special, frozenset(eos_ids)
        self._warned: set[bytes] = set()

    def token(self, text: str | bytes) -> int | None:
        """Return the special token that a text names, or None."""
        return self._ids.get(text if isinstance(text, bytes) else text.encode())

    def name(self, token: int) -> str:
        """Return the name of a token; "" if it is not a special one."""
        return self._names.get(token, "")

    def text(self, ids: Iterable[int]) -> bytes:
        """Return the text of tokens, with special tokens by their names."""
        return b"".join(self.name(token).encode() or self._tokens[token] or b"" for token in ids)

    def tokens(self, text: str | bytes, ignore_case: bool = False) -> list[int]:
        """Return the special tokens that a text names: at most one, or any number if case is ignored."""
        if ignore_case and isinstance(text, str):
            return self._folded.get(text.casefold(), [])
        token = self.token(text)
        return [] if token is None else [token]

    def letters(self, text: str | bytes, ignore_case: bool = False) -> list[int]:
        """Return those of `tokens` that have no text: the others are spelled with their bytes, like ordinary tokens."""
        return [token for token in self.tokens(text, ignore_case) if token in self._hidden]

    def check(self, name: str, text: str | bytes, ignore_case: bool = False) -> None:
        """Check that a marker, stop or ban is the name of a special token or contains none, and warn about unknown names.

        Args:
            name: The argument's name, for the error.
            text: Its text; a str must be valid UTF-8.
            ignore_case: Whether case is ignored.

        Raises:
            ConfigurationError: The text contains the name of a special token and other text.
        """
        if self.tokens(text, ignore_case):
            return
        folded = ignore_case and isinstance(text, str)
        content = text if isinstance(text, bytes) else (text.casefold() if folded else text).encode()
        inside = (self._folded_parts if folded else self._parts).first_in(content)
        if inside is not None:
            raise ConfigurationError(
                f"{name} is {_short.repr(text)}, which contains the name of a special token and other text; allowed are texts "
                f"without such a name, and the name by itself: give {_short.repr(inside)}, which means the token "
                f"{self._special[inside]}"
            )
        self._warn(name, text)

    def check_ends_remain(self, name: str, named: Collection[int]) -> None:
        """Raise `ConfigurationError` if the texts name every EOS.

        Args:
            name: The argument's name, for the error.
            named: The special tokens that its texts name.
        """
        if self._eos_ids and self._eos_ids.issubset(named):
            ends = ", ".join(_short.repr(n) for n, token in self._special.items() if token in self._eos_ids)
            raise ConfigurationError(
                f"{name} has {ends}, which names every EOS of the vocabulary, so no text could end; leave it out: "
                "EOS ends the text in any case"
            )

    def _warn(self, name: str, text: str | bytes) -> None:
        content = text if isinstance(text, bytes) else text.encode()
        if UNKNOWN.fullmatch(content) is None or content in self._warned or len(self._warned) >= MOST_WARNINGS:
            return
        self._warned.add(content)
        warnings.warn(
            f"{name} is {_short.repr(text)}, which looks like a special token, but the vocabulary has none of that name; it is "
            "treated as ordinary text, which a model rarely writes. Check the spelling, or name the token in "
            "Vocabulary(special=...)",
            UnknownSpecialTokenWarning,
            stacklevel=2,
        )


class _Parts(NamedTuple):
    """Names to search for in texts. The cost does not depend on the number of names: one search if none occurs."""

    names: dict[bytes, str]
    first_byte: re.Pattern[bytes]
    lengths: list[int]

    @classmethod
    def of(cls, names: dict[bytes, str]) -> _Parts:
        """Index names by their bytes."""
        # Without names, the pattern never matches.
        first_byte = re.compile(b"|".join(sorted({re.escape(n[:1]) for n in names})) or b"(?!)")
        return cls(names, first_byte, sorted({len(n) for n in names}, reverse=True))

    def first_in(self, text: bytes) -> str | None:
        """Return the name that occurs first in a text, the longest if several begin there, or None."""
        for place in self.first_byte.finditer(text):
            begin = place.start()
            for length in self.lengths:
                found = self.names.get(text[begin : begin + length])
                if found is not None:
                    return found
        return None
