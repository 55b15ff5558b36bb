"""Grammars that are not deterministic, against an Earley recogniser: masks, states on both paths, and narrowed rows."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge
from logitkit.grammars.gbnf import read_gbnf
from logitkit.protocol import leaves
from logitkit.runtime.branching_state import BranchingState
from tests.batches import tensor_path
from tests.examples import examples
from tests.grammars.prefix_recogniser import PrefixRecogniser

SINGLE = [b"a", b"b", b"(", b")"]
PIECES = [
    *SINGLE,
    *(x + y for x, y in itertools.product(SINGLE, repeat=2)),
    *(b"aab", b"abb", b"(a)", b"))a", b"abab", b"aaaa", b"bba)"),
]
EOS = len(PIECES)
TOKENS = lk.Vocabulary([*PIECES, None], eos_ids=[EOS])
LIMITS = lk.Limits(states=3_000, work=1_500_000)

PALINDROMES = 'root ::= "a" root "a" | "b" root "b" | ""'
HAND_MADE = {
    "palindromes": PALINDROMES,
    "odd palindromes": 'root ::= "a" root "a" | "b" root "b" | "a" | "b"',
    "once or twice": 'root ::= "a" root "b" | "a" root "b" "b" | ""',
    "ambiguous": 'root ::= "a" root "b" | "a" root "ab" | "aa" root "b" | "b"?',
    "two sorts of pairs": 'root ::= pairs | others\npairs ::= "(" pairs ")" | "a"?\nothers ::= "(" others "))" | "b"?',
    "nullable palindromes": 'root ::= e "a" root "a" e | "b" root "b" | e\ne ::= "()" | ""',
}


def legal_of(grammar: lk.Grammar, state: Any) -> list[int]:
    """Return the legal tokens of the only row, found on both paths alike."""
    context = lk.Context.of([[]], TOKENS.size)
    legal = grammar.process_logits(state, torch.zeros(1, TOKENS.size), context)[1][0] == 0
    with tensor_path():
        again = grammar.process_logits(state, torch.zeros(1, TOKENS.size), context)[1][0] == 0
    assert torch.equal(legal, again)
    found: list[int] = legal.nonzero().flatten().tolist()
    return found


def advanced(grammar: lk.Grammar, state: Any, token: int) -> Any:
    """Return the state after a token, found on both paths alike."""
    after = grammar.advance(state, torch.tensor([token]))
    with tensor_path():
        again = grammar.advance(state, torch.tensor([token]))
    assert all(torch.equal(a, b) for a, b in zip(leaves(after), leaves(again), strict=True))
    return after


def compare(text: str, grammar: lk.Grammar, chance: random.Random, longest: int = 12) -> bool:
    """Compare the masks of a random walk with the judge's; return whether the row was narrowed."""
    judge, written = PrefixRecogniser(read_gbnf(text)), list[int]()
    state: Any = grammar.init_state(lk.Context.of([[]], TOKENS.size))
    while True:
        begun = b"".join(PIECES[token] for token in written)
        expected = [token for token, piece in enumerate(PIECES) if judge.begins(begun + piece)]
        expected += [EOS] * judge.accepts(begun)
        legal = legal_of(grammar, state)
        narrowed = isinstance(state, BranchingState) and bool(state.narrowed)
        if narrowed:
            assert legal
            assert set(legal) <= set(expected), (begun, legal, expected)
        else:
            assert legal == expected, begun
        assert not bool(grammar.is_dead(state))
        choices = [token for token in legal if token != EOS]
        if len(begun) > longest or not choices:
            if EOS in legal:
                assert bool(grammar.is_finished(advanced(grammar, state, EOS)))
            refused = next((token for token in range(EOS) if token not in legal), None)
            assert refused is None or bool(grammar.is_dead(advanced(grammar, state, refused)))
            return narrowed
        written.append(chance.choice(choices))
        state = advanced(grammar, state, written[-1])


@pytest.mark.parametrize("configurations", [2, 3, 16])
@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made(name: str, configurations: int) -> None:
    grammar = lk.Grammar(HAND_MADE[name], TOKENS, configurations=configurations)
    narrowed = [compare(HAND_MADE[name], grammar, random.Random(seed)) for seed in range(5)]
    assert name != "palindromes" or configurations != 16 or not any(narrowed)


def test_more_than_a_row_keeps() -> None:
    grammar = lk.Grammar(PALINDROMES, TOKENS, configurations=2)
    state: Any = grammar.init_state(lk.Context.of([[]], TOKENS.size))
    for _ in range(6):
        state = advanced(grammar, state, PIECES.index(b"a"))
    assert bool(state.narrowed)
    assert legal_of(grammar, state)
    assert bool(grammar.is_dead(grammar.advance(state, torch.tensor([PIECES.index(b"(")]))))


def test_one_configuration_refuses() -> None:
    with pytest.raises(PatternTooLarge, match="did not become deterministic"):
        lk.Grammar(PALINDROMES, TOKENS, configurations=1)


def test_endings_without_limit_are_refused() -> None:
    with pytest.raises(PatternTooLarge, match="a byte may end any number of them"):
        lk.Grammar('root ::= "a" root root? root? | "b"', TOKENS)


def test_another_constraint_cannot_contain_it() -> None:
    grammar = lk.Grammar(PALINDROMES, TOKENS)
    with pytest.raises(ConfigurationError, match="second is a Grammar that is not deterministic"):
        lk.then(lk.Regex("a*", TOKENS), grammar, marker="(")


def test_it_runs_in_a_chain() -> None:
    both = lk.chain(lk.Grammar(PALINDROMES, TOKENS), lk.Regex("a+b+a+", TOKENS))
    context = lk.Context.of([[]], TOKENS.size)
    state = both.init_state(context)
    for token in (b"a", b"b"):
        state = both.advance(state, torch.tensor([PIECES.index(token)]))
    legal = both.process_logits(state, torch.zeros(1, TOKENS.size), context)[1][0] == 0
    assert [PIECES[token] for token in legal.nonzero().flatten().tolist()] == [b"a", b"b", b"aa", b"ba", b"bb", b"aaaa"]


def test_what_is_known_of_it() -> None:
    grammar = lk.Grammar(PALINDROMES, TOKENS, configurations=8)
    report = grammar.report
    assert not report.deterministic
    assert report.configurations == 8
    assert 1 < report.mean_alive <= report.most_alive <= 8
    assert lk.Grammar('root ::= "(" root ")" | ""', TOKENS).report[:4] == (True, 1, 1, 1.0)
    assert grammar.matches("abba")
    assert not grammar.matches("abab")
    text = grammar.example(seed=4)
    assert text == text[::-1]
    refused = lk.explain(grammar, TOKENS, [], [PIECES.index(b"a"), PIECES.index(b"(")]).refusal
    assert refused is not None
    assert refused.expected == "'a' or 'b'"


@st.composite
def grammars(draw: st.DrawFn) -> str:
    names = ("root", *(f"r{number}" for number in range(1, 1 + draw(st.integers(0, 2)))))
    leaf = st.sampled_from(('"a"', '"b"', '"("', '")"', '"ab"', '""', "[ab]"))
    name = st.sampled_from(names)
    body = st.one_of(
        st.tuples(leaf, name, leaf).map(" ".join),
        st.tuples(leaf, name, leaf).map(" ".join),
        st.tuples(leaf, name).map(" ".join),
        st.tuples(name, leaf).map(" ".join),
        st.tuples(name, name).map(" ".join),
        st.tuples(leaf, name, leaf, name).map(" ".join),
        st.tuples(leaf, leaf).map(" ".join),
        leaf,
    )
    rules = [" | ".join([*draw(st.lists(body, min_size=1, max_size=3)), draw(leaf)]) for _ in names]
    return "\n".join(f"{name} ::= {rule}" for name, rule in zip(names, rules, strict=True))


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@settings(max_examples=examples(80), deadline=None)
@given(grammars(), st.sampled_from([2, 4, 32]), st.integers(0, 2**32))
def test_random_grammars(text: str, configurations: int, seed: int) -> None:
    try:
        grammar = lk.Grammar(text, TOKENS, configurations=configurations, limits=LIMITS)
    except (GrammarError, PatternTooLarge):
        return
    compare(text, grammar, random.Random(seed), 8)
