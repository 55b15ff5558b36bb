"""The rules of a grammar as minimal automata over characters and calls.

Every call is a symbol of its own, and so is every special token and every condition on the next character (`Look`). A rule
that may be empty is called only where it is not: its callers may also go past the call. So every call reads something, and a
left recursion through an empty rule is a plain left recursion.

By hand: `a ::= b a "x" | "y"` with `b ::= "" | "z"` becomes `a ::= b? a "x" | "y"` with `b ::= "z"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from logitkit.compiler.bytes.limit_signs import LimitSigns
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.components import reached
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import Part, PositionBuilder, Positions, positions_of
from logitkit.compiler.characters.subset import SymbolDfa, determinise
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.limited_rules import check_alone
from logitkit.compiler.grammars.rules import Rules, check_trees, nullable_rules
from logitkit.errors import GrammarError
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Look, Machine, Node

__all__ = ["RuleAutomata", "rule_automata", "rule_positions"]

# The state after a text that must not come next.
FORBIDDEN = -1

# The texts that must not come next: for each state, sets of characters or their masks, and the state that they lead to.
Texts: TypeAlias = tuple[tuple[tuple[CharSet, int], ...], ...]
Condition: TypeAlias = list[list[tuple[int, int]]]

# The cost of the smallest rule, in steps.
RULE_STEPS = 500


@dataclass(frozen=True, eq=False, slots=True)
class RuleAutomata:
    """The automata of the rules that can be reached from the start.

    Args:
        alphabet: The characters that all of them tell apart.
        special: The meaning of each symbol after those of the alphabet: the `Symbol` of a rule that is called, of a special
            token, or of a condition.
        looks: For each condition, the automaton of the texts that must not come next: for each state, the characters as a mask
            of the alphabet, and the state that they lead to, or `FORBIDDEN`.
        automata: The automaton of the texts of each rule that are not empty.
        start: The rule of the whole text.
        nullable: Whether the whole text may be empty.
        signs: The signs of limits of tokens, as in `check_alone`.
    """

    alphabet: Alphabet
    special: list[int]
    looks: list[Condition]
    automata: dict[int, SymbolDfa]
    start: int
    nullable: bool
    signs: Sequence[tuple[int, int]] = ()

    def split(self, mask: int) -> tuple[int, list[int]]:
        """Return the characters of a mask, and what its other symbols stand for."""
        above = mask >> self.alphabet.size
        found = []
        while above:
            found.append(self.special[(above & -above).bit_length() - 1])
            above &= above - 1
        return mask & ((1 << self.alphabet.size) - 1), found

    def calls(self, automaton: SymbolDfa) -> list[tuple[int, int, int]]:
        """Return the calls in an automaton: state, rule, and the state after it."""
        return [
            (state, Symbol.number(symbol), target)
            for state, row in enumerate(automaton.moves)
            for target, mask in row.items()
            if mask >> self.alphabet.size
            for symbol in self.split(mask)[1]
            if Symbol.is_call(symbol)
        ]

    def call_bits(self) -> dict[int, int]:
        """Return the mask of the symbol that calls each rule."""
        return {
            Symbol.number(symbol): 1 << self.alphabet.size + i
            for i, symbol in enumerate(self.special)
            if Symbol.is_call(symbol)
        }


class _Builder(PositionBuilder):
    """Positions of a rule: calls that may be empty can be left out, and conditions are symbols; see `rule_positions`."""

    def __init__(self, limits: Limits, nullable: set[int], looks: dict[Texts, int]) -> None:
        super().__init__(limits)
        self.nullable, self.looks = nullable, looks

    def part(self, tree: Node) -> Part:
        """Number the positions of a tree."""
        match tree:
            case Call(rule):
                return super().part(tree)._replace(nullable=rule in self.nullable)
            case Look(node):
                number = self.looks.setdefault(_texts(node), len(self.looks))
                return super().part(Characters(CharSet.single(Symbol.lookahead(number))))
            case Characters(charset):
                return super().part(_one_symbol_each(charset))
            case _:
                return super().part(tree)

    def repeat(self, node: Node, minimum: int, maximum: int | None) -> Part:
        return super().repeat(_one_symbol_each(node.charset) if type(node) is Characters else node, minimum, maximum)


def _texts(node: Node) -> Texts:
    """Return what a condition forbids."""
    if isinstance(node, Characters):
        return (((node.charset, FORBIDDEN),),)
    assert isinstance(node, Machine)
    after = [FORBIDDEN if accepts else state for state, accepts in enumerate(node.accepting)]
    rows = zip(node.moves, node.accepting, strict=True)
    return tuple([() if accepts else tuple([(c, after[t]) for c, t in row]) for row, accepts in rows])


def _one_symbol_each(charset: CharSet) -> Node:
    """Return a set as a choice of its characters and of each of its special tokens, which are symbols of their own."""
    if not charset or Symbol.is_character(charset.ranges[-1][1]) or len(charset) == 1:
        return Characters(charset)
    plain = CharSet(tuple([pair for pair in charset.ranges if Symbol.is_character(pair[1])]))
    options = [Characters(CharSet.single(symbol)) for symbol in CharSet(charset.ranges[len(plain.ranges) :])]
    return Alternate((*([Characters(plain)] if plain else []), *options)) if plain or len(options) > 1 else options[0]


def rule_automata(rules: Rules, limits: Limits) -> RuleAutomata:
    """Build the automaton of each rule that the start may call.

    Raises:
        GrammarError: No text belongs to the grammar, or its trees are not those of `Rules`.
        PatternTooLarge: A limit is exceeded.
    """
    called = check_trees(rules, limits)
    nullable = nullable_rules(rules, limits)
    used = reached(rules.start, called.__getitem__)
    limits.spend(RULE_STEPS * len(used))
    looks: dict[Texts, int] = {}
    positions = {rule: rule_positions(rules.bodies[rule], nullable, looks, limits) for rule in used}
    charsets = dict.fromkeys(charset for found in positions.values() for charset in found.charsets)
    plain = [charset for charset in charsets if not charset or Symbol.is_character(charset.ranges[-1][1])]
    special = [charset for charset in charsets if charset and not Symbol.is_character(charset.ranges[-1][1])]
    pairs = [*dict.fromkeys([*plain, *(charset for texts in looks for row in texts for charset, _ in row)])]
    limits.check_work(len(pairs) * sum(len(charset.ranges) for charset in pairs) // 8)
    alphabet = Alphabet.of(pairs)
    masks = {charset: alphabet.members[charset] for charset in plain}
    masks |= {charset: 1 << alphabet.size + i for i, charset in enumerate(special)}
    signs = _signs(special, rules.special_tokens, alphabet.size)
    automata = {}
    for rule, position in positions.items():
        own = [masks[c] for c in position.charsets]
        dfa = minimise(determinise(position, own, limits, check_alone(position, own, signs)), limits)
        if dfa is not None:
            automata[rule] = dfa
    found = RuleAutomata(
        alphabet,
        [charset.ranges[0][0] for charset in special],
        [[[(alphabet.members[charset], target) for charset, target in row] for row in texts] for texts in looks],
        automata,
        rules.start,
        rules.start in nullable,
        signs,
    )
    _drop_unproductive(found, limits)
    if rules.start not in automata and not found.nullable:
        raise GrammarError("no text belongs to the grammar: its start rule cannot end")
    return found


def _signs(special: list[CharSet], tokens: Sequence[int], first: int) -> list[tuple[int, int]]:
    """Return each limit of tokens, with its signs `fresh` and `later` as a mask.

    Args:
        special: The meaning of each symbol after those of the alphabet.
        tokens: The special tokens of the grammar.
        first: The first of these symbols.
    """
    found: dict[int, int] = {}
    for symbol, charset in enumerate(special, start=first):
        meaning = charset.ranges[0][0]
        token = tokens[Symbol.number(meaning)] if Symbol.is_special_token(meaning) else 0
        most = LimitSigns.most_of(token)
        if most is not None and token != LimitSigns.of(most).end:
            found[most] = found.get(most, 0) | 1 << symbol
    return [*found.items()]


def _drop_unproductive(rules: RuleAutomata, limits: Limits) -> None:
    """Drop the rules without a text that is not empty, and all calls of them."""
    automata = rules.automata
    calls = {rule: rules.calls(dfa) for rule, dfa in automata.items()}
    callers: dict[int, set[int]] = {}
    for rule, found in calls.items():
        for _, callee, _ in found:
            callers.setdefault(callee, set()).add(rule)
    bit = rules.call_bits()
    never = sum(bit.values())
    productive: set[int] = set()
    todo = [*automata]
    while todo:
        rule = todo.pop()
        if rule in productive:
            continue
        dfa = automata[rule]
        limits.spend(len(dfa.moves) + 5)
        following = [[t for t, mask in row.items() if mask & ~never] for row in dfa.moves]
        if any(dfa.accepting[state] for state in reached(0, following.__getitem__)):
            productive.add(rule)
            never &= ~bit.get(rule, 0)
            todo.extend(callers.get(rule, ()))
    for rule in [*automata]:
        if rule not in productive:
            del automata[rule]
        elif any(callee not in productive for _, callee, _ in calls[rule]):
            moves = [{t: mask & ~never for t, mask in row.items() if mask & ~never} for row in automata[rule].moves]
            left = minimise(SymbolDfa(moves, automata[rule].accepting), limits)
            assert left is not None
            automata[rule] = left


def rule_positions(body: Node, nullable: set[int], looks: dict[Texts, int], limits: Limits) -> Positions:
    """Build the position automaton of a rule, without its empty text.

    Args:
        body: The tree of the rule.
        nullable: The rules that have the empty text: a call of one may also be left out.
        looks: The numbers of the conditions, by the texts that must not come next; new ones are added.
        limits: Bounds on the positions.
    """
    return replace(positions_of(body, limits, _Builder(limits, nullable, looks)), nullable=False)
