"""Which texts a nested grammar accepts, by its rule: all possible ends of each node are tried. Slow; the oracle for all else."""

from __future__ import annotations

from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, TextFragment
from logitkit.patterns import Alternate, Call, Characters, Concat, Empty, Graph, Machine, Node, Repeat


class NestedGrammarMatcher:
    """Matches whole texts."""

    def __init__(self, nested_grammar: NestedGrammar) -> None:
        self.nested_grammar = nested_grammar
        self.text = ""
        self.known: dict[tuple[int, int], frozenset[int]] = {}
        self.machines: dict[int, list[list[tuple[Node, int]]]] = {}

    def accepts(self, text: str) -> bool:
        self.text, self.known = text, {}
        return len(text) in self.ends(self.nested_grammar.main, 0)

    def ends(self, node: Node, begin: int) -> frozenset[int]:
        key = id(node), begin
        if key not in self.known:
            self.known[key] = frozenset(self.found(node, begin))
        return self.known[key]

    def found(self, node: Node, begin: int) -> set[int]:
        match node:
            case Empty():
                return {begin}
            case Characters(charset):
                fits = begin < len(self.text) and ord(self.text[begin]) in charset
                return {begin + 1} if fits else set()
            case Concat(parts):
                reached = {begin}
                for part in parts:
                    reached = {end for at in reached for end in self.ends(part, at)}
                return reached
            case Alternate(options):
                return {end for option in options for end in self.ends(option, begin)}
            case Repeat(inner, minimum, maximum):
                return self.repeated(inner, minimum, maximum, begin)
            case Machine(rows, accepting):
                if id(node) not in self.machines:
                    # Kept: what is known is known by identity.
                    self.machines[id(node)] = [[(Characters(charset), t) for charset, t in row] for row in rows]
                return self.walked(self.machines[id(node)], accepting, begin)
            case Graph(rows, accepting):
                return self.walked(rows, accepting, begin)
            case Call(index):
                rule = self.nested_grammar.rules[index]
                assert not isinstance(rule, TextFragment)
                opens = self.text[begin : begin + 1] == rule.opening
                return set(self.ends(rule.body, begin + 1)) if opens else set()
        raise AssertionError(node)

    def repeated(self, node: Node, minimum: int, maximum: int | None, begin: int) -> set[int]:
        reached, count = {begin}, 0
        found: set[int] = set()
        while reached and (maximum is None or count <= maximum):
            if count >= minimum:
                fresh = reached - found
                if not fresh:
                    break
                found |= reached
            reached = {end for at in reached for end in self.ends(node, at)}
            count += 1
        return found

    def walked(self, moves: object, accepting: object, begin: int) -> set[int]:
        seen = {(0, begin)}
        todo = [(0, begin)]
        while todo:
            state, at = todo.pop()
            for node, target in moves[state]:  # type: ignore[index]
                for end in self.ends(node, at):
                    if (target, end) not in seen:
                        seen.add((target, end))
                        todo.append((target, end))
        return {at for state, at in seen if accepting[state]}  # type: ignore[index]
