"""Name a set of characters in words: `digit or '-'`."""

from __future__ import annotations

from collections.abc import Sequence

from logitkit.patterns.charset import ANY, MAX_CODE_POINT, SURROGATES, CharSet
from logitkit.patterns.unicode_classes import perl_class

__all__ = ["expected_words"]

ASCII = CharSet(((0, 0x7F),))
CONTROLS = CharSet(((0, 0x1F),))
NAMES = {" ": "space", "\n": "newline", "\t": "tab", "\r": "carriage return"}
# Names of sets of characters; a name is used if it stands for all its characters.
SETS = {
    "letter": CharSet.of([(0x41, 0x5A), (0x61, 0x7A)]),
    "digit": CharSet.of([(0x30, 0x39)]),
    "lower-case letter": CharSet.of([(0x61, 0x7A)]),
    "upper-case letter": CharSet.of([(0x41, 0x5A)]),
}
# These are used if few other characters are left.
CLASSES = {"s": "white space", "d": "digit of any script", "w": "letter, digit or '_' of any script"}

BEYOND = "a character beyond ASCII"

# As many single characters are listed, and as many are named that are excluded.
LISTED = 12
EXCLUDED = 6


def expected_words(characters: CharSet, may_end: bool = False, special: Sequence[str] = ()) -> str:
    r"""Return what may come next, in words.

    Args:
        characters: The characters that may come next.
        may_end: Whether the text may end.
        special: The names of special tokens that may come next.

    Example:
        >>> expected_words(CharSet.from_string("0123456789-"))
        "digit or '-'"
        >>> expected_words(CharSet.from_string("abcdef"), may_end=True)
        "a letter from 'a' to 'f' or the end"
        >>> expected_words(~CharSet.from_string('"\n'))
        'any character but newline and \'"\''
        >>> expected_words(~CharSet.of([(0x61, 0x7A)]))
        'any character but lower-case letter'
        >>> expected_words(CharSet.from_string(" \t"), special=["</think>"])
        "tab, space or '</think>'"
        >>> expected_words(CharSet.of([(0x3B1, 0x3C9)]))
        "a letter from 'α' to 'ω'"
    """
    names = [*_characters(characters), *(f"'{name}'" for name in special), *(["the end"] if may_end else [])]
    return _joined(names, "or")


def _joined(names: list[str], word: str) -> str:
    return f"{', '.join(names[:-1])} {word} {names[-1]}" if len(names) > 1 else "".join(names)


def _characters(characters: CharSet) -> list[str]:
    # No text contains surrogates, so it makes no difference whether a set does.
    whole = characters | SURROGATES
    if whole == ANY:
        return ["any character"]
    missing = ~whole
    controls = [] if CONTROLS - missing else ["control characters"]
    others = missing - CONTROLS if controls else missing
    excluded = [*controls, *(map(_single, others) if len(others) <= EXCLUDED else _names(others))]
    if len(missing) < len(whole) and len(excluded) <= EXCLUDED and BEYOND not in excluded:
        return [f"any character but {_joined(excluded, 'and')}"]
    return _names(characters - SURROGATES)


def _names(rest: CharSet) -> list[str]:
    names = []
    known = [(name, perl_class(letter, False), LISTED) for letter, name in CLASSES.items()]
    for name, members, most in [*known, *((name, members, MAX_CODE_POINT) for name, members in SETS.items())]:
        if not members - rest and len(rest - members) <= most:
            names.append(name)
            rest = rest - members
    beyond = (rest - ASCII).ranges
    is_open = len(beyond) > 3 or (len(beyond) == 1 and beyond[0][1] == MAX_CODE_POINT)
    shown = (rest & ASCII).ranges if is_open else rest.ranges
    return [*names, *(name for pair in shown for name in _range(*pair)), *([BEYOND] if is_open else [])]


def _range(first: int, last: int) -> list[str]:
    if last - first < 3:
        return [_single(character) for character in range(first, last + 1)]
    kind = "letter" if chr(first).isalpha() and chr(last).isalpha() and last - first < 26 else "character"
    kind = "digit" if chr(first).isdigit() and chr(last).isdigit() else kind
    return [f"a {kind} from {_single(first)} to {_single(last)}"]


def _single(character: int) -> str:
    letter = chr(character)
    if letter in NAMES:
        return NAMES[letter]
    return f"'{letter}'" if letter.isprintable() else f"U+{character:04X}"
