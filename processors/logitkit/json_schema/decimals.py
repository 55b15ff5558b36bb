"""Exact decimal numbers and their plain texts: `-12.50`, without exponent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from typing import TypeVar

from logitkit.budget import took
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet

S = TypeVar("S", bound=Hashable)

DIGITS = "0123456789"
# The most digits of a number whose zeros are all written out.
MOST_DIGITS = 5000
ALPHABET = Alphabet.of(CharSet.single(ord(c)) for c in f"{DIGITS}.-")
MASKS = {c: ALPHABET.members[CharSet.single(ord(c))] for c in f"{DIGITS}.-"}


def exact(number: object) -> Decimal:
    """Return what a number of a schema means: of a float, the shortest decimal that reads as it.

    Raises:
        ConfigurationError: It is not a finite number.

    Example:
        >>> exact(0.1)
        Decimal('0.1')
    """
    if isinstance(number, int) and not isinstance(number, bool):
        return Decimal(number)
    if isinstance(number, float | Decimal):
        found = Decimal(repr(float(number))) if isinstance(number, float) else number
        if found.is_finite():
            return found
    raise ConfigurationError(f"{number!r} is not a finite number")


def digits_of(number: Decimal, limits: Limits) -> tuple[str, str]:
    """Return the digits of a magnitude before and after the point, without zeros that say nothing.

    Raises:
        PatternTooLarge: There are too many digits.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> digits_of(Decimal("-0012.50"), DEFAULT_LIMITS), digits_of(Decimal(0), DEFAULT_LIMITS)
        (('12', '5'), ('0', ''))
    """
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) + abs(exponent) > MOST_DIGITS:
        raise PatternTooLarge(f"a number has more than {MOST_DIGITS} digits, written out; give one with fewer")
    limits.check_states(len(digits) + abs(exponent))
    written = "".join(map(str, digits))
    if exponent >= 0:
        return (written + "0" * exponent).lstrip("0") or "0", ""
    written = written.rjust(1 - exponent, "0")
    return written[:exponent].lstrip("0") or "0", written[exponent:].rstrip("0")


def plain_text(number: Decimal, limits: Limits) -> str:
    """Return the shortest plain text of a number.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> plain_text(Decimal("-1.50E+1"), DEFAULT_LIMITS)
        '-15'
    """
    before, fraction = digits_of(number, limits)
    text = f"{before}.{fraction}" if fraction else before
    return f"-{text}" if number < 0 else text


# The cost of exploring a state, in steps.
EXPLORING_ANY, EXPLORING_STATE, EXPLORING_MOVE = 300, 10, 5


def explored(
    start: S, moves: Callable[[S], Iterable[tuple[str, S]]], accepts: Callable[[S], bool], limits: Limits
) -> TextLanguage:
    """Build the automaton of which each state tells by itself where its characters lead.

    Args:
        start: The start state.
        moves: For a state, characters and where each of them leads.
        accepts: Whether a state accepts.
        limits: Bound on the states.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    number = {start: 0}
    places = [start]
    steps = EXPLORING_ANY
    rows: list[dict[int, int]] = []
    try:
        while len(rows) < len(places):
            row: dict[int, int] = {}
            for characters, target in moves(places[len(rows)]):
                found = number.setdefault(target, len(places))
                if found == len(places):
                    limits.check_states(found)
                    places.append(target)
                for c in characters:
                    row[found] = row.get(found, 0) | MASKS[c]
            rows.append(row)
            steps += EXPLORING_STATE + EXPLORING_MOVE * len(row)
            limits.check_work(steps)
    finally:
        took(steps)
    dfa = SymbolDfa(rows, [accepts(place) for place in places])
    return TextLanguage(minimise(dfa, limits), ALPHABET, limits)


def decimals_of(texts: Iterable[str], limits: Limits) -> TextLanguage:
    """Return some plain decimals, each without zeros that say nothing, together with all that have such zeros after the point.

    Raises:
        PatternTooLarge: There are too many digits.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> language = decimals_of(["1", "1.05"], DEFAULT_LIMITS)
        >>> [language.contains(text) for text in ("1", "1.000", "1.0500", "1.5")]
        [True, True, True, False]
    """
    trie: list[dict[str, int]] = [{}]
    last: set[int] = set()
    for text in texts:
        node = 0
        limits.spend(5 * len(text))
        for character in text:
            found = trie[node].setdefault(character, len(trie))
            if found == len(trie):
                limits.check_states(found)
                trie.append({})
            node = found
        last.add(node)

    def moves(place: tuple[int, bool, str]) -> Iterable[tuple[str, tuple[int, bool, str]]]:
        # Where in the trie one is, or nowhere any more; whether what is read has one of the values; and in which part of it.
        node, meant, part = place
        inside = trie[node] if node >= 0 else {}
        fraction = part if part == "before" else "fraction"
        for character, target in inside.items():
            if character == ".":
                yield character, (target, meant, "point")
            else:
                yield (
                    character,
                    (target, target in last or (meant and fraction == "fraction" and character == "0"), fraction),
                )
        if meant and part == "before" and "." not in inside:
            yield ".", (-1, True, "point")
        elif meant and part != "before" and "0" not in inside:
            yield "0", (-1, True, "fraction")

    def accepts(place: tuple[int, bool, str]) -> bool:
        return place[1] and place[2] != "point"

    return explored((0, False, "before"), moves, accepts, limits)
