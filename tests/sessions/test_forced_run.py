"""The tokens to which a processor leaves no alternative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.sessions import forced_run as module

A, B, AB, C, EOS = range(5)
VOCABULARY = lk.Vocabulary([b"a", b"b", b"ab", b"c", None], eos_ids=[EOS])
CONTEXT = lk.Context.of([[]], vocabulary_size=5)


def run(processor: Any, *tokens: int, context: lk.Context | None = CONTEXT, limit: int = 1024) -> list[int]:
    state = processor.init_state(CONTEXT)
    if tokens:
        state = processor.advance(state, torch.tensor([tokens]))
    return lk.forced_run(processor, state, context=context, limit=limit)


def by_hand(processor: Any, *tokens: int) -> list[int]:
    """Take the only token that is left of zeros, again and again."""
    state = processor.advance(processor.init_state(CONTEXT), torch.tensor([tokens], dtype=torch.int64))
    found: list[int] = []
    while len(found) < 20 and EOS not in found:
        _, logits = processor.process_logits(state, torch.zeros(1, 5), CONTEXT)
        left = (logits[0] > -torch.inf).nonzero()[:, 0].tolist()
        if len(left) != 1:
            break
        found += left
        state = processor.advance(state, torch.tensor(left))
    return found


def test_one_way_on_is_taken_up_to_where_there_are_two() -> None:
    regex = lk.Regex("cc[ab]c", VOCABULARY)
    assert run(regex) == [C, C]
    assert run(regex, C, C) == []
    assert run(regex, C, C, B) == [C, EOS]


def test_the_end_is_forced_where_nothing_else_is_legal_and_ends_the_run() -> None:
    assert run(lk.Regex("c", VOCABULARY), C) == [EOS]
    assert run(lk.Regex("cc?", VOCABULARY), C) == []  # the end, or another c
    assert run(lk.Regex("c", VOCABULARY), C, EOS) == []  # it has ended


def test_a_text_of_two_tokenizations_leaves_a_choice() -> None:
    assert run(lk.Regex("abc", VOCABULARY)) == []  # a and ab
    assert run(lk.Regex("abc", VOCABULARY), A) == [B, C, EOS]


def test_a_row_that_left_the_language_can_only_end() -> None:
    assert run(lk.Regex("cc", VOCABULARY), A) == [EOS]
    two = lk.Vocabulary([b"a", b"b", b"ab", b"c", None], eos_ids=[3, 4])
    assert run(lk.Regex("aa", two), B) == []  # with either


def test_without_a_way_out_the_run_has_a_limit() -> None:
    assert run(lk.ForcedTokens([C] * 50), limit=7) == [C] * 7
    assert run(lk.AllowTokens([C])) == [C] * 1024


@given(
    st.sampled_from(["cc[ab]c", "(ab|c)c*", "c(a|b)?c", "abab", "a|c", "[abc]{2}c", "(?:ab)+c"]),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_the_table_says_what_trying_says(pattern: str, tokens: list[int]) -> None:
    regex = lk.Regex(pattern, VOCABULARY)
    assert run(regex, *tokens) == by_hand(regex, *tokens)
    # With a second constraint that bans nothing, the chain is tried instead.
    assert run(lk.chain(regex, lk.MinNewTokens(0, [EOS])), *tokens) == by_hand(regex, *tokens)


def test_penalties_and_samplers_do_not_change_a_choice_of_one() -> None:
    regex = lk.Regex("cc[ab]c", VOCABULARY)
    full = lk.chain(
        lk.LogitBias({C: -100.0}),
        lk.RepetitionPenalty(2.0),
        lk.FrequencyPenalty(1.0),
        lk.PresencePenalty(1.0),
        regex,
        lk.Temperature(0.5),
        lk.TopK(2),
        lk.TopP(0.5),
        lk.MinP(0.1),
        lk.TypicalP(0.5),
        lk.TopNSigma(1.0),
        lk.Xtc(1.0, 0.1, 0),
    )
    assert run(full) == [C, C]
    assert run(full, C, C, A) == [C, EOS]


def test_where_no_member_bans_nothing_is_forced() -> None:
    for processor in (lk.RepetitionPenalty(2.0), lk.chain(lk.Temperature(0.5), lk.TopK(1)), lk.LogitBias({0: 5.0})):
        assert run(processor) == []
        assert not module.may_force(processor)
    assert module.may_force(lk.chain(lk.BanTokens([1]), lk.TopK(1), lk.TopP(0.1)))


def test_bans_of_several_kinds_add_up() -> None:
    both = lk.chain(lk.Regex("[ab]c", VOCABULARY), lk.BanTokens([A, AB]))
    assert run(both) == [B, C, EOS]
    assert run(lk.chain(lk.Regex("cc?", VOCABULARY), lk.MinNewTokens(2, [EOS])), C) == [C, EOS]
    assert run(lk.ForcedTokens([B, A])) == [B, A]
    assert run(lk.AllowTokens([B]), limit=3) == [B, B, B]


def test_a_ban_of_the_only_token_ends_the_row_as_it_does_in_the_chain() -> None:
    chain = lk.chain(lk.NoRepeatNGram(1), lk.Regex("cc", VOCABULARY))
    state = chain.advance(chain.init_state(CONTEXT), torch.tensor([C]))
    assert chain.process_logits(state, torch.zeros(1, 5), CONTEXT)[1].argmax() == EOS
    assert run(chain, C) == [EOS]


@dataclass(frozen=True)
class Alternating:
    """Another's processor: it allows c where the length is even, and all else where it is odd."""

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: torch.Tensor) -> tuple[()]:
        return state

    def process_logits(
        self, state: tuple[()], logits: torch.Tensor, context: lk.Context
    ) -> tuple[tuple[()], torch.Tensor]:
        even = (context.lengths % 2 == 0)[:, None]
        is_c = torch.arange(logits.shape[1]) == C
        return state, logits.masked_fill(even & ~is_c, -torch.inf)


def test_another_s_processor_is_found_out_by_trying_and_sees_lengths_grow() -> None:
    assert lk.forced_run(Alternating(), (), context=CONTEXT) == [C]
    assert lk.forced_run(Alternating(), (), context=lk.Context.of([[1]], vocabulary_size=5)) == []


def test_what_depends_on_the_logits_is_not_forced() -> None:
    best = lk.Stateless(lambda logits, _: logits.masked_fill(logits < logits.amax(1, keepdim=True), -torch.inf))
    assert run(best) == []


def test_a_processor_that_is_not_a_constraint_is_not_certain() -> None:
    # It leaves the middle one of logits, rising or falling.
    middle = lk.Stateless(lambda logits, _: logits.masked_fill(logits != logits.median(1, keepdim=True)[0], -torch.inf))
    assert run(middle, limit=1) == [AB]
    assert not module.may_force(middle)
    assert not module.may_force(lk.chain(lk.Regex("cc", VOCABULARY), middle))
    assert not module.may_force(Alternating())


def test_a_neutral_row_is_free() -> None:
    regex = lk.Regex("cc", VOCABULARY)
    assert lk.forced_run(regex, regex.neutral_state(CONTEXT)) == []


@pytest.mark.parametrize("limit", [-1, 2.5, float("inf"), None])
def test_a_limit_that_is_not_a_count_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"limit is {limit}; allowed are integers from 0"):
        run(lk.Regex("cc", VOCABULARY), limit=limit)


def test_a_state_that_holds_something_else_is_refused() -> None:
    with pytest.raises(lk.errors.ProcessorError, match="a state holds a list"):
        lk.forced_run(lk.Regex("cc", VOCABULARY), [1])


def test_several_rows_and_an_unknown_vocabulary_are_refused() -> None:
    regex = lk.Regex("cc", VOCABULARY)
    with pytest.raises(lk.errors.BatchMismatch, match="2 rows"):
        lk.forced_run(regex, regex.init_state(lk.Context.of([[], []], vocabulary_size=5)))
    with pytest.raises(ConfigurationError, match="ForcedTokens has no vocabulary"):
        run(lk.ForcedTokens([1]), context=None)
    assert run(regex, context=None) == [C, C, EOS]


def test_in_a_real_vocabulary_text_is_forced_where_one_token_writes_it(tekken: lk.Vocabulary) -> None:
    assert {len(text) for text in tekken.tokens if text and text.isdigit()} == {1}
    x, seven = (tekken.tokens.index(text) for text in (b"x", b"7"))
    number = lk.Regex("(?:x|y)7{30}", tekken)
    state = number.init_state(lk.Context.of([[]], tekken.size))
    assert lk.forced_run(number, state) == []
    assert lk.forced_run(number, number.advance(state, torch.tensor([x]))) == [seven] * 30 + [*tekken.eos_ids]
    # A word is one continuation as a text, but the model has a choice of tokens that write it.
    word = lk.Regex("identification", tekken)
    assert lk.forced_run(word, word.init_state(lk.Context.of([[]], tekken.size))) == []
