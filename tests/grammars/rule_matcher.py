"""A matcher of rules that call each other, plain enough to be believed: ends of matches, added until none is missing."""

from __future__ import annotations

from logitkit.compiler.characters.symbols import Symbol
from logitkit.grammars.rule_set import RuleSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Node, Repeat


def matches(grammar: RuleSet, text: str | list[str | int]) -> bool:
    """Tell whether the start rule has a text; an int in a list is the special token with this index in `tokens`."""
    symbols = [ord(item) if isinstance(item, str) else Symbol.special_token(item) for item in text]
    ends: dict[tuple[int, int], set[int]] = {}
    size = -1
    while size != sum(map(len, ends.values())):
        size = sum(map(len, ends.values()))
        for number, rule in enumerate(grammar.rules):
            for at in range(len(symbols) + 1):
                ends[number, at] = _ends(rule.body, symbols, at, ends)
    return len(symbols) in ends[grammar.start, 0]


def _ends(node: Node, symbols: list[int], at: int, ends: dict[tuple[int, int], set[int]]) -> set[int]:
    match node:
        case Empty():
            return {at}
        case Characters(charset):
            # `CharSet` finds code points only, not the letters after them.
            found = at < len(symbols) and any(first <= symbols[at] <= last for first, last in charset.ranges)
            return {at + 1} if found else set()
        case Call(number):
            return ends.get((number, at), set())
        case Concat(parts):
            reached = {at}
            for part in parts:
                reached = {end for begin in reached for end in _ends(part, symbols, begin, ends)}
            return reached
        case Alternate(options):
            return {end for option in options for end in _ends(option, symbols, at, ends)}
        case Repeat(inner, minimum, maximum):
            reached = {at}
            for _ in range(minimum):
                reached = {end for begin in reached for end in _ends(inner, symbols, begin, ends)}
            total, more = set(reached), set(reached)
            for _ in range(len(symbols) + 1 if maximum is None else maximum - minimum):
                more = {end for begin in more for end in _ends(inner, symbols, begin, ends)}
                total |= more
            return total
        case _:
            raise AssertionError(f"no grammar has a {type(node).__name__}")
