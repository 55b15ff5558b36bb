"""Random grammars against an Earley recogniser: which tokens are legal after each beginning of a text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.gbnf import read_gbnf
from tests.campaigns.campaign import Campaign, drawn
from tests.grammars.prefix_recogniser import PrefixRecogniser
from tests.grammars.pushdowns import Pushdown, accepts

LIMITS = lk.Limits(states=2_000, work=1_000_000)
PIECES = (
    *(b"a", b"b", b"c", b"(", b")", b"\xc3", b"\xa9", b"\xa8"),
    *(
        b"ab",
        b"ba",
        b"aa",
        b"bb",
        b"aab",
        b"abc",
        b"bca",
        b"((",
        b"))",
        b")a",
        b"a)b",
        b"(a)",
        b"a\xc3",
        b"\xa9b",
        "é".encode(),
    ),
)
EOS = len(PIECES)
# The single bytes come last: a vocabulary must be able to spell any text. Those that the judge does not know are not compared.
TOKENS = lk.Vocabulary([*PIECES, None, *(bytes([byte]) for byte in range(256))], eos_ids=[EOS])
LONGEST = 10
LEAVES = ('"a"', '"b"', '"c"', '"ab"', '"é"', '"("', '")"', "[ab]", "[^a]", "[a-c]", '""')


@dataclass(frozen=True)
class Case:
    """A grammar, and which of the legal tokens to write at each step."""

    grammar: str
    choices: tuple[int, ...]


@st.composite
def cases(draw: DrawFn) -> Case:
    names = ("root", *(f"r{number}" for number in range(1, 1 + draw(st.integers(0, 7)))))
    bodies = st.recursive(
        st.sampled_from((*LEAVES, *names, *names)),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(" ".join),
            st.tuples(inner, inner, inner).map(" ".join),
            st.tuples(inner, inner).map(lambda two: f"({two[0]} | {two[1]})"),
            st.tuples(inner, st.sampled_from(("?", "*", "+", "{2}", "{1,3}"))).map(lambda one: f"({one[0]}){one[1]}"),
            inner.map(lambda one: f'"(" {one} ")"'),
        ),
        max_leaves=5,
    )
    rules = [" | ".join(draw(st.lists(bodies, min_size=1, max_size=3))) for _ in names]
    text = "\n".join(f"{name} ::= {rule}" for name, rule in zip(names, rules, strict=True))
    return Case(text, tuple(draw(st.lists(st.integers(0, 255), min_size=1, max_size=6))))


def check(case: Case, tried: Counter[str]) -> None:
    try:
        rules = read_gbnf(case.grammar)
    except GrammarError:
        tried["grammars refused by the reader"] += 1
        return
    try:
        dfa = pushdown_dfa(Rules(tuple(rule.body for rule in rules.rules), rules.start), LIMITS)
        constraint = Pushdown(dfa, TOKENS)
    except PatternTooLarge:
        tried["grammars refused as too large"] += 1
        return
    tried["grammars compared"] += 1
    judge, written = PrefixRecogniser(rules), list[int]()
    for choice in case.choices:
        text = b"".join(PIECES[token] for token in written)
        legal = [token for token, piece in enumerate(PIECES) if judge.begins(text + piece)]
        may_end = judge.accepts(text)
        assert accepts(dfa, text) == may_end, f"engine: {text!r} {'is' if may_end else 'is not'} a text"
        for token in range(EOS):
            whole = text + PIECES[token]
            assert accepts(dfa, whole) == judge.accepts(whole), f"engine: {whole!r} is judged wrongly"
        expected = legal + [EOS] * may_end
        assert _mask(constraint, written) == expected, f"legal after {text!r} are the tokens {expected}"
        tried["masks"] += 1
        tried["tokens"] += EOS + 1
        if not legal or len(text) >= LONGEST:
            return
        written.append(legal[choice % len(legal)])


def _mask(constraint: Pushdown, written: list[int]) -> list[int]:
    context = lk.Context.of([[]], TOKENS.size)
    state = constraint.init_state(context)
    if written:
        state = constraint.advance(state, torch.tensor([written]))
    masked = constraint.process_logits(state, torch.ones(1, TOKENS.size), context)[1]
    # A dead row is left EOS at logit 0.
    found: list[int] = (masked[0, : EOS + 1] == 1).nonzero().flatten().tolist()
    return found


CAMPAIGN = Campaign(
    "grammars",
    "random grammars over tokens that cross boundaries, with Earley's algorithm",
    drawn(cases(), 60, check),
)
