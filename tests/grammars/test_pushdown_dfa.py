"""Grammars as deterministic pushdown automata, against derivations by definition."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import FINISHED
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Look, Node, Repeat
from tests.examples import examples
from tests.grammars.derivations import derives
from tests.grammars.pushdowns import accepts

LIMITS = Limits()
ALPHABET = "ab("
LONGEST = 4


def one_of(characters: str) -> Characters:
    return Characters(CharSet.from_string(characters))


def sequence(*parts: Node | str) -> Node:
    nodes = [node for part in parts for node in (map(one_of, part) if isinstance(part, str) else (part,))]
    return Empty() if not nodes else nodes[0] if len(nodes) == 1 else Concat(tuple(nodes))


def either(*options: Node | str) -> Node:
    return Alternate(tuple(sequence(option) for option in options))


def not_before(characters: str) -> Look:
    return Look(one_of(characters), False, True, 0)


def trees(rules: int, looks: bool) -> st.SearchStrategy[Node]:
    leaves: list[st.SearchStrategy[Node]] = [
        st.sampled_from(["a", "b", "(", "ab", "é"]).map(one_of),
        st.integers(0, rules - 1).map(Call),
        st.integers(0, rules - 1).map(Call),
        st.just(Empty()),
    ]
    if looks:
        leaves.append(st.sampled_from(["a", "b(", "é"]).map(not_before))
    return st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Concat(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Alternate(tuple(parts))),
            st.tuples(inner, st.sampled_from([(0, 1), (0, None), (1, None), (0, 2), (2, 2)])).map(
                lambda pair: Repeat(pair[0], *pair[1])
            ),
        ),
        max_leaves=5,
    )


@st.composite
def grammars(draw: st.DrawFn, looks: bool) -> Rules:
    count = draw(st.integers(1, 8))
    return Rules(tuple(draw(trees(count, looks)) for _ in range(count)))


def check(rules: Rules, dfa: PushdownDfa | None, alphabet: str = ALPHABET, longest: int = LONGEST) -> None:
    """Compare all short texts; no automaton stands for the empty language."""
    texts = ["".join(text) for size in range(longest + 1) for text in product(alphabet, repeat=size)]
    language = {text for text in texts if derives(rules, text)}
    if dfa is None:
        assert not language
        return
    for text in texts:
        assert accepts(dfa, text.encode()) == (text in language), text


def refused(rules: Rules) -> bool:
    """Compile a grammar and compare its language; return whether it is too large."""
    try:
        dfa = pushdown_dfa(rules, LIMITS, splits=True)
    except PatternTooLarge:
        return True
    except GrammarError:
        check(rules, None)
        return False
    check(rules, dfa)
    return False


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars(looks=False))
def test_language(rules: Rules) -> None:
    refused(rules)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars(looks=True))
def test_language_with_conditions(rules: Rules) -> None:
    refused(rules)


ITEM = either("1", sequence("(", Call(0), ")"))
LIST = (either("a", sequence("a", Call(0))),)

HAND_MADE: dict[str, tuple[tuple[Node, ...], list[str], list[str]]] = {
    "as often": ((either("", sequence("a", Call(0), "b")),), ["", "ab", "aaabbb"], ["a", "abb", "ba"]),
    "sum": (
        (sequence(Call(1), Repeat(sequence("+", Call(1)), 0, None)), ITEM),
        ["1", "1+1", "((1)+1)"],
        ["", "(1", "()", "1+"],
    ),
    "left recursive sum": (
        (either(Call(1), sequence(Call(0), "+", Call(1))), ITEM),
        ["1", "1+1+1", "((1)+1)"],
        ["(1", "()", "+1"],
    ),
    "ambiguous sum": ((either("1", sequence(Call(0), "+", Call(0))),), ["1", "1+1+1"], ["1+", "11"]),
    "itself": ((either(Call(0), "x"),), ["x"], ["", "xx"]),
    "each other": ((Call(1), either(Call(0), "y")), ["y"], ["", "yy"]),
    "left through an empty rule": (
        (either(sequence(Call(1), Call(0), "x"), "y"), either("", Call(1))),
        ["y", "yx", "yxx"],
        ["xy", "x", ""],
    ),
    "left through each other": (
        (either(sequence(Call(1), "x"), "y"), either(sequence(Call(0), "z"), "w")),
        ["y", "wx", "yzx", "wxzxzx"],
        ["yz", "yx"],
    ),
    "ambiguous lists": (
        (either("a", sequence(Call(0), Call(0)), sequence("a", Call(0), "b")),),
        ["a", "aa", "aab", "aaab", "aaabb"],
        ["", "b", "ab", "aba"],
    ),
    "dangling else": (
        (either(sequence("i", Call(0), Repeat(sequence("e", Call(0)), 0, 1)), "x"),),
        ["x", "ix", "ixex", "iixex", "iixexex", "ixeixex"],
        ["", "i", "xex", "ixexex"],
    ),
    "dangling else in a block": (
        (
            either(sequence("i", Call(0)), sequence("i", Call(0), "e", Call(0)), sequence("{", Call(1), "}"), "x"),
            Repeat(Call(0), 1, None),
        ),
        ["iixex", "i{ixx}ex", "{ix}", "{iixexexx}"],
        ["{}", "{ixexex}ex", "ixe"],
    ),
    "at most as often": (
        (either(sequence("a", Call(0), Repeat(one_of("b"), 0, 1)), "x"),),
        ["x", "aax", "aaxbb"],
        ["xb", "axbb"],
    ),
    "condition after a call": (
        (sequence(Call(1), Repeat(one_of("ab"), 0, 1)), sequence("x", not_before("a"))),
        ["x", "xb"],
        ["xa"],
    ),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made(name: str) -> None:
    bodies, inside, outside = HAND_MADE[name]
    rules = Rules(bodies)
    dfa = pushdown_dfa(rules, LIMITS)
    for text in inside + outside:
        assert accepts(dfa, text.encode()) == (text in inside) == derives(rules, text), text


def test_right_recursion_keeps_no_stack() -> None:
    assert accepts(pushdown_dfa(Rules(LIST), LIMITS), b"a" * 10_000, max_depth=0)


def test_special_tokens_are_symbols() -> None:
    rules = Rules((sequence("a", Characters(CharSet.single(Symbol.special_token(0))), "b"),), special_tokens=(7,))
    dfa = pushdown_dfa(rules, LIMITS)
    assert dfa.special_tokens == (7,)
    state = int(dfa.step[dfa.start, dfa.byte_class[ord("a")]])
    state = int(dfa.step[state, dfa.end - 1])
    state = int(dfa.step[state, dfa.byte_class[ord("b")]])
    assert dfa.step[state, dfa.end] == FINISHED


SPLIT: dict[str, tuple[tuple[Node, ...], list[str], list[str]]] = {
    "palindromes": (
        (either("", sequence("a", Call(0), "a"), sequence("b", Call(0), "b")),),
        ["", "aa", "abba", "baab", "aaaa"],
        ["a", "ab", "aba", "abab"],
    ),
    "twice or once": (
        (either("", sequence("a", Call(0), "b"), sequence("a", Call(0), "b", "b")),),
        ["", "ab", "abb", "aabbb", "aabbbb"],
        ["a", "aab", "abbb"],
    ),
}


@pytest.mark.parametrize("name", SPLIT)
def test_hand_made_with_several_actions(name: str) -> None:
    bodies, inside, outside = SPLIT[name]
    rules = Rules(bodies)
    dfa = pushdown_dfa(rules, LIMITS, splits=True)
    assert len(dfa.further)
    for text in inside + outside:
        assert accepts(dfa, text.encode()) == (text in inside) == derives(rules, text), text
    check(rules, dfa, "ab", 6)


def test_palindromes_are_refused() -> None:
    rules = Rules(SPLIT["palindromes"][0])
    with pytest.raises(PatternTooLarge, match=r"did not become deterministic within [0-9]+ states"):
        pushdown_dfa(rules, LIMITS)


def test_empty_languages_are_refused() -> None:
    with pytest.raises(GrammarError, match="no text belongs to the grammar"):
        pushdown_dfa(Rules((sequence("a", Call(0)),)), LIMITS)
