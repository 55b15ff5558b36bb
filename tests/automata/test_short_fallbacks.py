"""Short chains of fallbacks say what the long ones say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.tokens.tables.short_fallbacks import LONG, Rows, chain_lengths, shortened
from logitkit.runtime.registry_tables import advance_tensors
from tests.automata.host_path import advance_rows

CLASSES = 5


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """States that fall back to any of lower numbers: mostly to the one before, so that chains are long."""
    states = range(1, draw(st.integers(1, 80)))
    fallback = [0, *(draw(st.sampled_from([state - 1] * 9 + [state, state // 2])) for state in states)]
    lists = [draw(st.dictionaries(st.integers(0, CLASSES - 1), st.integers(0, 9), max_size=2)) for _ in fallback]
    entries = [(symbol, target) for one in lists for symbol, target in sorted(one.items())]
    symbol, target = np.array(entries, np.int64).reshape(-1, 2).T
    start = np.cumsum([0, *map(len, lists)])
    return Rows(start, symbol.astype(np.uint8), target.astype(np.int16), np.array(fallback))


def looked_up(rows: Rows, state: int, symbol: int) -> int | None:
    """The target of a class in a state, by the definition."""
    while True:
        for place in range(rows.start[state], rows.start[state + 1]):
            if rows.symbol[place] == symbol:
                return int(rows.target[place])
        if rows.fallback[state] == state:
            return None
        state = int(rows.fallback[state])


@given(rows())
def test_every_look_up_gives_the_same(given: Rows) -> None:
    short = shortened(given, CLASSES)
    assert [a.dtype for a in short] == [a.dtype for a in given]
    for state in range(len(given.fallback)):
        assert (np.diff(short.symbol[short.start[state] : short.start[state + 1]].astype(int)) > 0).all()
        for symbol in range(CLASSES):
            assert looked_up(short, state, symbol) == looked_up(given, state, symbol)
    depth = int(chain_lengths(given.fallback).max())
    assert chain_lengths(short.fallback).max() <= (depth.bit_length() if depth >= LONG else depth)


def test_lengths_of_chains() -> None:
    assert chain_lengths(np.array([0, 0, 1, 3, 3, 2])).tolist() == [0, 1, 2, 0, 1, 3]


@pytest.mark.parametrize("length", [9, 64, 1000])
def test_a_ban_of_one_letter_again_and_again(length: int) -> None:
    vocab = lk.Vocabulary([b"=", b"==", b"=x", b"x=", b"=" * 7, None], eos_ids=[5])
    ban = lk.BannedStrings(["=" * length], vocab)
    assert ban.automaton.longest_chain <= length.bit_length() + 1
    context = lk.Context.of([[]], 6)
    state, said = ban.init_state(context), 0
    for token, after in ((0, 1), (1, 3), (2, 0), (3, 1), (4, 8), (3, 1), (1, 3)):
        state, said = ban.advance(state, torch.tensor([token])), after
        legal = ban.process_logits(state, torch.zeros(1, 6), context)[1][0].isfinite().tolist()
        assert legal == [said + n < length for n in (1, 2, 1)] + [True, said + 7 < length, True]
        for then in range(6):
            tokens = torch.tensor([then])
            assert advance_tensors(ban.registry.tables, *state.at, tokens).equal(
                advance_rows(ban.registry, state.at, tokens)
            )
