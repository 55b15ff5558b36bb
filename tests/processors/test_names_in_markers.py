"""Markers in which names of special tokens stand beside other text: what comes before and after, and sections of thought."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from tests.examples import examples
from tests.processors.special_tokens import EOS, FIRST_TOKEN, IDS, NAMES, OTHER, PIECES, THINK, TOKENS, contains, ways


@pytest.mark.parametrize("marker", ["a<t>", "<t>a", "a<t>b", "<t><t>", "<t>a<t>", "<<t>", "b<t><o>a"])
@settings(max_examples=examples(80))
@given(st.sampled_from([None, "[ab]*", "a?", "(<|a|t)*"]), st.sampled_from([None, "[ab]*", "a?"]), st.data())
def test_then_against_the_plain_meaning(
    marker: str, first: str | None, second: str | None, data: st.DataObject
) -> None:
    if first is None and second is None:
        return
    before, behind = (None if pattern is None else lk.Regex(pattern, TOKENS) for pattern in (first, second))
    automaton = lk.then(before, behind, marker).automaton
    state, ids = automaton.start, list[int]()
    for _ in range(9):
        legal = [t for t in IDS if t != EOS and automaton.next(state, t) != DEAD]
        whole = divided(ids, marker, first, second)
        assert (automaton.next(state, EOS) == FINISHED) == whole
        assert legal or whole
        # One more token is legal where it completes a text.
        for token in set(IDS) - {EOS}:
            if divided([*ids, token], marker, first, second):
                assert token in legal
        if not legal:
            break
        ids.append(data.draw(st.sampled_from(legal)))
        state = automaton.next(state, ids[-1])


@pytest.mark.parametrize("every_byte", [True, False])
def test_then_a_schema_that_nests(every_byte: bool) -> None:
    texts = [bytes([c]) for c in (range(256) if every_byte else b"[], \n<t>x")]
    vocabulary = lk.Vocabulary([*texts, None, None], len(texts), special={"<e>": len(texts), "<t>": len(texts) + 1})
    schema = lk.JsonSchema({"type": "array", "items": {"$ref": "#"}}, vocabulary, whitespace="compact")
    answer = lk.then(None, schema, "\n<t>,")
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    token_of = {text: i for i, text in enumerate(vocabulary.tokens) if text}

    def legal(*pieces: bytes) -> list[int]:
        ids = [vocabulary.size - 1 if piece == b"<t>" else token_of[piece] for piece in pieces]
        state = answer.advance(answer.init_state(context), torch.tensor([ids]).long())
        masked = answer.process_logits(state, torch.zeros(1, vocabulary.size), context)[1]
        return [i for i, logit in enumerate(masked[0].tolist()) if logit == 0]

    free = [i for i in range(vocabulary.size) if i not in vocabulary.eos_ids]
    for before in (
        [],
        [b"\n"],
        [b"\n", b"<t>"],
        [b"<t>", b","],
        [b"\n", b"<t>", b"<t>", b","],
        [b"\n", b"<", b"<t>", b","],
    ):
        assert legal(*before) == free
    for marker in ([b"\n", b"<t>", b","], [b"x", b"\n", b"\n", b"<", b"t", b">", b","]):
        assert legal(*marker) == [token_of[b"["]]
        assert legal(*marker, b"[", b"]") == [*vocabulary.eos_ids]


def divided(ids: Sequence[int], marker: str, first: str | None, second: str | None) -> bool:
    """Whether tokens are a text of the first pattern, the marker, and a text of the second."""
    symbols: list[int] = []
    for token in ids:
        # Free text may hold ids without text; those that the marker does not name change nothing.
        symbols += PIECES[token] or [FIRST_TOKEN + token]
    named = {FIRST_TOKEN + token for name, token in NAMES.items() if name in marker}
    for end in range(len(symbols) + 1):
        for begin in range(end):
            between = symbols[begin:end]
            if first is None:
                between = [s for s in between if s < FIRST_TOKEN or s in named]
            if tuple(between) in ways(marker):
                return fits(symbols[:begin], first) and fits(symbols[end:], second)
    return False


def fits(symbols: Sequence[int], pattern: str | None) -> bool:
    if pattern is None:
        return True
    return max(symbols, default=0) < FIRST_TOKEN and re.fullmatch(pattern, bytes(symbols).decode()) is not None


@pytest.mark.parametrize("end", ["a<t>b", "<t>a", "a<t>", "<t><o>", "a<t>a"])
@settings(max_examples=examples(80))
@given(st.lists(st.sampled_from([t for t in IDS if t != EOS]), max_size=8))
def test_a_section_of_thought_ends_where_the_marker_does(end: str, ids: list[int]) -> None:
    budget = lk.ThinkingBudget(len(ids), end, TOKENS)
    context = lk.Context.of([[]], vocabulary_size=len(PIECES))
    state, length = budget.init_state(context), 0
    for token in ids:
        if not bool(budget.is_thinking(state)[0]):
            break
        state, length = budget.advance(state, torch.tensor([token])), length + 1
    written = ids[:length]
    assert bool(budget.is_thinking(state)[0]) == (not contains(written, end))
    if contains(written, end) or length < len(ids):
        return
    # The rest of the marker is forced, and nothing but it.
    for _ in range(len(end) + 1):
        if not bool(budget.is_thinking(state)[0]):
            break
        (mask,) = {tuple(budget.process_logits(state, torch.zeros(1, 11), context)[1][0].tolist())}
        legal = [token for token in IDS if mask[token] == 0]
        assert legal
        assert EOS not in legal
        written = [*written, legal[-1]]
        state = budget.advance(state, torch.tensor([legal[-1]]))
    assert contains(written, end)
    assert not bool(budget.is_thinking(state)[0])


def test_a_budget_forces_the_token() -> None:
    context = lk.Context.of([[]], vocabulary_size=11)

    def forced(*ids: int) -> list[int]:
        budget = lk.ThinkingBudget(len(ids), "a<t>b", TOKENS, start=None)
        state = budget.advance(budget.init_state(context), torch.tensor([ids]).long())
        logits = budget.process_logits(state, torch.zeros(1, 11), context)[1]
        return [token for token in IDS if logits[0, token] == 0]

    assert (forced(), forced(1, 0), forced(0, THINK), forced(0, OTHER)) == ([0], [THINK], [1], [THINK])
    # A name is never spelled, even if its beginning has been.
    assert (forced(0, 5), forced(7), forced(0, THINK, THINK)) == ([0], [0], [0])


def test_a_section_begins_after_a_marker_with_a_name() -> None:
    budget = lk.ThinkingBudget(1, "<o>", TOKENS, start="<t>a")
    for prompt, thinks in (([THINK, 0], True), ([2, 3, 4, 0], True), ([THINK, OTHER, 0], True), ([0, THINK], False)):
        state = budget.init_state(lk.Context.of([prompt], vocabulary_size=11))
        assert bool(budget.is_thinking(state)[0]) == thinks
