"""Rules with a number as parameter, against LLGuidance and against what the documentation of LLGuidance says of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.lark import read_lark
from tests.examples import examples
from tests.grammars.guidance_judge import guidance_reads
from tests.grammars.mistakes import check_mistake
from tests.grammars.recogniser import accepts

# Examples of LLGuidance's documentation, with the characters of the texts that are tried, the longest of these, and what it says.
DOCUMENTED: dict[str, tuple[str, int, Callable[[str], bool]]] = {
    """start: perm::0x0
perm::_: "" %if is_ones([0:3])
  | "a" perm::set_bit(0) %if bit_clear(0)
  | "b" perm::set_bit(1) %if bit_clear(1)
  | "c" perm::set_bit(2) %if bit_clear(2)
""": ("abc", 4, lambda text: sorted(text) == ["a", "b", "c"]),
    """start: perm::0x0
perm::_: "" %if is_ones([0:3]) | "a" perm::set_bit(0) | "b" perm::set_bit(1)
  | "c" perm::set_bit(2)
""": ("abc", 5, lambda text: {*text} == {*"abc"}),
    """start: aa::0
aa::_: "b" aa::incr(_) %if lt(_, 5)
     | bb::_
bb::_: "a" bb::incr(_) %if lt(_, 5)
     | ""
""": ("ab", 6, lambda text: "ab" not in text and len(text) <= 5),
    """start: lst::0x0
lst::_: "a" lst::incr([0:3]) %if lt([0:3], 1)
  | "b" lst::incr([3:6]) %if lt([3:6], 2) | "c" lst::incr([6:9]) %if lt([6:9], 3) | ""
""": ("abc", 5, lambda text: text.count("a") <= 1 and text.count("b") <= 2 and text.count("c") <= 3),
    """start: pick::0x0
pick::_: "" %if bit_count_ge(_, 1)
  | "a" pick::set_bit(0) %if and(bit_clear(0), bit_count_lt(_, 2))
  | "b" pick::set_bit(1) %if and(bit_clear(1), bit_count_lt(_, 2))
  | "c" pick::set_bit(2) %if and(bit_clear(2), bit_count_lt(_, 2))
""": ("abc", 4, lambda text: 1 <= len(text) <= 2 and len({*text}) == len(text)),
}


@pytest.mark.parametrize("grammar", DOCUMENTED)
def test_documented_examples(grammar: str) -> None:
    characters, longest, has = DOCUMENTED[grammar]
    rules = read_lark(grammar)
    for length in range(longest + 1):
        for text in map("".join, product(characters, repeat=length)):
            assert accepts(rules, text) == has(text), text


# Bits of the parameter as they are written, with the first one and the one after the last.
RANGES = (("_", 0, 64), ("[0:1]", 0, 1), ("[1:2]", 1, 2), ("[0:2]", 0, 2), ("[1:3]", 1, 3), ("[0:3]", 0, 3))
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# An expression or a condition as it is written, and in Python, with `p` for the parameter.
Written: TypeAlias = tuple[str, str]


def bits(first: int, end: int) -> str:
    return f"(p // 2**{first} % 2**{end - first})"


def expressions() -> st.SearchStrategy[Written]:
    found: list[Written] = [("_", "p"), ("5", "5"), ("0x2", "2"), ("bit_and(0x6)", "p & 6"), ("bit_or(3)", "p | 3")]
    for written, first, end in RANGES[1:]:
        most = 2 ** (end - first) - 1
        found.append((f"incr({written})", f"p if {bits(first, end)} == {most} else p + {2**first}"))
        found.append((f"decr({written})", f"p - {2**first} if {bits(first, end)} else p"))
    for k in range(3):
        found.append((f"set_bit({k})", f"p if {bits(k, k + 1)} else p + {2**k}"))
        found.append((f"clear_bit({k})", f"p - {2**k} if {bits(k, k + 1)} else p"))
    return st.sampled_from(found)


def conditions() -> st.SearchStrategy[Written]:
    # LLGuidance documents `true()` too, but does not read it.
    simple: list[Written] = [("true", "True"), ("true()", "True")]
    for written, first, end in RANGES:
        part = bits(first, end)
        simple += [(f"is_ones({written})", f"{part} == 2**{end - first} - 1"), (f"is_zeros({written})", f"{part} == 0")]
        for name, sign in COMPARISONS.items():
            for k in range(4):
                simple.append((f"{name}({written}, {k})", f"{part} {sign} {k}"))
                simple.append((f"bit_count_{name}({written}, {k})", f"bin({part}).count('1') {sign} {k}"))
    for k in range(3):
        simple += [(f"bit_set({k})", f"{bits(k, k + 1)} == 1"), (f"bit_clear({k})", f"{bits(k, k + 1)} == 0")]
    return st.recursive(
        st.sampled_from(simple),
        lambda inner: (
            inner.map(lambda c: (f"not({c[0]})", f"(not ({c[1]}))"))
            | st.tuples(st.sampled_from(("and", "or")), inner, inner).map(
                lambda drawn: (f"{drawn[0]}({drawn[1][0]}, {drawn[2][0]})", f"({drawn[1][1]} {drawn[0]} {drawn[2][1]})")
            )
        ),
        max_leaves=3,
    )


# The letters of an alternative, the rule that it calls with the expression, if it does, and its condition.
Option: TypeAlias = tuple[str, tuple[str, Written] | None, Written]


@st.composite
def numbered_rules(draw: DrawFn) -> tuple[int, dict[str, list[Option]]]:
    """Draw two rules, whose parameter has three bits that change, and the number with which the first one begins."""
    call = st.tuples(st.sampled_from(("p", "q")), expressions())
    option = st.tuples(st.sampled_from(("a", "b", "ab")), st.none() | call, conditions())
    return draw(st.integers(0, 7)), {name: draw(st.lists(option, min_size=1, max_size=4)) for name in ("p", "q")}


def belongs(rules: dict[str, list[Option]], name: str, p: int, text: str) -> bool:
    """Whether a rule with a number has a text."""
    for letters, call, condition in rules[name]:
        # The expressions are those above.
        if text.startswith(letters) and eval(condition[1], {"p": p}):
            rest = text.removeprefix(letters)
            if belongs(rules, call[0], eval(call[1][1], {"p": p}), rest) if call else not rest:
                return True
    return False


@settings(max_examples=examples(60), deadline=None)
@given(numbered_rules())
def test_random_rules_have_the_texts_of_an_interpreter(drawn: tuple[int, dict[str, list[Option]]]) -> None:
    first, bodies = drawn
    lines = [f"start: p::{first}"]
    for name, options in bodies.items():
        texts = [f'"{o[0]}"' + (f" {o[1][0]}::{o[1][1][0]}" if o[1] else "") + f" %if {o[2][0]}" for o in options]
        lines.append(f"{name}::_: {' | '.join(texts)}")
    texts = ["".join(text) for length in range(1, 6) for text in product("ab", repeat=length)]
    expected = {text: belongs(bodies, "p", first, text) for text in texts}
    try:
        rules = read_lark("\n".join(lines), lexer="dynamic")
    except GrammarError as error:
        if "no finite text" not in error.reason:
            raise
        assert not any(expected.values())
        return
    assert {text: accepts(rules, text) for text in texts} == expected


@pytest.mark.parametrize("grammar", DOCUMENTED)
def test_llguidance_reads_the_documented_examples_alike(grammar: str) -> None:
    characters, longest, has = DOCUMENTED[grammar]
    texts = ["".join(text) for length in range(min(longest, 4) + 1) for text in product(characters, repeat=length)]
    assert guidance_reads(grammar, texts) == {text: has(text) for text in texts}


def test_a_compiled_grammar_generates_permutations() -> None:
    tokens: list[bytes | None] = [b"a", b"b", b"c", b"ab", b"bca", None]
    grammar = lk.Grammar(next(iter(DOCUMENTED)), lk.Vocabulary(tokens, eos_ids=[5]), syntax="lark")
    assert {grammar.example(seed) for seed in range(40)} == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert grammar.automaton.nesting.is_flat
    captured = DOCUMENTED.keys().__iter__()
    text = "outer[capture]: inner\n" + next(captured).replace("start: perm", "start: outer\ninner: perm")
    assert lk.Grammar(text, lk.Vocabulary(tokens, eos_ids=[5]), syntax="lark").captures("bca") == {"outer": ["bca"]}


def test_rules_without_a_text_are_left_out() -> None:
    rules = read_lark('start: x::0 | "b" x::1? | "c" x::2*\nx::_: "a" %if and(true(), eq(_, 1))')
    texts = {"": False, "a": False, "b": True, "ba": True, "c": True, "ca": False}
    assert {text: accepts(rules, text) for text in texts} == texts
    assert not rules.warnings


MISTAKES = {
    'start: p::0\np::: "a"': (2, 4, "the parameter _, as in name::_: ..., is missing"),
    'start: p::_\np::_: "a"': (1, 11, "outside of a rule with a parameter, the parameter is a number, and not '_'"),
    'start: p::1\np: "a"': (1, 8, "the rule with a parameter 'p' is not defined"),
    'start: p\np::_: "a"': (1, 8, "the rule p has a parameter; give it a number, as in p::0"),
    'start: A::1\nA: "a"': (1, 8, "only rules, in lower case, have a parameter"),
    'start: A\nA: p::1\np::_: "a"': (2, 4, "only rules, in lower case, have a parameter"),
    'start: "a"\nA::_: "a"': (2, 2, "the terminal A has a parameter"),
    'start: p::0\np::_: "a"\np::_: "b"': (3, 1, "p is defined more than once"),
    'start: p::0\np::_: "a"\np: "b"': (3, 1, "p is defined more than once"),
    'start: p::0\np::_[lazy]: "a"': (2, 5, "p has a parameter, so it has no attributes"),
    'start: "a" %if true': (1, 12, "%if is the condition of an alternative of a rule with a parameter"),
    'start: A\nA: "a" %if true': (2, 8, "%if is the condition"),
    'start: p::0\np::_: ("a" %if true)': (2, 12, "%if stands at the end of an alternative of a rule, and not in a group"),
    'start: p::0\np::_: "a" %if true "b"': (2, 20, "%if stands at the end of an alternative"),
    'start: p::0\np::_: "a" %if maybe(_)': (2, 15, "'maybe' is not a condition; allowed are and, or, not"),
    'start: p::0\np::_: "a" %if eq([3:3], 0)': (2, 18, "the range [3:3] is empty"),
    'start: p::0\np::_: "a" %if eq([64:65], 0)': (2, 19, "the bit 64 is too large; allowed are 0 to 63"),
    'start: p::0\np::_: "a" %if eq([0:65], 0)': (2, 21, "the bit 65 is too large; allowed are 0 to 64"),
    'start: p::0\np::_: "a" %if eq(_ 0)': (2, 20, ", is missing here"),
    'start: p::0\np::_: "a" %if eq(_, x)': (2, 21, "x is not a number from 0 to 18446744073709551615"),
    "start: p::99999999999999999999999\np::_: p::_": (1, 11, "is not a number from 0 to"),
    "start: p::-1\np::_: p::_": (1, 11, "-1 is not a number from 0 to"),
    'start: p::0\np::_: "a" p::double(_) | "b"': (2, 14, "'double' is not an expression of a parameter; allowed are a number, _"),
    'start: p::0\np::_: "a" %if eq(_, 1)': (1, 1, "the rule start has no finite text: it needs a rule with a parameter"),
    "start: _": (1, 8, "'_' means nothing here"),
}  # fmt: skip


@pytest.mark.parametrize("grammar", MISTAKES)
def test_a_mistake_has_its_place(grammar: str) -> None:
    check_mistake(grammar, MISTAKES[grammar])


@pytest.mark.parametrize(
    "grammar",
    [
        'start: p::0\np::_: "a" p::incr(_) | "b"',
        "start: p::0\np::_: " + " | ".join([*(f'"{i}" p::set_bit({i}) %if bit_clear({i})' for i in range(40)), '"."']),
        'start: p::0\np::_: "a" %if ' + "not(" * 3000 + "true" + ")" * 3000,
    ],
)
def test_numbers_without_end_are_refused_in_time(grammar: str) -> None:
    with pytest.raises((PatternTooLarge, GrammarError)):
        read_lark(grammar)
