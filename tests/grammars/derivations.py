"""Which texts a grammar derives, by its definition: a least fixed point over spans, independent of the compiler."""

from __future__ import annotations

from logitkit.compiler.grammars.rules import Rules
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Look, Node, Repeat


def derives(rules: Rules, text: str) -> bool:
    """Whether the whole text is in the language."""
    ends: dict[tuple[int, int], set[int]] = {}
    changed = True
    while changed:
        changed = False
        for rule, body in enumerate(rules.bodies):
            for begin in range(len(text) + 1):
                found = _ends(body, text, begin, ends)
                if not found <= ends.setdefault((rule, begin), set()):
                    ends[rule, begin] |= found
                    changed = True
    return len(text) in ends[rules.start, 0]


def _ends(tree: Node, text: str, begin: int, ends: dict[tuple[int, int], set[int]]) -> set[int]:
    """Return where texts of a tree may end that begin at a place, as far as is known of the rules."""
    match tree:
        case Empty():
            return {begin}
        case Characters(charset):
            return {begin + 1} if begin < len(text) and ord(text[begin]) in charset else set()
        case Look(Characters(charset)):
            return set() if begin < len(text) and ord(text[begin]) in charset else {begin}
        case Call(rule):
            return set(ends.get((rule, begin), ()))
        case Concat(parts):
            places = {begin}
            for part in parts:
                places = {end for place in places for end in _ends(part, text, place, ends)}
            return places
        case Alternate(options):
            return {end for option in options for end in _ends(option, text, begin, ends)}
        case Repeat(node, minimum, maximum):
            places = {begin}
            for _ in range(minimum):
                places = {end for place in places for end in _ends(node, text, place, ends)}
            found = set(places)
            for _ in range(len(text) + 1 if maximum is None else maximum - minimum):
                places = {end for place in places for end in _ends(node, text, place, ends)}
                found |= places
            return found
        case _:
            raise AssertionError(type(tree).__name__)
