"""Pushdown automata over tokens, against the automata over bytes that they are made of."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, NestedRule
from logitkit.compiler.tokens.compile import pushdown_automaton
from logitkit.errors import ConfigurationError, PatternTooLarge, StateFileError
from logitkit.patterns import Alternate, Call, parse
from logitkit.runtime.constraint_state import ConstraintState
from tests.automata.nested_grammars import JSON, Nested, matches, nested_grammars, sequence, text
from tests.examples import examples
from tests.vocabularies import tekken

PIECES = (
    b"a",
    b"b",
    b"{",
    b"}",
    b"[",
    b"]",
    b"ab",
    b"{{",
    b"}}",
    b"]}",
    b"}a{",
    b"[]",
    b"}]{[",
    b"]]]",
    b"}}b",
    b"{a}",
    b"[b",
)
EOS = len(PIECES)
SMALL = lk.Vocabulary([*PIECES, None], eos_ids=[EOS])


def run_bytes(dfa: NestedDfa, spelled: bytes) -> tuple[int, list[int], int]:
    """Return the state and the stack after some bytes, and the most frames meanwhile."""
    state, stack, highest = dfa.start, list[int](), 0
    for byte in spelled:
        does = int(dfa.step[state, dfa.byte_class[byte]])
        if NestedStep.is_call(does):
            stack.append(int(dfa.frame[NestedStep.number(does)]))
            does = int(dfa.entry[NestedStep.number(does)])
        elif NestedStep.is_end(does):
            does = int(dfa.return_state[NestedStep.number(does), stack.pop()])
        state, highest = does, max(highest, len(stack))
        if state == DEAD:
            break
    return state, stack, highest


def may_go_on(dfa: NestedDfa, spelled: bytes, max_depth: int) -> bool:
    """Whether some text that nests no deeper than allowed begins with these bytes."""
    state, stack, highest = run_bytes(dfa, spelled)
    needed = [i + dfa.frame_need[frame] for i, frame in enumerate(stack)]
    return state != DEAD and max(highest, len(stack) + dfa.need[state], *needed, 0) <= max_depth


def legal_of(constraint: Nested, state: ConstraintState, size: int) -> torch.Tensor:
    """Return the legal tokens of the only row, found on both paths alike."""
    context = lk.Context.of([[]], size)
    legal = constraint.process_logits(state, torch.zeros(1, size), context)[1][0] == 0
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        again = constraint.process_logits(state, torch.zeros(1, size), context)[1][0] == 0
    assert torch.equal(legal, again)
    return legal


def advanced(constraint: Nested, state: ConstraintState, token: int) -> ConstraintState:
    """Return the state after a token, found on both paths alike."""
    after = constraint.advance(state, torch.tensor([token]))
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        again = constraint.advance(state, torch.tensor([token]))
    assert all(torch.equal(a, b) for a, b in zip((*after.at, *after[1:]), (*again.at, *again[1:]), strict=True))
    return after


def made(
    nested_grammar: NestedGrammar, vocabulary: lk.Vocabulary, max_depth: int = 32, closing: bool | int = False
) -> Nested:
    """Return the constraint, if there is one."""
    try:
        return Nested(nested_grammar, vocabulary, max_depth, closing)
    except (ConfigurationError, PatternTooLarge):
        assume(False)
        raise


@settings(max_examples=examples(150))
@given(nested_grammars(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_legal_is_what_can_be_completed(nested_grammar: NestedGrammar, max_depth: int, rng: random.Random) -> None:
    constraint = made(nested_grammar, SMALL, max_depth)
    dfa = constraint.nested_dfa()
    state, said = constraint.init_state(lk.Context.of([[]], SMALL.size)), b""
    for _ in range(8):
        legal = legal_of(constraint, state, SMALL.size)
        wanted = [may_go_on(dfa, said + piece, max_depth) for piece in PIECES]
        assert legal.tolist() == [*wanted, dfa.accepts(said)], said
        choices = legal[:EOS].nonzero().flatten().tolist()
        if not choices:
            break
        token = rng.choice(choices)
        state, said = advanced(constraint, state, token), said + PIECES[token]
    ends = bool(legal_of(constraint, state, SMALL.size)[EOS])
    assert ends == matches(nested_grammar, said.decode(), max_depth)


@settings(max_examples=examples(100))
@given(
    nested_grammars(),
    st.sets(st.sampled_from(PIECES), min_size=4),
    st.integers(1, 3),
    st.integers(1, 30),
    st.randoms(use_true_random=False),
)
def test_what_must_be_closed_is_closed(
    nested_grammar: NestedGrammar, pieces: set[bytes], max_depth: int, budget: int, rng: random.Random
) -> None:
    """Whatever is chosen, and also where the tokens cannot spell everything."""
    tokens = sorted(pieces)
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    constraint = made(nested_grammar, vocabulary, max_depth, budget)
    needed = int(constraint.automaton.cost[constraint.automaton.start])
    state, said, count = constraint.init_state(lk.Context.of([[]], vocabulary.size)), b"", 0
    while True:
        legal = legal_of(constraint, state, vocabulary.size)
        choices = legal[: len(tokens)].nonzero().flatten().tolist()
        if not choices:
            break
        token = rng.choice(choices)
        state, said, count = advanced(constraint, state, token), said + tokens[token], count + 1
    assert legal[len(tokens)]
    assert matches(nested_grammar, said.decode(), max_depth)
    assert count <= max(budget, needed)


def test_a_text_that_could_not_be_closed_in_time_is_closed_as_soon_as_can_be() -> None:
    vocabulary = lk.Vocabulary([b"[", b"]", b"1", b",", None], eos_ids=[4])
    lists = NestedGrammar(Call(0), (NestedRule("[", parse(r"(1(,1)*)?\]")),))
    constraint = Nested(lists, vocabulary, closing=1)
    state = constraint.init_state(lk.Context.of([[]], 5))
    state = constraint.advance(state, torch.tensor([[0, 2, 3]]))
    assert legal_of(constraint, state, 5).tolist() == [False, False, True, False, False]
    state = advanced(constraint, state, 2)
    assert legal_of(constraint, state, 5).tolist() == [False, True, False, False, False]


def test_the_context_says_how_much_is_left() -> None:
    constraint = Nested(JSON, SMALL_JSON, closing=True)
    context = lk.Context.of([[1, 1, 1], []], SMALL_JSON.size, max_length=5)
    state = constraint.init_state(context)
    assert state.left.tolist() == [2, 5]
    assert constraint.advance(state, torch.tensor([[0, -1], [0, 0]])).left.tolist() == [1, 3]
    unknown = constraint.init_state(replace(context, max_length=None))
    assert unknown.left.tolist() == [-1, -1]


LETTERS = '[]{}":,0123456789-.eE+truefalsn\\bu '
SMALL_JSON = lk.Vocabulary([*(c.encode() for c in LETTERS), b'"}]},{"', None], eos_ids=[len(LETTERS) + 1])


def walk(constraint: Nested, rng: random.Random, steps: int, prefers: bytes) -> str | None:
    """Say legal tokens at random, those with some bytes by preference; return the text if it was ended."""
    vocabulary, tokens = constraint.vocabulary, constraint.vocabulary.tokens
    context = lk.Context.of([[]], vocabulary.size)
    state = constraint.init_state(context)
    said: list[int] = []
    liked = torch.tensor([not set(t or b"").isdisjoint(prefers) for t in tokens])
    for _ in range(steps):
        legal = legal_of(constraint, state, vocabulary.size)
        choices = (
            (legal & liked if rng.random() < 0.7 and (legal & liked).any() else legal).nonzero().flatten().tolist()
        )
        token = rng.choice(choices)
        if token in vocabulary.eos_ids:
            return vocabulary.decode(said).decode()
        state = advanced(constraint, state, token)
        said.append(token)
    return None


@pytest.mark.parametrize("seed", range(6))
def test_walks_on_a_real_vocabulary_are_json(seed: int) -> None:
    constraint = Nested(JSON, tekken(), max_depth=3, closing=25)
    said = walk(constraint, random.Random(seed), 40, b'[]{}",:')
    assert said is not None
    json.loads(said)
    assert matches(JSON, said, 3)


def test_any_token_of_a_real_vocabulary() -> None:
    """In a few places, all tokens that may open or close something, against the automaton over bytes."""
    tokens = tekken().tokens
    constraint = Nested(JSON, tekken(), max_depth=3)
    dfa = constraint.nested_dfa()
    single = {t: i for i, t in enumerate(tokens) if t and len(t) == 1}
    for said in (b"", b'[{"a":[1', b'{"a":"x', b'[[{"', b'{"a":tr', b"[[["):
        state = constraint.init_state(lk.Context.of([[]], tekken().size))
        for byte in said:
            state = constraint.advance(state, torch.tensor([single[bytes([byte])]]))
        legal = legal_of(constraint, state, tekken().size).tolist()
        for token, piece in enumerate(tokens):
            if piece and not set(piece).isdisjoint(b'[]{}"'):
                assert legal[token] == may_go_on(dfa, said + piece, 3), (said, piece)


def test_a_nested_grammar_that_calls_nothing_is_a_finite_automaton() -> None:
    constraint = Nested(NestedGrammar(parse("[ab]+")), SMALL)
    assert constraint.automaton.nesting.frames == 0
    state = constraint.init_state(lk.Context.of([[]], SMALL.size))
    assert state.stack.shape == (1, 0)
    assert legal_of(constraint, state, SMALL.size).nonzero().flatten().tolist() == [0, 1, 6]


def test_what_needs_more_depth_than_there_is_is_not_begun() -> None:
    # An object holds a list, so it takes two.
    nested_grammar = NestedGrammar(
        Alternate((text("a"), Call(0), Call(1))),
        (
            NestedRule("{", sequence(Call(1), text("}"))),
            NestedRule("[", sequence(Alternate((text("a"), Call(0))), text("]"))),
        ),
    )
    for depth, legal in ((1, b"[a"), (2, b"{[a")):
        constraint = Nested(nested_grammar, SMALL, depth)
        found = legal_of(constraint, constraint.init_state(lk.Context.of([[]], SMALL.size)), SMALL.size)
        assert {p for p, ok in zip(PIECES, found.tolist(), strict=False) if ok and len(p) == 1} == {
            bytes([b]) for b in legal
        }
    with pytest.raises(ConfigurationError, match="max_depth"):
        Nested(replace(nested_grammar, main=Call(0)), SMALL, 1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s._replace(left=s.left - 5), "tokens left"),
        (lambda s: s._replace(stack=s.stack.roll(1, 1)), "which is impossible"),
        (lambda s: s._replace(stack=s.stack + 99), "does not have"),
        (lambda s: s._replace(at=s.at._replace(state=s.stack.amax(1).long())), "is in state"),
        (lambda s: s._replace(at=s.at._replace(slot=s.at.slot * 0, state=s.at.slot * 0 + 2)), "no automaton"),
    ],
)
def test_impossible_states_are_not_loaded(change: object, complaint: str, tmp_path: Path) -> None:
    constraint = Nested(JSON, SMALL_JSON, max_depth=4)
    state = constraint.init_state(lk.Context.of([[]], SMALL_JSON.size))
    state = constraint.advance(state, torch.tensor([[0, 0]]))
    lk.save_state(tmp_path / "state", change(state), constraint)  # type: ignore[operator]
    with pytest.raises(StateFileError, match=complaint):
        lk.load_state(tmp_path / "state", constraint)


def test_rows_of_different_depths_share_a_batch() -> None:
    deep, shallow = Nested(JSON, SMALL_JSON, 5), Nested(JSON, SMALL_JSON, 2)
    context = lk.Context.of([[]], SMALL_JSON.size)
    both = lk.concatenate([shallow.init_state(context), deep.init_state(context)])
    both = deep.advance(both, torch.zeros(2, 2, dtype=torch.int64))
    logits = deep.process_logits(both, torch.zeros(2, SMALL_JSON.size), context)[1]
    assert (logits[:, 0] == 0).tolist() == [False, True]


def test_limits_hold_for_what_tokens_do() -> None:
    dfa = Nested(JSON, SMALL_JSON).nested_dfa()
    with pytest.raises(PatternTooLarge):
        pushdown_automaton(dfa, tekken(), lk.Limits(work=5_000), "any JSON value")
