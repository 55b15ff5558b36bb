"""Special tokens in texts: find the token that a text names, and the names that a text contains."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import NamedTuple, TypeAlias

from logitkit.errors import ConfigurationError
from logitkit.vocabulary.text_with_names import Name, TextWithNames

__all__ = ["SpecialNames", "UnknownSpecialTokenWarning"]

# Unknown names are recognised by bars inside angle brackets, ASCII or full-width.
UNKNOWN = re.compile(rb"<(\||\xef\xbd\x9c).*(\||\xef\xbd\x9c)>", re.DOTALL)

# A vocabulary warns about each unknown name once, and about this many at most: requests to a server must not fill a log.
MOST_WARNINGS = 64

# A text with more names in it, each of which may be written in two ways, is refused.
MOST_NAMES = 8

# Makes texts equal that differ only in case.
Fold: TypeAlias = Callable[[str], str]

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
        # If the token has its name as text, a longer text that contains the name is spelled with that token, like any other.
        hidden = [name for name, token in special.items() if tokens[token] is None]
        self._hidden = frozenset(special[name] for name in hidden)
        self._parts = _Parts.of({name.encode(): name for name in hidden})
        self._hidden_names = hidden
        self._folded: dict[Fold, tuple[dict[str, list[int]], _Parts]] = {}
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

    def tokens(self, text: str | bytes, fold: Fold | None = None) -> list[int]:
        """Return the special tokens that a text names: at most one, or any number if case is ignored."""
        if fold is not None and isinstance(text, str):
            return self._without_case(fold)[0].get(fold(text), [])
        token = self.token(text)
        return [] if token is None else [token]

    def tokens_in(self, text: str | bytes, fold: Fold | None = None) -> list[int]:
        """Return those of `tokens` that have no text: the others are spelled with their bytes, like ordinary tokens."""
        return [token for token in self.tokens(text, fold) if token in self._hidden]

    def named(self, text: str | bytes, fold: Fold | None = None) -> TextWithNames:
        """Return a text with the names in it whose tokens have no text.

        Args:
            text: The text; a str must be valid UTF-8.
            fold: Makes texts equal that differ only in case, and keeps their length; None: case counts. With it, places in a str
                count its characters, and otherwise bytes.
        """
        ignores_case = fold is not None and isinstance(text, str)
        content = text if ignores_case or isinstance(text, bytes) else text.encode()
        if self.tokens(text, fold):
            tokens = tuple(self.tokens_in(text, fold))
            return TextWithNames(content, (Name(0, len(content), tokens),) if tokens else ())
        return TextWithNames(content, tuple(self._names_in(content, fold)))

    def _names_in(self, content: str | bytes, fold: Fold | None) -> Iterator[Name]:
        if isinstance(content, bytes):
            for begin, end, name in self._parts.all_in(content):
                yield Name(begin, end, (self._special[name],))
        elif fold is not None:
            # Where each character begins in UTF-8.
            text = fold(content)
            place = {at: number for number, at in enumerate(accumulate((len(c.encode()) for c in text), initial=0))}
            for begin, end, name in self._without_case(fold)[1].all_in(text.encode()):
                yield Name(place[begin], place[end], tuple(self.tokens_in(name, fold)))

    def _without_case(self, fold: Fold) -> tuple[dict[str, list[int]], _Parts]:
        """Return the tokens by folded name, and the folded names without text."""
        if fold not in self._folded:
            tokens: dict[str, list[int]] = {}
            for name, token in self._special.items():
                tokens.setdefault(fold(name), []).append(token)
            self._folded[fold] = tokens, _Parts.of({fold(name).encode(): name for name in self._hidden_names})
        return self._folded[fold]

    def check(self, name: str, text: str | bytes, fold: Fold | None = None) -> None:
        """Check how many names a marker, stop or ban contains, and warn about an unknown one.

        Args:
            name: The argument's name, for the error.
            text: Its text; a str must be valid UTF-8.
            fold: See `named`.

        Raises:
            ConfigurationError: The text contains too many names of special tokens.
        """
        if self.tokens(text, fold):
            return
        content = text if isinstance(text, bytes) or fold is not None else text.encode()
        count = sum(1 for _ in islice(self._names_in(content, fold), MOST_NAMES + 1))
        if count > MOST_NAMES:
            raise ConfigurationError(
                f"{name} is {_short.repr(text)}, which contains more than {MOST_NAMES} names of special tokens; allowed are up "
                f"to {MOST_NAMES}, since each may be the token or be spelled: give a shorter text"
            )
        if not count:
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

    def all_in(self, text: bytes) -> Iterator[tuple[int, int, str]]:
        """Return where names begin and end in a text, and the names; the longest of those that begin in one place."""
        after = 0
        for place in self.first_byte.finditer(text):
            begin = place.start()
            if begin < after:
                continue
            for length in self.lengths:
                spelled = text[begin : begin + length]
                if spelled in self.names:
                    after = begin + len(spelled)
                    yield begin, after, self.names[spelled]
                    break
