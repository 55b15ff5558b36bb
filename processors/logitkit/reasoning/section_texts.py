"""The texts of a section of reasoning: its markers, the message before a forced one, where a line ends, and pauses.

All texts are looked for at once, in any tokenization. `SectionTexts` is what an automaton of sections depends on, besides the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logitkit.errors import ConfigurationError
from logitkit.parameters.forms import elements
from logitkit.reasoning.section_marker import section_marker
from logitkit.vocabulary.marker import Marker, encoded, shown, token_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["GRACE_AT", "Pause", "SectionTexts", "grace_texts"]

# The ends of lines and of sentences, in several scripts.
GRACE_AT = ("\n", ".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f", "\u0964", "\u061f")

# The maximum number of bytes of all texts of a section. A message is a sentence or two, and a marker has ten to twenty bytes.
LONGEST_TEXTS = 1024

# The markers at which a pause begins and ends.
Pause = tuple[bytes | int, bytes | int]


@dataclass(frozen=True)
class SectionTexts:
    """The texts of sections.

    Args:
        start: Opens a section. None: a section is open from the beginning, and no other follows.
        ends: Close it. The first one is forced.
        message: The text that is forced before it.
        grace_at: The texts at whose ends a section may be closed.
        pauses: The markers of the parts of a section in which its end is not forced.
        holds: Whether there are states in which no marker may close the section.
        whole_characters: Whether a character that has begun is completed before anything is forced.

    Raises:
        ConfigurationError: The texts are too long together, or one contains another where this cannot be.
    """

    start: bytes | int | None
    ends: tuple[bytes | int, ...]
    message: str = ""
    grace_at: tuple[str, ...] = ()
    pauses: tuple[Pause, ...] = ()
    holds: bool = False
    whole_characters: bool = False

    def __post_init__(self) -> None:
        texts: list[bytes | int | str | None] = [self.start, *self.ends, self.message, *self.grace_at]
        texts += [marker for pause in self.pauses for marker in pause]
        total = sum(len(t) if isinstance(t, bytes) else len(t.encode()) for t in texts if isinstance(t, str | bytes))
        if total > LONGEST_TEXTS:
            raise ConfigurationError(
                f"the texts of the thinking budget have {total} bytes together; allowed are up to {LONGEST_TEXTS}"
            )

    @classmethod
    def given(
        cls,
        end: object,
        start: Marker | None,
        message: str | None,
        grace_at: Sequence[str],
        pause: object,
        holds: bool,
        vocabulary: Vocabulary,
    ) -> SectionTexts:
        """Return the texts for the arguments of a processor.

        Args:
            end: One marker or several.
            start: One marker, or None.
            message: The message, or None.
            grace_at: The texts at whose ends a grace ends; none if there is no grace.
            pause: Pairs of markers.
            holds: Whether there is a minimum of tokens.
            vocabulary: The vocabulary.

        Raises:
            ConfigurationError: One of them is not allowed.
        """
        ends = _ends(end, vocabulary)
        opening = None if start is None else section_marker("start", start, vocabulary)
        _check_message(message, vocabulary)
        pauses = _pauses(pause, ends, vocabulary)
        whole = bool(grace_at) or message is not None
        return cls(opening, ends, message or "", tuple(grace_at), pauses, holds, whole)

    @property
    def is_plain(self) -> bool:
        """Whether a section has one end marker, and nothing else."""
        return self == SectionTexts(self.start, self.ends[:1])


def _ends(given: object, vocabulary: Vocabulary) -> tuple[bytes | int, ...]:
    """Return the end markers of a section: one or several.

    Raises:
        ConfigurationError: There is none, one is not allowed, or two are equal.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        return (section_marker("end", given, vocabulary),)  # type: ignore[arg-type]
    listed = elements("end", given, "markers")
    if not listed:
        raise ConfigurationError("end is an empty list; give at least one marker")
    found = tuple(section_marker(f"end[{i}]", marker, vocabulary) for i, marker in enumerate(listed))
    for i, marker in enumerate(found):
        if marker in found[:i]:
            raise ConfigurationError(f"end[{i}] is {_named(marker)}, which end has already; leave it out")
    return found


def _check_message(given: object, vocabulary: Vocabulary) -> None:
    """Check a message; None for none.

    Raises:
        ConfigurationError: It is not a str, is empty, or names a special token.
    """
    if given is None:
        return
    message = _text("message", given)
    content = message.encode()
    names = vocabulary.special_names.named(content)
    if vocabulary.special_names.token(content) is not None or names.names:
        raise ConfigurationError(
            f"message is {message!r}, which contains the name of a special token; give ordinary text, after which the "
            "marker is forced"
        )


def grace_texts(given: object) -> tuple[str, ...]:
    """Return the texts at whose ends a grace ends.

    Raises:
        ConfigurationError: There are none, or one is not a str or is empty.
    """
    listed = elements("grace_at", given, "texts")
    if not listed:
        raise ConfigurationError('grace_at is an empty list; give at least one text, such as "\\n"')
    return tuple(dict.fromkeys(_text(f"grace_at[{i}]", text) for i, text in enumerate(listed)))


def _pauses(given: object, ends: tuple[bytes | int, ...], vocabulary: Vocabulary) -> tuple[Pause, ...]:
    """Return the markers of pauses.

    Raises:
        ConfigurationError: An item is not a pair of markers, two pauses begin with the same marker, or one of their markers is an
            end marker of the section.
    """
    found: list[Pause] = []
    for i, pair in enumerate(elements("pause", given, "pairs of markers")):
        name = f"pause[{i}]"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigurationError(f"{name} is {pair!r}; give a pair of markers, (begin, end)")
        markers = [_pause_marker(f"{name}[{j}]", marker, ends, vocabulary) for j, marker in enumerate(pair)]
        if any(markers[0] == begin for begin, _ in found):
            raise ConfigurationError(
                f"{name} begins with {_named(markers[0])}, as another pause does; give one of them"
            )
        found.append((markers[0], markers[1]))
    return tuple(found)


def _pause_marker(name: str, given: Marker, ends: tuple[bytes | int, ...], vocabulary: Vocabulary) -> bytes | int:
    marker = section_marker(name, given, vocabulary)
    token = token_of(marker, vocabulary)
    if marker in ends or (token is not None and token in (token_of(end, vocabulary) for end in ends)):
        raise ConfigurationError(f"{name} is {_named(marker)}, which ends the section; give another marker")
    return marker


def _text(name: str, given: object) -> str:
    if not isinstance(given, str) or not given:
        kind = "" if isinstance(given, str) else f" of type {type(given).__name__}"
        raise ConfigurationError(f"{name} is {given!r}{kind}; allowed is a str with at least one character")
    encoded(name, given)
    return given


def _named(marker: bytes | int) -> str:
    return f"the token id {marker}" if isinstance(marker, int) else shown(marker)
