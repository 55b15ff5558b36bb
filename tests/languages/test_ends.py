"""EOS ids that are part of a language: what they end, and what may follow."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.languages import (
    Language,
    any_text,
    dispatch,
    either,
    json_schema,
    literal,
    repeat,
    sequence,
    special,
    tag,
)
from tests.processors.four_logits import begun, on_either_path

# Ids:    0 = a, 1 = b, 2 = ab, 3 = [, 4 = ], 5 = <e>, 6 = <c>
PIECES: list[bytes | None] = [b"a", b"b", b"ab", b"[", b"]", None, None]
A, B, E, C, PAD = 0, 1, 5, 6, 6
ONE = lk.Vocabulary(PIECES, eos_ids=[E], pad_id=PAD, special={"<e>": E})
TWO = lk.Vocabulary(PIECES, eos_ids=[E, C], special={"<e>": E, "<c>": C})
END, CALL = special("<e>"), special("<c>")
FREE = [A, B, 2, 3, 4]
NESTED = json_schema({"type": "array", "items": {"$ref": "#"}})


def legal(constraint: Any, tokens: list[int]) -> list[int]:
    return [i for i, logit in enumerate(on_either_path(constraint, tokens, [0.5] * 7)) if logit == 0.5]


@pytest.mark.parametrize("closing", [False, 4])
@pytest.mark.parametrize(
    ("language", "vocabulary", "wanted"),
    [
        # The only EOS id is part of the text that it ends.
        (sequence("a", END), ONE, {(): [A], (A,): [E], (A, E): [E, PAD], (A, E, E): [E, PAD], (A, E, PAD): [E, PAD]}),
        (literal("a<e>"), ONE, {(A,): [E], (A, E): [E, PAD]}),
        # The other one does not end that text.
        (sequence("a", END), TWO, {(A,): [E], (A, E): [E, C]}),
        (either("a", sequence("b", END)), TWO, {(A,): [C], (B,): [E]}),
        # Something has to end a complete text.
        (either("a", sequence("b", END)), ONE, {(A,): [E], (B,): [E]}),
        (either(sequence("a", END), sequence("b", CALL), "ab"), TWO, {(A,): [E, B], (B,): [C], (2,): [E, C]}),
        # The first one that completes the text ends it.
        (repeat(sequence("a", END), 1), ONE, {(A,): [E], (A, E): [E, PAD]}),
        # Nothing follows it, so it is not legal where something has to.
        (either(sequence("a", END, "b"), "ab"), ONE, {(A,): [B], (A, B): [E]}),
        (sequence(NESTED, END), ONE, {(): [3], (3,): [3, 4], (3, 4): [E], (3, 4, E): [E, PAD]}),
        (sequence(NESTED, END), TWO, {(3, 4): [E], (3, 4, E): [E, C]}),
    ],
    ids=repr,
)
def test_by_hand(
    language: Language, vocabulary: lk.Vocabulary, wanted: dict[tuple[int, ...], list[int]], closing: bool | int
) -> None:
    constraint = language.constraint(vocabulary, closing=closing)
    for said, allowed in wanted.items():
        assert legal(constraint, list(said)) == sorted(allowed), said
        finished = bool(constraint.is_finished(begun(constraint, said)))
        assert finished == (E in said or (vocabulary is TWO and C in said)), said


def test_free_text_holds_no_eos() -> None:
    until = any_text(END).constraint(ONE)
    assert legal(until, [A]) == [*FREE, E, C]
    assert legal(until, [A, E]) == [E, PAD]
    later = sequence(any_text("b"), END).constraint(ONE)
    assert legal(later, [A]) == [*FREE, C]
    assert legal(later, [2]) == [E]
    turn = dispatch({"[": tag("[", any_text(), CALL)}, stop_after_first=True).constraint(TWO)
    assert legal(turn, [A]) == [*FREE, E]
    assert legal(turn, [A, 3, A]) == [*FREE, C]
    assert legal(turn, [A, 3, C]) == [E, C]
    without = any_text(exclude=CALL).constraint(TWO)
    assert legal(without, [A]) == [*FREE, E]
    # EOS ends a text, but is not in it.
    assert legal(any_text(exclude=END).constraint(ONE), [A]) == [*FREE, E, C]


@pytest.mark.parametrize("language", [sequence("a", END, "b"), repeat(sequence("a", END), 2), sequence(END, NESTED)])
def test_a_text_that_goes_on_after_eos_is_refused(language: Language) -> None:
    with pytest.raises(
        ConfigurationError, match="the tokens of the vocabulary spell no text that the language matches"
    ):
        language.constraint(ONE)


def test_in_chains_and_after_markers() -> None:
    turn = either(sequence("a", END), sequence("b", CALL), "ab").constraint(TWO)
    regex = lk.Regex("a|b|bb", TWO)
    for both in (lk.chain(turn, regex), lk.chain(regex, turn)):
        assert legal(both, []) == [A, B]
        assert legal(both, [A]) == [E]
        assert legal(both, [B]) == [C]
    with pytest.raises(ConfigurationError, match="no text is allowed by all constraints"):
        lk.chain(turn, lk.Regex("ba", TWO))
    for marker in ("[", 3):
        after = lk.then(None, turn, marker)
        assert legal(after, [A]) == [*FREE]
        assert legal(after, [3, A]) == [B, E]
        assert legal(after, [3, B]) == [C]
        assert legal(after, [3, 2]) == [E, C]
        assert bool(after.is_finished(begun(after, [3, B, C])))


def test_states_are_saved_and_batched() -> None:
    one, two = sequence("a", END).constraint(TWO), sequence("a", CALL).constraint(TWO)
    context = lk.Context.of([[], []], 7)
    state = lk.concatenate([begun(one, [A]), begun(two, [A])])
    masks = one.process_logits(state, torch.zeros(2, 7), context)[1]
    assert [row.nonzero().flatten().tolist() for row in masks == 0] == [[E], [C]]
    finished = one.advance(state, torch.tensor([E, C]))
    assert one.is_finished(finished).tolist() == [True, True]
    dead = one.advance(state, torch.tensor([C, E]))
    assert one.is_dead(dead).tolist() == [True, True]
