r"""Strings of which only the number of items is limited: of lines or words, or whatever stands between separators.

JSON Schema limits lines and words with a pattern: `^[^\n]*(\n[^\n]*){0,99}$` allows 100 lines, and `^\S+( \S+){0,99}$` allows 100
words. However such a pattern is written, its minimal automaton is a chain of equal parts, one for each line or word. A separator,
here a line feed or a space, leads from the last state of a part to the first one of the next part, and stands nowhere else:

    part 1:  0 --\S--> 1 (\S again) --space--> part 2:  2 --\S--> 3 (\S again) --space--> ...

So the limit is one of separators, and one part with a separator from its last state to its first one is the automaton without it.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.string_set import COUNTED_FROM, StringSet
from logitkit.languages.value_ends import ValueEnds

__all__ = ["LimitedItems", "limited_items"]

# Fewer items have states, about 30 each, which takes no longer: constraints without counts can be combined with any others.
COUNTED_ITEMS_FROM = 64


class LimitedItems(NamedTuple):
    """Texts of at most some items, with a separator between two of them.

    Args:
        texts: The texts, with any number of items.
        separator: The byte that separates two items.
        most: The greatest number of separators up to the last byte of the end, of which the end may have some.
    """

    texts: TextLanguage
    separator: int
    most: int


def limited_items(strings: StringSet, ends: ValueEnds) -> LimitedItems | None:
    """Return strings of which only the number of items is limited, and maybe a small least length; None if others are.

    Args:
        strings: The strings.
        ends: The texts after them. If one end had more separators than the other one, the limit would depend on the end.
    """
    texts, (least, most) = strings.texts, strings.lengths
    if most is not None or least >= COUNTED_FROM or texts.listed is not None or texts.dfa is None:
        return None
    moves = texts.dfa.moves
    for size in range(1, len(moves) // COUNTED_ITEMS_FROM + 1):
        symbols = moves[size - 1].get(size)
        if symbols is None:
            continue
        # The states of one item, without the move to the next one.
        item = [*moves[: size - 1], {to: mask for to, mask in moves[size - 1].items() if to != size}]
        separator, *others = islice(texts.charset(symbols), 2)
        if others or separator > 127 or any(mask & symbols for row in item for mask in row.values()):
            continue
        in_ends = {end[:-1].count(chr(separator)) for end in ends.texts}
        if len(in_ends) == 1 and _repeats(texts.dfa, item):
            item[-1][0] = item[-1].get(0, 0) | symbols
            unlimited = TextLanguage(SymbolDfa(item, texts.dfa.accepting[:size]), texts.alphabet, texts.limits)
            most = len(moves) // size - 1 + in_ends.pop()
            return LimitedItems(StringSet(unlimited.compacted(), strings.lengths).language, separator, most)
    return None


def _repeats(dfa: SymbolDfa, item: list[dict[int, int]]) -> bool:
    """Return whether an automaton is a chain of parts that are alike, of which the last one is an item that ends the chain."""
    moves, size = dfa.moves, len(item)
    return (
        moves[-size:] == [_shifted(row, len(moves) - size) for row in item]
        and all(_shifted(row, size) == after for row, after in zip(moves, moves[size:-size], strict=False))
        and dfa.accepting == dfa.accepting[:size] * (len(moves) // size)
    )


def _shifted(row: dict[int, int], by: int) -> dict[int, int]:
    """Return the moves of a state whose targets have higher numbers."""
    return {target + by: mask for target, mask in row.items()}
