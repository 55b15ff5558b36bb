"""Reasoning, a marker, and then what nests without bound."""

from __future__ import annotations

import json
import random

import pytest
import torch

import logitkit as lk
from logitkit import Then
from logitkit.batching import BatchedRequests, NewRequest
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar
from logitkit.errors import ConfigurationError
from logitkit.patterns import parse
from tests.automata.nested_grammars import JSON, Nested
from tests.automata.test_pushdown import advanced, legal_of, may_go_on
from tests.vocabularies import tekken

PIECES = (b"h", b"m", b"</", b"<", b"/", b">", b"[", b"]", b"></", b">[", b"hm<", b"1", b'"', b"]]", b",", b"[[1")
THINK, EOS = len(PIECES), len(PIECES) + 1
# `</>` is the marker, or the token THINK.
SMALL = lk.Vocabulary([*PIECES, None, None], eos_ids=[EOS])


def legal_after(constraint: Then, tokens: list[int]) -> list[int]:
    state = constraint.init_state(lk.Context.of([[]], SMALL.size))
    for token in tokens:
        state = advanced(constraint, state, token)  # type: ignore[arg-type]
    return legal_of(constraint, state, SMALL.size).nonzero().flatten().tolist()  # type: ignore[arg-type]


def spell(*pieces: bytes) -> list[int]:
    return [PIECES.index(piece) for piece in pieces]


@pytest.mark.parametrize("first", [None, lk.Regex("(hm?)*<?", SMALL)], ids=["anything", "pattern"])
def test_the_marker_is_text(first: lk.Regex | None) -> None:
    constraint = lk.then(first, Nested(JSON, SMALL, max_depth=2), "</>")
    dfa = constraint.nested_dfa()
    rng = random.Random(0)
    for _ in range(20):
        said: list[int] = []
        for _ in range(9):
            text = b"".join(PIECES[t] for t in said if t < len(PIECES))
            legal = legal_after(constraint, said)
            assert [t for t in legal if t < len(PIECES)] == [
                t for t, piece in enumerate(PIECES) if may_go_on(dfa, text + piece, 2)
            ]
            assert (EOS in legal) == dfa.accepts(text, 2)
            # Ids without text are free before the marker, if anything is.
            assert (THINK in legal) == (first is None and b"</>" not in text)
            going_on = [t for t in legal if t < len(PIECES)]
            if not going_on:
                break
            said.append(rng.choice(going_on))


def test_the_marker_is_a_token() -> None:
    constraint = lk.then(None, Nested(JSON, SMALL, max_depth=2), THINK)
    everything = [*range(len(PIECES))]
    assert legal_after(constraint, []) == [*everything, THINK]
    assert legal_after(constraint, spell(b"]]", b"</", b">")) == [*everything, THINK]
    values = spell(b"[", b"1", b'"', b"[[1")
    assert legal_after(constraint, [THINK]) == sorted(values)
    assert legal_after(constraint, [*spell(b"h"), THINK, *spell(b"[[1", b"]]")]) == [EOS]
    assert legal_after(constraint, [THINK, *spell(b"[[1")]) == sorted(spell(b"1", b",", b"]", b"]]"))


def test_a_token_with_text_may_be_the_marker() -> None:
    """After the first, it is text like any other."""
    marker = PIECES.index(b"[")
    constraint = lk.then(lk.Regex("h*", SMALL), Nested(JSON, SMALL), marker)
    assert legal_after(constraint, []) == sorted(spell(b"h", b"["))
    assert legal_after(constraint, spell(b"h", b"[")) == sorted(spell(b"[", b"1", b'"', b"[[1"))
    assert legal_after(constraint, spell(b"[", b"[", b"]")) == [EOS]


def test_what_nests_nothing_is_a_finite_automaton() -> None:
    date = Nested(NestedGrammar(parse("1+")), SMALL)
    assert not lk.then(None, date, "</>").automaton.has_stacks
    assert not lk.then(date, None, THINK).automaton.has_stacks
    assert lk.ForcedPrefix("h", SMALL, then=date).byte_dfa().accepts(b"h11")
    counted = lk.then(None, Nested(NestedGrammar(parse("1+")), SMALL, closing=3), THINK)
    assert counted.automaton.has_stacks
    # Of three tokens, two are needed: the marker, and a digit.
    assert legal_after(counted, spell(b"h")) == [THINK]
    assert legal_after(counted, [THINK, *spell(b"1", b"1")]) == [EOS]


def test_all_that_is_said_counts() -> None:
    constraint = lk.then(None, Nested(JSON, tekken(), closing=12), "</think>")
    rng = random.Random(3)
    tokens = tekken().tokens
    state = constraint.init_state(lk.Context.of([[]], tekken().size))
    said: list[int] = []
    while True:
        choices = legal_of(constraint, state, tekken().size).nonzero().flatten().tolist()  # type: ignore[arg-type]
        token = rng.choice([t for t in choices if tokens[t] and b"<" not in tokens[t]] or choices)
        if token in tekken().eos_ids:
            break
        state = advanced(constraint, state, token)  # type: ignore[arg-type]
        said.append(token)
    assert len(said) <= 12
    text = b"".join(tokens[t] or b"" for t in said)
    json.loads(text.partition(b"</think>")[2])


def test_what_nests_can_only_come_last() -> None:
    anything = Nested(JSON, SMALL)
    with pytest.raises(ConfigurationError, match="only come last"):
        lk.then(anything, lk.Regex("h", SMALL), THINK)
    with pytest.raises(ConfigurationError, match="only come last"):
        lk.then(anything, anything, "</>")
    with pytest.raises(ConfigurationError, match="only come last"):
        lk.ForcedPrefix("h", SMALL, then=anything)
    with pytest.raises(ConfigurationError, match="EOS"):
        lk.then(None, anything, EOS)
    with pytest.raises(ConfigurationError, match="another vocabulary"):
        lk.then(lk.Regex("h", tekken()), anything, "</>")


def test_constraints_of_a_chain_that_nest_nothing_are_intersected() -> None:
    date, pattern = Nested(NestedGrammar(parse("1+|hm")), SMALL), lk.Regex("1[1,]*", SMALL)
    both = lk.chain(date, pattern)
    assert [type(p).__name__ for p in both.processors] == ["Intersection"]
    state = both.init_state(lk.Context.of([[]], SMALL.size))
    legal = both.process_logits(state, torch.zeros(1, SMALL.size), lk.Context.of([[]], SMALL.size))[1][0] == 0
    assert legal.nonzero().flatten().tolist() == spell(b"1")


def test_a_chain_ends_rows_that_languages_leave_nothing() -> None:
    both = lk.chain(lk.Regex("h|m", SMALL), Nested(JSON, SMALL))
    assert len(both.processors) == 2
    context = lk.Context.of([[]], SMALL.size)
    state = both.init_state(context)
    logits = both.process_logits(state, torch.zeros(1, SMALL.size), context)[1]
    assert (logits[0] == 0).nonzero().flatten().tolist() == [EOS]
    assert both.conflicts(state).tolist() == [True]


def test_requests_with_either_kind_of_language_share_a_batch() -> None:
    batch = BatchedRequests("cpu")
    pattern, nested = lk.Regex("h+", SMALL), Nested(JSON, SMALL)
    batch.arrange([NewRequest(pattern, []), NewRequest(nested, []), None, NewRequest(lk.then(None, nested, THINK), [])])
    batch.advance(torch.tensor([0, PIECES.index(b"["), 0, THINK]))
    legal = batch.process_logits(torch.zeros(4, SMALL.size)) == 0
    assert legal[0].nonzero().flatten().tolist() == [0, EOS]
    assert legal[1].nonzero().flatten().tolist() == sorted(spell(b"[", b"]", b"1", b'"', b"[[1"))
    assert legal[2].all()
    assert legal[3].nonzero().flatten().tolist() == sorted(spell(b"[", b"1", b'"', b"[[1"))
