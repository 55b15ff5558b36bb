"""Nested grammars, a matcher that reads them as they stand, and a constraint by one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

from hypothesis import assume
from hypothesis import strategies as st

from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, NestedRule, TextFragment
from logitkit.compiler.tokens.compile import pushdown_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import Alternate, Call, Characters, CharSet, Concat, Empty, Node, Repeat, parse
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary

CLOSING = {"{": "}", "[": "]"}
NEVER = 10**9


@dataclass(frozen=True)
class Nested(Constraint):
    """The texts of a nested grammar."""

    nested_grammar: NestedGrammar
    vocabulary: Vocabulary
    max_depth: int = 32
    closing: bool | int = False
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = (Nested, self.nested_grammar, self.max_depth, bool(self.closing))
        object.__setattr__(self, "automaton", shared_by(self.vocabulary).automaton(key, self._compile))

    @property
    def may_nest(self) -> bool:
        return True

    def nested_dfa(self) -> NestedDfa:
        return nested_grammar_dfa(self.nested_grammar, DEFAULT_LIMITS)

    def _compile(self) -> TokenAutomaton:
        return pushdown_automaton(
            self.nested_dfa(),
            self.vocabulary,
            DEFAULT_LIMITS,
            "the network",
            max_depth=self.max_depth,
            complete_within=bool(self.closing),
        )


def text(characters: str) -> Node:
    """Return the tree of one text."""
    return sequence(*(Characters(CharSet.single(ord(c))) for c in characters))


def sequence(*parts: Node) -> Node:
    """Return the parts one after another."""
    return Empty() if not parts else parts[0] if len(parts) == 1 else Concat(parts)


def listed(item: Node) -> Node:
    """Return any number of items with commas between them."""
    return Repeat(sequence(item, Repeat(sequence(text(","), item), 0, None)), 0, 1)


STRING = parse(r'"([^"\\\x00-\x1f]|\\(["\\bfnrt]|u00[01][0-9a-f]))*"')
NUMBER = parse(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
VALUE = Alternate((STRING, NUMBER, text("true"), text("false"), text("null"), Call(0), Call(1)))

# Any JSON value, without whitespace.
JSON = NestedGrammar(
    VALUE,
    (
        NestedRule("{", sequence(listed(sequence(STRING, text(":"), VALUE)), text("}"))),
        NestedRule("[", sequence(listed(VALUE), text("]"))),
    ),
)


def matches(nested_grammar: NestedGrammar, whole: str, max_depth: int = NEVER) -> bool:
    """Whether a text is one of a nested grammar, found by trying all ways."""

    @cache
    def ends(node: Node, begin: int, depth: int) -> frozenset[int]:
        match node:
            case Empty():
                return frozenset([begin])
            case Characters(charset):
                found = begin < len(whole) and ord(whole[begin]) in charset
                return frozenset([begin + 1] if found else [])
            case Concat(parts):
                at = frozenset([begin])
                for part in parts:
                    at = frozenset(e for b in at for e in ends(part, b, depth))
                return at
            case Alternate(options):
                return frozenset(e for option in options for e in ends(option, begin, depth))
            case Repeat(inner, minimum, maximum):
                at, found_ends, count = frozenset([begin]), set[int](), 0
                while at:
                    if count >= minimum:
                        if at <= found_ends:
                            break
                        found_ends |= at
                    if count == maximum:
                        break
                    at = frozenset(e for b in at for e in ends(inner, b, depth))
                    count += 1
                return frozenset(found_ends)
            case Call(rule):
                called = nested_grammar.rules[rule]
                assert not isinstance(called, TextFragment)
                if depth == max_depth or not whole.startswith(called.opening, begin):
                    return frozenset()
                return ends(called.body, begin + 1, depth + 1)
            case _:
                raise AssertionError(node)

    return len(whole) in ends(nested_grammar.main, 0, 0)


@st.composite
def nested_grammars(draw: st.DrawFn, beside: tuple[str, ...] = ()) -> NestedGrammar:
    """Small nested grammars over the letters a and b, with several rules for a bracket.

    Args:
        draw: Draws them.
        beside: Other texts in the trees, which may begin like a call.
    """
    count = draw(st.integers(1, 3))
    # Calls followed by something, so that it matters which call it was.
    marked = [sequence(Call(i), text(special_token)) for i in range(count) for special_token in "ab"]
    leaves = st.sampled_from([text("a"), text("b"), Empty(), *map(Call, range(count)), *marked, *map(text, beside)])

    def larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(several.map(Concat), several.map(Alternate), inner.map(lambda node: Repeat(node, 0, None)))

    trees = st.recursive(leaves, larger, max_leaves=6)
    openings = draw(st.sampled_from(["{" * count, "{[{"[:count]]))
    rules = tuple(NestedRule(opening, sequence(draw(trees), text(CLOSING[opening]))) for opening in openings)
    assume(with_text([rule.body for rule in rules]) == {*range(count)})
    return NestedGrammar(draw(trees), rules)


def with_text(bodies: list[Node]) -> set[int]:
    """Return which bodies of rules that call each other have a text: those of a nested grammar all do."""
    found: set[int] = set()

    def ends(node: Node) -> bool:
        match node:
            case Call(rule):
                return rule in found
            case Concat(parts):
                return all(map(ends, parts))
            case Alternate(options):
                return any(map(ends, options))
            case _:
                return True

    for _ in bodies:
        found |= {i for i, body in enumerate(bodies) if ends(body)}
    return found


def sample(nested_grammar: NestedGrammar, rng: random.Random, budget: int = 40) -> str:
    """Return some text of a nested grammar, or the beginning of one; short where the budget allows it."""
    left = [budget]

    def say(node: Node) -> str:
        left[0] -= 1
        if left[0] < -200:
            return ""
        match node:
            case Characters(charset):
                first, last = rng.choice(charset.ranges)
                return chr(rng.randint(first, min(last, max(first, 0x7E))))
            case Concat(parts):
                return "".join(map(say, parts))
            case Alternate(options):
                plain = [o for o in options if not isinstance(o, Call)]
                return say(rng.choice(plain if plain and left[0] < 0 else list(options)))
            case Repeat(inner, minimum, maximum):
                most = minimum + 2 if maximum is None else min(maximum, minimum + 2)
                return "".join(say(inner) for _ in range(rng.randint(minimum, most if left[0] > 0 else minimum)))
            case Call(rule):
                called = nested_grammar.rules[rule]
                assert not isinstance(called, TextFragment)
                return called.opening + say(called.body)
            case _:
                return ""

    return say(nested_grammar.main)


def mutated(whole: str, rng: random.Random, special_tokens: str) -> str:
    """Return a text with one character put in, left out or changed."""
    at = rng.randint(0, len(whole))
    return whole[:at] + rng.choice(["", rng.choice(special_tokens)]) + whole[at + rng.choice([0, 1]) :]
