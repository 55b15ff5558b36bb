"""Constraints of all kinds together: no row is ever left with nothing, and what it says satisfies them all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from tests.examples import examples
from tests.registry import EOS, TOKENS, ids, vocabulary

COLUMNS = 72
LONGEST = 24


@dataclass(frozen=True)
class Case:
    """Constraints, and what they ask for in plain Python."""

    processors: tuple[Any, ...]
    pattern: bytes = rb"(?s).*"
    banned: tuple[bytes, ...] = ()
    stops: tuple[bytes, ...] = ()
    least: int = 0


def case(*processors: Any, **asked: Any) -> Case:
    return Case(processors, **asked)


V = vocabulary()

CASES = {
    "stop in a pattern": case(lk.Regex("a{3}", V), lk.StopStrings(["aa"], V), pattern=rb"a{3}", stops=(b"aa",)),
    "stop before a pattern": case(lk.StopStrings(["aa"], V), lk.Regex("a{3}", V), pattern=rb"a{3}", stops=(b"aa",)),
    "ban in a pattern": case(
        lk.Regex("[abc]{4}", V), lk.BannedStrings(["ab", "ca"], V), pattern=rb"[abc]{4}", banned=(b"ab", b"ca")
    ),
    "ban apart from a pattern": case(
        lk.Regex("[abc]{2,5}", V), lk.MinNewTokens(2, [EOS]), lk.BannedStrings(["ab", "ca"], V),
        pattern=rb"[abc]{2,5}", banned=(b"ab", b"ca"), least=2,
    ),
    "stop, ban and pattern": case(
        lk.BannedStrings(["dog"], V), lk.Regex(r"([a-z]|[0-9],)*", V), lk.StopStrings(["b", "1,"], V),
        pattern=rb"([a-z]|[0-9],)*", banned=(b"dog",), stops=(b"b", b"1,"),
    ),
    "a text too short for so many tokens": case(
        lk.Regex("a|b{1,2}", V), lk.MinNewTokens(3, [EOS]), pattern=rb"a|b{1,2}", least=3
    ),
    "stop before so many tokens": case(lk.StopStrings(["a"], V), lk.MinNewTokens(4, [EOS]), stops=(b"a",), least=4),
    "n-grams in a pattern": case(lk.Regex("[ab]{9}", V), lk.NoRepeatNGram(2), pattern=rb"[ab]{9}"),
    "ids in a pattern": case(lk.Regex("(ab|cd){2}", V), lk.BanTokens(ids(b"b")), pattern=rb"(ab|cd){2}"),
    "few ids": case(lk.AllowTokens(ids(b"a", b"b", b"c")), lk.BannedStrings(["a", "b"], V), banned=(b"a", b"b")),
    "all": case(
        lk.BanTokens(ids(b"cat")), lk.Regex("[a-d ]*", V), lk.StopStrings(["dd"], V), lk.BannedStrings(["a a"], V),
        lk.NoRepeatNGram(3), lk.MinNewTokens(5, [EOS]),
        pattern=rb"[a-d ]*", banned=(b"a a",), stops=(b"dd",), least=5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(120))
@given(seed=st.integers(0, 2**32))
def test_rows_go_on_or_end_and_say_what_is_asked(name: str, seed: int) -> None:
    asked = CASES[name]
    chain = lk.chain(*asked.processors)
    chance = torch.Generator().manual_seed(seed)
    context = lk.Context.of([[]], COLUMNS)
    state = chain.init_state(context)
    said: list[int] = []
    while EOS not in said and len(said) < LONGEST:
        state, logits = chain.process_logits(state, torch.randn(1, COLUMNS, generator=chance), context)
        legal = (logits[0] > -torch.inf).nonzero()[:, 0]
        assert len(legal)
        if chain.conflicts(state).item():
            assert legal.tolist() == [EOS]
            assert logits[0, EOS] == 0
        token = legal[torch.randint(len(legal), (1,), generator=chance)]
        said.append(int(token))
        before, state = state, chain.advance(state, token)
    text = b"".join(TOKENS[t] or b"" for t in said if t < len(TOKENS))
    assert not any(ban in text for ban in asked.banned)
    ended = [text.find(stop) + len(stop) for stop in asked.stops if stop in text]
    if ended:
        # The token that completed the stop is the last one.
        shorter = b"".join(TOKENS[t] or b"" for t in said[: -2 if said[-1] == EOS else -1] if t < len(TOKENS))
        assert len(shorter) < min(ended)
    elif said[-1] == EOS and not chain.conflicts(before).item():
        assert re.fullmatch(asked.pattern, text)
        assert len(said) - 1 >= asked.least


def test_neighbouring_automata_never_come_into_conflict() -> None:
    """A ban beside a pattern leaves out what the pattern could not go on from."""
    both = lk.chain(lk.Regex("(ab|cd){2}", V), lk.BannedStrings(["b"], V))
    context = lk.Context.of([[]], COLUMNS)
    logits = both.process_logits(both.init_state(context), torch.zeros(1, COLUMNS), context)[1][0]
    assert logits[list(ids(b"c"))].tolist() == [0]
    assert logits[list(ids(b"a", b"ab"))].tolist() == [-torch.inf] * 2


def test_the_row_that_a_chain_ended_is_named() -> None:
    """Rows that a stop ended are not reported as conflicts."""
    both = lk.chain(lk.Regex("a{3}|b", V), lk.StopStrings(["aa"], V), lk.BanTokens(ids(b"b")))
    context = lk.Context.of([[], [], []], COLUMNS)
    state = both.init_state(context)
    state = both.advance(state, torch.tensor([ids(b"a", b"a"), (*ids(b"b"), -1), (*ids(b"a"), -1)]))
    assert both.conflicts(state).tolist() == [False, False, False]
    narrow = lk.chain(lk.Regex("ab", V), lk.StopStrings(["aa"], V), lk.BanTokens(ids(b"b")))
    state = narrow.advance(narrow.init_state(context), torch.tensor([ids(b"a")[0], -1, ids(b"ab")[0]]))
    assert narrow.conflicts(state).tolist() == [True, False, False]


@pytest.mark.parametrize("first", [True, False])
def test_a_forced_eos_finishes_no_row(first: bool) -> None:
    """Decoders that begin with EOS and a language need this; after it, the row continues under its other constraints."""
    forced, stop = lk.ForcedTokens([EOS, *ids(b"a"), EOS]), lk.StopStrings(["b"], V)
    chain = lk.chain(forced, stop) if first else lk.chain(stop, forced)
    context = lk.Context.of([[]], COLUMNS)
    start = chain.init_state(context)
    state = start
    for token in (EOS, ids(b"a")[0], EOS):
        logits = chain.process_logits(state, torch.zeros(1, COLUMNS), context)[1][0]
        assert logits.isfinite().nonzero()[:, 0].tolist() == [token]
        state = chain.advance(state, torch.tensor([token]))
    at_once = chain.advance(start, torch.tensor([[EOS, -1, ids(b"a")[0], EOS]]))
    for now in (state, at_once):
        assert chain.process_logits(now, torch.zeros(1, COLUMNS), context)[1].isfinite().all()
    ended = chain.advance(state, torch.tensor([EOS]))
    assert chain.process_logits(ended, torch.zeros(1, COLUMNS), context)[1].isfinite().sum() <= 2
    stopped = chain.advance(state, torch.tensor([ids(b"b")[0]]))
    assert chain.process_logits(stopped, torch.zeros(1, COLUMNS), context)[1].isfinite().sum() == 1
