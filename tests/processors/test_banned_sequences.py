"""Bans of sequences of token ids, and texts that must be completed without them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.constraints.banned_sequences import BannedSequences
from logitkit.errors import ConfigurationError, PatternTooLarge
from tests.examples import examples

TOKENS = (b"a", b"b", b"ab", b"ba")
VOCABULARY = lk.Vocabulary([*TOKENS, None, None], eos_ids=[4])
SEQUENCES = st.lists(st.lists(st.sampled_from([0, 1, 2, 5]), min_size=1, max_size=4), max_size=5)


def contains_any(row: tuple[int, ...], sequences: list[list[int]]) -> bool:
    return any(list(row[at : at + len(one)]) == one for one in sequences for at in range(len(row)))


def legal(processor: lk.Processor[Any], row: tuple[int, ...]) -> set[int]:
    context = lk.Context.of([[]], vocabulary_size=VOCABULARY.size)
    state = processor.init_state(context)
    if row:
        state = processor.advance(state, torch.tensor([row]))
    logits = processor.process_logits(state, torch.zeros(1, VOCABULARY.size), context)[1][0]
    return set((logits > -torch.inf).nonzero()[:, 0].tolist())


@settings(max_examples=examples(150))
@given(SEQUENCES, st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=6))
def test_only_last_tokens_of_sequences_are_illegal(sequences: list[list[int]], tokens: list[int]) -> None:
    banned = BannedSequences(tuple(map(tuple, sequences)), VOCABULARY)
    row = tuple(tokens)
    while contains_any(row, sequences):
        row = row[:-1]
    expected = {token for token in (0, 1, 2, 3, 5) if not contains_any((*row, token), sequences)}
    assert legal(banned, row) == {*expected, 4}


@settings(max_examples=examples(100))
@given(SEQUENCES, st.sampled_from(["(ab|b){1,3}", "a{1,4}", "[ab]{3}", "abab?"]))
def test_texts_are_completed_without_them(sequences: list[list[int]], pattern: str) -> None:
    regex = lk.Regex(pattern, VOCABULARY)
    rows = [
        row
        for length in range(1, 7)
        for row in itertools.product(range(4), repeat=length)
        if sum(len(TOKENS[t]) for t in row) <= 6
        and not contains_any(row, sequences)
        and regex.matches(b"".join(TOKENS[t] for t in row))
    ]
    try:
        both = lk.chain(BannedSequences(tuple(map(tuple, sequences)), VOCABULARY), regex)
    except ConfigurationError:
        assert not rows
        return
    for begun in {row[:cut] for row in rows for cut in range(len(row) + 1)}:
        after = {row[len(begun)] if len(row) > len(begun) else 4 for row in rows if row[: len(begun)] == begun}
        assert legal(both, begun) == after, (sequences, pattern, begun)


def test_a_sequence_with_eos_never_occurs() -> None:
    assert legal(BannedSequences(((0, 4), (1, 1)), VOCABULARY), (0,)) == {0, 1, 2, 3, 4, 5}


def test_very_long_sequences_are_refused() -> None:
    with pytest.raises(PatternTooLarge, match="more than 50000 states"):
        BannedSequences((tuple([0, 1] * 30_000),), VOCABULARY)
    BannedSequences((tuple([0] * 4_000),), VOCABULARY)
