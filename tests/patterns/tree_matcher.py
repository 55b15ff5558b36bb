"""A matcher over syntax trees, plain enough to be believed: the bridge between the parser and `re`.

It lists, for a node and a place in the text, where a match may end, in the order in which a backtracking
search would find those ends. Automata know only the set; the order decides what an atomic group keeps.
"""

from __future__ import annotations

import sys

from logitkit.patterns import Alternate, Anchor, Atomic, Characters, Concat, Empty, Look, Node, Repeat

Ends = tuple[int, ...]


def fullmatch(tree: Node, text: str) -> bool:
    """Tell whether the whole text matches."""
    return len(text) in _Matcher(text).ends(tree, 0)


class _Matcher:
    def __init__(self, text: str) -> None:
        self.text = text
        self.known: dict[tuple[int, int], Ends] = {}

    def ends(self, node: Node, at: int) -> Ends:
        key = (id(node), at)
        if key not in self.known:
            self.known[key] = tuple(dict.fromkeys(self._ends(node, at)))
        return self.known[key]

    def _ends(self, node: Node, at: int) -> list[int] | Ends:
        match node:
            case Empty():
                return (at,)
            case Characters(charset):
                return (at + 1,) if at < len(self.text) and ord(self.text[at]) in charset else ()
            case Concat(parts):
                return self._sequence(parts, at)
            case Alternate(options):
                return [end for option in options for end in self.ends(option, at)]
            case Repeat():
                return self._repeat(node, at, 0, {})
            case Atomic(inner):
                return self.ends(inner, at)[:1]
            case Look(behind=False):
                return (at,) if bool(self.ends(node.node, at)) != node.negative else ()
            case Look():
                found = any(at in self.ends(node.node, begin) for begin in range(at + 1))
                return (at,) if found != node.negative else ()
            case Anchor():
                return (at,) if self._anchor(node, at) else ()
            case _:
                raise AssertionError(f"no pattern has a {type(node).__name__}")

    def _sequence(self, parts: tuple[Node, ...], at: int) -> Ends:
        reached: Ends = (at,)
        for part in parts:
            reached = tuple(dict.fromkeys(end for begin in reached for end in self.ends(part, begin)))
        return reached

    def _repeat(self, node: Repeat, at: int, count: int, known: dict[tuple[int, int], list[int]]) -> list[int]:
        if (at, count) in known:
            return known[at, count]
        if count < node.minimum:
            ends = [e for end in self.ends(node.node, at) for e in self._repeat(node, end, count + 1, known)]
        else:
            more: list[int] = []
            if node.maximum is None or count < node.maximum:
                for end in self.ends(node.node, at):
                    # A copy without width ends the repetition, as it would go on for ever.
                    more.extend([end] if end == at else self._repeat(node, end, count + 1, known))
            ends = [at, *more] if node.kind == "lazy" else [*more, at]
        known[at, count] = list(dict.fromkeys(ends))
        return known[at, count]

    def _anchor(self, node: Anchor, at: int) -> bool:
        before, after = self.text[at - 1 : at] if at else "", self.text[at : at + 1]
        match node.kind:
            case "text_start":
                return not before
            case "text_end":
                return not after
            case "final":
                return self.text[at:] in ("", "\n")
            case "line_start":
                return before in ("", "\n")
            case "line_end":
                return after in ("", "\n")
        assert node.word is not None
        if not self.text:
            return node.kind == "not_boundary" and sys.version_info >= (3, 14)
        between = (before != "" and ord(before) in node.word) != (after != "" and ord(after) in node.word)
        return between == (node.kind == "boundary")
