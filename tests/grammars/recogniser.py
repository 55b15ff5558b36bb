"""Whether a text belongs to a set of rules: by a chart, from the trees alone."""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.grammars.rule_set import RuleSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Graph, Look, Machine, Node, Repeat


def accepts(rules: RuleSet, text: str) -> bool:
    """Whether the start rule has a text."""
    return _RecogniserChart(rules, text).accepts()


class _RecogniserChart:
    """Where each rule may end from each place: all grow until none does."""

    def __init__(self, rules: RuleSet, text: str) -> None:
        self.rules = rules
        self.text = text
        self.known: dict[tuple[int, int], set[int]] = {(rules.start, 0): set()}
        self.changed = True

    def accepts(self) -> bool:
        while self.changed:
            self.changed = False
            for (rule, begin), ends in list(self.known.items()):
                found = self.ends(self.rules.rules[rule].body, begin)
                self.changed |= not found <= ends
                ends.update(found)
        return len(self.text) in self.known[self.rules.start, 0]

    def ends(self, tree: Node, at: int) -> set[int]:
        match tree:
            case Empty():
                return {at}
            case Characters(charset):
                return {at + 1} if at < len(self.text) and ord(self.text[at]) in charset else set()
            case Look(node, False, True):
                return set() if self.ends(node, at) else {at}
            case Concat(parts):
                ends = {at}
                for part in parts:
                    ends = self.all_ends(part, ends)
                return ends
            case Alternate(options):
                return {end for option in options for end in self.ends(option, at)}
            case Repeat(node, minimum, maximum):
                return self.repeated(node, minimum, maximum, at)
            case Call(rule):
                if (rule, at) not in self.known:
                    self.known[rule, at] = set()
                    self.changed = True
                return set(self.known[rule, at])
            case Machine() | Graph():
                return self.run(tree, at)
        raise AssertionError(tree)

    def all_ends(self, tree: Node, begins: set[int]) -> set[int]:
        return {end for begin in begins for end in self.ends(tree, begin)}

    def repeated(self, node: Node, minimum: int, maximum: int | None, at: int) -> set[int]:
        ends = {at}
        for _ in range(minimum):
            ends = self.all_ends(node, ends)
        found, copies = set(ends), minimum
        while ends and (maximum is None or copies < maximum):
            ends = self.all_ends(node, ends) - found
            found |= ends
            copies += 1
        return found

    def run(self, machine: Machine | Graph, at: int) -> set[int]:
        seen, todo = {(0, at)}, [(0, at)]
        for state, place in todo:
            fresh = set(self.steps(machine, state, place)) - seen
            seen |= fresh
            todo.extend(fresh)
        return {place for state, place in seen if machine.accepting[state]}

    def steps(self, machine: Machine | Graph, state: int, place: int) -> Iterator[tuple[int, int]]:
        if isinstance(machine, Graph):
            for node, target in machine.moves[state]:
                yield from ((target, end) for end in self.ends(node, place))
        elif place < len(self.text):
            for charset, target in machine.moves[state]:
                if ord(self.text[place]) in charset:
                    yield target, place + 1
