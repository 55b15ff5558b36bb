"""Nested grammars as automata over bytes, against a matcher that tries all ways."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, NestedRule
from logitkit.compiler.nested_grammars.parts import has_calls
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import Alternate, Call, Concat, Node, Repeat, parse
from tests.automata.nested_grammars import JSON, listed, matches, mutated, nested_grammars, sample, sequence, text

ANY_JSON = nested_grammar_dfa(JSON, DEFAULT_LIMITS)

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"]))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text('ab"\\\n é{[', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(values)
def test_json_values_are_accepted(value: object) -> None:
    assert ANY_JSON.accepts(canonical(value).encode())


@given(values, st.randoms(use_true_random=False))
def test_a_text_that_is_not_json_does_not_match(value: object, rng: random.Random) -> None:
    changed = mutated(canonical(value), rng, '{}[]",:\\ab01-.e')
    try:
        json.loads(changed)
    except ValueError:
        assert not ANY_JSON.accepts(changed.encode())
    # Whitespace and other spellings of a character are not accepted either.
    assert ANY_JSON.accepts(changed.encode()) == matches(JSON, changed)


@given(nested_grammars(), st.randoms(use_true_random=False))
def test_nested_grammars_are_read_as_they_stand(nested_grammar: NestedGrammar, rng: random.Random) -> None:
    """Also where a bracket may begin calls of several rules."""
    try:
        dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    except PatternTooLarge:
        assume(False)
    except ConfigurationError as error:
        assume("no depth is enough" not in str(error))
        raise
    for _ in range(12):
        whole = sample(nested_grammar, rng, 12)
        for changed in (whole, mutated(whole, rng, "ab{}[]")):
            for depth in (1, 2, 10**9):
                assert dfa.accepts(changed.encode(), depth) == matches(nested_grammar, changed, depth), (changed, depth)


@given(nested_grammars(("{", "{a", "{{b", "{a}", "[", "[a]")), st.randoms(use_true_random=False))
def test_calls_beside_other_text_are_read_as_they_stand(nested_grammar: NestedGrammar, rng: random.Random) -> None:
    """Brackets of text need not be closed, so a text may begin like a call and go on otherwise."""
    try:
        dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    except PatternTooLarge:
        assume(False)
    except ConfigurationError as error:
        assume(not any(reason in str(error) for reason in ("nothing else", "no depth", "closing bracket")))
        raise
    for _ in range(12):
        whole = sample(nested_grammar, rng, 12)
        for changed in (whole, mutated(whole, rng, "ab{}[]")):
            assert dfa.accepts(changed.encode()) == matches(nested_grammar, changed), changed


def test_which_rule_was_called_may_be_known_at_its_end() -> None:
    """`{a}` is followed by x, `{b}` by y, and `{c}` by either."""
    nested_grammar = NestedGrammar(
        Alternate((Concat((Call(0), text("x"))), Concat((Call(1), text("y"))))),
        (NestedRule("{", parse(r"[ac]\}")), NestedRule("{", parse(r"[bc]\}"))),
    )
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    accepted = [b + e for b in ("{a}", "{b}", "{c}") for e in ("x", "y") if dfa.accepts((b + e).encode())]
    assert accepted == ["{a}x", "{b}y", "{c}x", "{c}y"]


def test_states_know_how_deep_they_must_go() -> None:
    # A list holds at least one list or the letter; an object holds a list.
    nested_grammar = NestedGrammar(
        Alternate((text("-"), Call(0))),
        (
            NestedRule("{", sequence(Call(1), text("}"))),
            NestedRule("[", sequence(Alternate((Call(0), text("a"))), text("]"))),
        ),
    )
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    assert dfa.need[dfa.start] == 0
    assert dfa.need[dfa.entry].tolist() == [1, 0] or dfa.need[dfa.entry].tolist() == [1, 0, 1]
    assert dfa.accepts(b"{[{[a]}]}")


def test_a_call_without_end_is_left_out() -> None:
    nested_grammar = NestedGrammar(Alternate((text("a"), Call(0))), (NestedRule("[", sequence(Call(0), text("]"))),))
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    assert dfa.accepts(b"a")
    assert not dfa.calls
    nothing = nested_grammar_dfa(NestedGrammar(Call(0), nested_grammar.rules), DEFAULT_LIMITS)
    assert not nothing.accepting.any()


def test_after_a_call_the_text_may_continue_where_it_was_opened() -> None:
    """Any number of `{a}` and then `{b}`: only at its end is it known which it was."""
    nested_grammar = NestedGrammar(
        Concat((Repeat(Call(0), 0, None), Call(1))), (NestedRule("{", parse(r"a\}")), NestedRule("{", parse(r"b\}")))
    )
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    accepted = [t for t in ("", "{a}", "{b}", "{a}{b}", "{a}{a}{b}", "{b}{b}") if dfa.accepts(t.encode())]
    assert accepted == ["{b}", "{a}{b}", "{a}{a}{b}"]
    assert dfa.need[dfa.start] == 1


def test_what_no_depth_is_enough_for_is_refused() -> None:
    """Which rule a bracket began is known at its end, where one more may have to follow: as deep as the one before."""
    twice = Concat((Alternate((Call(0), Concat((Call(1), Call(1))))), text("}")))
    nested_grammar = NestedGrammar(Call(1), (NestedRule("{", text("a}")), NestedRule("{", twice)))
    with pytest.raises(ConfigurationError, match="no depth is enough"):
        nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)


def test_an_end_that_no_text_leads_to_does_not_count() -> None:
    """The second rule calls itself without end, so nothing after it can be refused."""
    endless = Concat((Repeat(Call(0), 0, None), Concat((Call(0), Call(1))), text("}")))
    nested_grammar = NestedGrammar(Repeat(Call(1), 0, None), (NestedRule("{", text("a}")), NestedRule("{", endless)))
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    assert dfa.accepts(b"")
    assert not dfa.calls


def test_a_call_beside_other_text_is_written_in_place() -> None:
    """`[` begins a call and other text, which part after one more call."""
    lists = NestedRule("[", sequence(Repeat(Call(0), 0, None), text("]")))
    nested_grammar = NestedGrammar(Alternate((Call(0), parse(r"\[(\[x)?"))), (lists,))
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    for whole in ("[]", "[", "[[x", "[[]", "[[]]", "[[[]][]]", "[[x]", "[[", "[x"):
        assert dfa.accepts(whole.encode()) == matches(nested_grammar, whole), whole


def test_a_call_that_is_written_in_place_returns_to_all_of_its_callers() -> None:
    """`{[` begins a call in a call, the same call in text, and text alone."""
    objects, lists = NestedRule("{", sequence(Call(1), text("a}"))), NestedRule("[", parse("c*]"))
    inline = sequence(text("{"), Call(1), text("b}"))
    nested_grammar = NestedGrammar(Alternate((Call(0), inline, text("{[x"))), (objects, lists))
    dfa = nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)
    for whole in ("{[]a}", "{[]b}", "{[c]a}", "{[cc]b}", "{[x", "{[]", "{[]x", "{[x]a}"):
        assert dfa.accepts(whole.encode()) == matches(nested_grammar, whole), whole


def test_calls_in_place_that_do_the_same_as_text_share_its_states() -> None:
    lists = NestedRule("[", parse("[ab]{9}]"))
    dfa = nested_grammar_dfa(NestedGrammar(Alternate((Call(0), parse(r"\[(?s:.)*"))), (lists,)), DEFAULT_LIMITS)
    assert dfa.states == nested_grammar_dfa(NestedGrammar(parse(r"\[(?s:.)*")), DEFAULT_LIMITS).states


def test_a_call_beside_text_that_nests_without_limit_is_refused() -> None:
    lists = NestedRule("[", sequence(Repeat(Call(0), 0, None), text("]")))
    with pytest.raises(ConfigurationError, match="nothing else"):
        nested_grammar_dfa(NestedGrammar(Alternate((Call(0), parse(r"[\[x]*"))), (lists,)), DEFAULT_LIMITS)


def test_a_rule_that_continues_after_its_end_is_refused() -> None:
    nested_grammar = NestedGrammar(Call(0), (NestedRule("[", parse("a*")),))
    with pytest.raises(ConfigurationError, match="closing bracket"):
        nested_grammar_dfa(nested_grammar, DEFAULT_LIMITS)


def _by_number(count: int, body: Callable[[int, Node], Node]) -> NestedGrammar:
    """Return the nested grammar of `[0]a`, `[1]b` and so on: what may follow depends on how the call ends."""
    options = Alternate(tuple(Concat((Call(i), text(chr(ord("a") + i)))) for i in range(count)))
    return NestedGrammar(options, tuple(NestedRule("[", body(i, options)) for i in range(count)))


def test_a_bracket_may_have_many_meanings() -> None:
    dfa = nested_grammar_dfa(_by_number(20, lambda i, _: text(f"{i}]")), DEFAULT_LIMITS)
    for i in range(20):
        for j in range(20):
            assert dfa.accepts(f"[{i}]{chr(ord('a') + j)}".encode()) == (i == j)


def test_too_many_meanings_of_a_bracket_that_recurs_are_refused() -> None:
    def body(i: int, options: Node) -> Node:
        return Concat((Repeat(options, 0, None), text(f"{i}]")))

    dfa = nested_grammar_dfa(_by_number(4, body), DEFAULT_LIMITS)
    assert dfa.accepts(b"[[2]c[[0]a1]b3]d")
    assert not dfa.accepts(b"[[2]c[[0]a1]a3]d")
    with pytest.raises(PatternTooLarge, match="5 different ways"):
        nested_grammar_dfa(_by_number(5, body), DEFAULT_LIMITS)


def test_limits_hold_for_all_parts_together() -> None:
    nested_grammar = NestedGrammar(
        Call(0), (NestedRule("[", sequence(listed(Call(1)), text("]"))), NestedRule("{", parse("[a-z]{50}}")))
    )
    with pytest.raises(PatternTooLarge, match="more than 40 states"):
        nested_grammar_dfa(nested_grammar, lk.Limits(states=40))


def test_calls_of_deep_trees_are_found() -> None:
    assert has_calls(_deep(Call(0)))
    assert not has_calls(_deep(text("a")))


def _deep(tree: Node) -> Node:
    for _ in range(5_000):
        tree = Repeat(Concat((text("b"), tree)), 0, 1)
    return tree
