"""`closing` of grammars that nest: rows end in time, and nothing is forced before it must be."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge
from logitkit.grammars.gbnf import read_gbnf
from tests.batches import tensor_path
from tests.examples import examples
from tests.grammars.own_grammars import OwnGrammar, own_grammars
from tests.grammars.prefix_recogniser import PrefixRecogniser
from tests.grammars.test_branching import PIECES, TOKENS, grammars, legal_of

ALL_BYTES = lk.Vocabulary(
    [*(bytes([byte]) for byte in range(256)), b"((", b"))", b"))a", b"+1", b")+", b"</a>", b'"}', b"]}", b"]]", None],
    eos_ids=[265],
)
SUM = 'root ::= item ("b" item)*\nitem ::= "a" | "(" root ")"'
NESTED = {grammar.name: grammar for syntax in ("gbnf", "lark") for grammar in own_grammars(syntax)}
# Where a name ends, a keyword may not follow: what ends a rule depends on how the rule ended.
UNBOUNDED = "lua.lark"
PALINDROME = 'root ::= "a" root "a" | "b" root "b" | ""'


def written(grammar: lk.Grammar, tokens: lk.Vocabulary, count: int, chance: random.Random) -> bytes:
    """Return a random text of a grammar with a limit on tokens; no row may get stuck, or be incomplete at the limit."""
    context = lk.Context.of([[]], tokens.size)
    state: Any = grammar.init_state(context)
    text = b""
    for left in range(count, -1, -1):
        legal = grammar.allowed_tokens(state)[0].nonzero().flatten().tolist()
        ends = [token for token in legal if token in tokens.eos_ids]
        others = [token for token in legal if token not in tokens.eos_ids]
        assert not bool(grammar.is_dead(state))
        assert ends if left == 0 else legal, text
        if left == 0 or not others:
            return text
        token = chance.choice(others)
        text += tokens.tokens[token] or b""
        state = grammar.advance(state, torch.tensor([token]))
    raise AssertionError


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@pytest.mark.parametrize("name", [name for name in NESTED if name != UNBOUNDED])
def test_own_grammars_end_in_time(name: str) -> None:
    own: OwnGrammar = NESTED[name]
    syntax: Any = name.rpartition(".")[2]
    whole = lk.Grammar(own.text, ALL_BYTES, syntax=syntax, lexer=own.lexer, closing=True)
    least = int(whole.automaton.cost[whole.automaton.start])
    for more in (0, 1, 5, 30):
        grammar = lk.Grammar(own.text, ALL_BYTES, syntax=syntax, lexer=own.lexer, closing=max(least + more, 1))
        for seed in range(3):
            assert grammar.matches(written(grammar, ALL_BYTES, max(least + more, 1), random.Random(seed)))


def test_a_grammar_without_a_bound_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no limit, because the text after a rule depends on how"):
        lk.Grammar(NESTED[UNBOUNDED].text, ALL_BYTES, syntax="lark", closing=True)


def test_grammars_that_are_not_deterministic_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not deterministic; leave out 'closing'"):
        lk.Grammar(PALINDROME, ALL_BYTES, closing=True)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_row_at_the_limit_of_frames_is_not_stuck(depth: int) -> None:
    own = NESTED["query_dsl.lark"]
    grammar = lk.Grammar(own.text, ALL_BYTES, syntax="lark", max_depth=depth)
    state = grammar.init_state(lk.Context.of([[]], ALL_BYTES.size))
    for byte in b"A|join (A|join (A|join (A":
        legal = grammar.allowed_tokens(state)[0]
        if not legal[byte]:
            break
        state = grammar.advance(state, torch.tensor([byte]))
    assert len(grammar.allowed_tokens(state)[0].nonzero()) > 1


def test_what_is_needed() -> None:
    grammar = lk.Grammar(SUM, TOKENS, closing=3)
    state: Any = grammar.init_state(lk.Context.of([[]], TOKENS.size))
    # `((` goes on with `a)`.
    assert [PIECES[t] for t in legal_of(grammar, state)] == [b"a", b"(", b"ab", b"(a", b"((", b"(a)", b"abab"]
    state = grammar.advance(state, torch.tensor([PIECES.index(b"(")]))
    # After `(a`, the token `))` would end the text, but a token counts for one end only.
    assert [PIECES[t] for t in legal_of(grammar, state)] == [b"a", b"a)", b"(a)"]
    assert legal_of(grammar, grammar.advance(state, torch.tensor([PIECES.index(b"a")]))) == [PIECES.index(b")")]
    with pytest.raises(ConfigurationError, match="may take 2 tokens; give at least 2"):
        lk.Grammar('root ::= "(" (root | "b") ")"', TOKENS, closing=1)


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@settings(max_examples=examples(60), deadline=None)
@given(grammars(), st.integers(0, 6), st.integers(0, 2**32))
def test_random_grammars(text: str, more: int, seed: int) -> None:
    limits = lk.Limits(states=3_000, work=1_500_000)
    try:
        whole = lk.Grammar(text, TOKENS, configurations=1, closing=True, limits=limits)
    except (GrammarError, PatternTooLarge, ConfigurationError):
        return
    count = max(int(whole.automaton.cost[whole.automaton.start]) + more, 1)
    grammar = lk.Grammar(text, TOKENS, configurations=1, closing=count, limits=limits)
    chance = random.Random(seed)
    judge = PrefixRecogniser(read_gbnf(text))
    assert judge.accepts(written(grammar, TOKENS, count, chance))
    with tensor_path():
        assert judge.accepts(written(grammar, TOKENS, count, chance))
