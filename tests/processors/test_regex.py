"""`Regex`: what is legal when, on vocabularies of a few tokens."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, VocabularyError
from logitkit.protocol import leaves
from tests.processors.four_logits import NEVER, after

# Ids:                      0     1     2     3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]


def test_only_tokens_that_begin_a_match() -> None:
    assert after(lk.Regex("ab", AB), [], LOGITS) == [0.5, NEVER, 2.0, NEVER]


def test_tokens_continue_where_the_text_is() -> None:
    assert after(lk.Regex("ab", AB), [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_eos_only_where_the_text_matches() -> None:
    assert after(lk.Regex("ab", AB), [2], LOGITS) == [NEVER, NEVER, NEVER, 3.0]
    assert after(lk.Regex("a*", AB), [], LOGITS) == [0.5, NEVER, NEVER, 3.0]


def test_after_eos_only_eos() -> None:
    assert after(lk.Regex("a*", AB), [3], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_after_eos_also_pad() -> None:
    padded = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], pad_id=2)
    assert after(lk.Regex("a*", padded), [3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(lk.Regex("a*", padded), [3, 2, 2], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(lk.Regex("a*", padded), [], LOGITS) == [0.5, NEVER, NEVER, 3.0]


def test_a_dead_row_ends_with_eos_at_zero() -> None:
    assert after(lk.Regex("ab", AB), [1], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
    assert after(lk.Regex("ab", AB), [1, 0, 1], [*LOGITS[:3], NEVER]) == [NEVER, NEVER, NEVER, 0.0]


def test_every_eos_id_ends() -> None:
    two = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[2, 3])
    assert after(lk.Regex("a?", two), [0], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(lk.Regex("a?", two), [2], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(lk.Regex("ab", two), [1], LOGITS) == [NEVER, NEVER, 0.0, 0.0]


def test_ids_without_text_are_never_legal() -> None:
    special = lk.Vocabulary([b"a", None, b"b"], eos_ids=[3], size=4)
    assert after(lk.Regex(r"[\s\S]*", special), [], LOGITS) == [0.5, NEVER, 2.0, 3.0]


def test_columns_after_the_vocabulary_are_never_legal() -> None:
    assert after(lk.Regex("[ab]*", AB), [], [*LOGITS, 9.0, 9.0]) == [*LOGITS, NEVER, NEVER]


def test_two_ids_of_equal_bytes_are_both_legal() -> None:
    twins = lk.Vocabulary([b"a", b"a", b"b", None], eos_ids=[3])
    assert after(lk.Regex("a|bb", twins), [], LOGITS) == [0.5, -1.0, 2.0, NEVER]
    assert after(lk.Regex("ab", twins), [1], LOGITS) == [NEVER, NEVER, 2.0, NEVER]


def test_a_character_may_come_byte_by_byte() -> None:
    split = lk.Vocabulary([b"\xc3", b"\xa9", "é".encode(), None], eos_ids=[3])
    assert after(lk.Regex("é+", split), [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.Regex("é+", split), [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(lk.Regex("é+", split), [0, 1], LOGITS) == [0.5, NEVER, 2.0, 3.0]


def test_the_prompt_is_not_part_of_the_text() -> None:
    assert after(lk.Regex("ab", AB), [], LOGITS, prompt=[1, 1, 3]) == [0.5, NEVER, 2.0, NEVER]


def test_missing_tokens_change_nothing() -> None:
    assert after(lk.Regex("ab", AB), [-1, 0, -1], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_infinite_logits_stay_what_they_are() -> None:
    assert after(lk.Regex("[ab]*", AB), [], [torch.inf, NEVER, 1.0, torch.inf]) == [
        torch.inf,
        NEVER,
        1.0,
        torch.inf,
    ]
    assert after(lk.Regex("b*", AB), [], [torch.inf, NEVER, torch.inf, 2.0]) == [NEVER, NEVER, NEVER, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_legal_logits_keep_their_bits(dtype: torch.dtype) -> None:
    regex = lk.Regex("[ab]*", AB)
    context = lk.Context.of([[]], vocabulary_size=4)
    logits = torch.tensor([[0.1, -3.3e4, 65504.0, -0.0]]).to(dtype)
    _, processed = regex.process_logits(regex.init_state(context), logits.clone(), context)
    assert processed.dtype == dtype
    assert torch.equal(processed, logits)
    assert torch.signbit(processed[0, 3])


def test_rows_are_in_states_of_their_own() -> None:
    regex = lk.Regex("ab*", AB)
    context = lk.Context.of([[], [0], [1, 1]], vocabulary_size=4)
    state = regex.advance(regex.init_state(context), torch.tensor([0, -1, 1]))
    _, processed = regex.process_logits(state, torch.tensor([LOGITS] * 3), context)
    assert processed.tolist() == [
        [NEVER, -1.0, NEVER, 3.0],
        [0.5, NEVER, 2.0, NEVER],
        [NEVER, NEVER, NEVER, 0.0],
    ]
    assert regex.is_dead(state).tolist() == [False, False, True]
    assert regex.is_finished(regex.advance(state, torch.tensor([3, 0, 3]))).tolist() == [True, False, False]


def test_neither_the_state_nor_the_processor_changes() -> None:
    regex = lk.Regex("ab*", AB)
    context = lk.Context.of([[]], vocabulary_size=4)
    state = regex.init_state(context)
    before = [t.clone() for t in leaves(state)]
    regex.process_logits(regex.advance(state, torch.tensor([0])), torch.tensor([LOGITS]), context)
    assert all(torch.equal(a, b) for a, b in zip(leaves(state), before, strict=True))
    assert regex == lk.Regex("ab*", AB)
    assert hash(regex) == hash(lk.Regex("ab*", AB))
    assert regex != lk.Regex("ab+", AB)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))], ids=["deepcopy", "pickle"])
def test_copies_constrain_alike(again: object) -> None:
    regex = lk.Regex("ab*", AB)
    after(regex, [], LOGITS)
    assert callable(again)
    assert after(again(regex), [0], LOGITS) == [NEVER, -1.0, NEVER, 3.0]


def test_a_wrong_pattern_is_shown() -> None:
    with pytest.raises(PatternSyntaxError) as caught:
        lk.Regex("a(b", AB)
    assert caught.value.position == 1
    assert str(caught.value).endswith("    a(b\n     ^")


def test_a_pattern_that_is_not_a_text() -> None:
    with pytest.raises(ConfigurationError, match="a pattern must be str, not bytes"):
        lk.Regex(b"ab", AB)  # type: ignore[arg-type]


def test_a_compiled_pattern_is_refused_with_what_to_give() -> None:
    with pytest.raises(ConfigurationError, match=r"give its text, pattern\.pattern"):
        lk.Regex(re.compile("ab"), AB)  # type: ignore[arg-type]


def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(ConfigurationError, match=r"matches no text at all, so nothing could be generated"):
        lk.Regex(r"[^\s\S]", AB)


def test_a_pattern_that_the_tokens_cannot_spell() -> None:
    with pytest.raises(
        ConfigurationError, match="the tokens of the vocabulary spell no text that the pattern 'c' matches"
    ):
        lk.Regex("c", AB)


def test_a_pattern_beyond_the_limits() -> None:
    with pytest.raises(PatternTooLarge, match=r"more than 5 states; .* pass limits=Limits\(states=\.\.\.\)"):
        lk.Regex("a{9}", AB, limits=lk.Limits(states=5))
    assert lk.Regex("a{9}", AB).automaton.states > 5


def test_a_vocabulary_without_eos() -> None:
    with pytest.raises(VocabularyError, match=r"no EOS id, so no constrained text could end; pass eos_ids="):
        lk.Regex("a", lk.Vocabulary([b"a"], eos_ids=[]))


def test_a_value_that_is_not_a_vocabulary() -> None:
    with pytest.raises(VocabularyError, match=r"vocabulary is of type list; give a logitkit\.Vocabulary"):
        lk.Regex("a", [b"a"])  # type: ignore[arg-type]


def test_logits_of_a_smaller_model() -> None:
    with pytest.raises(VocabularyError, match="3 columns, but the vocabulary has 4 ids"):
        after(lk.Regex("a", AB), [], [0.0, 0.0, 0.0])


def test_limits_of_another_type() -> None:
    with pytest.raises(ConfigurationError, match=r"limits is None; give logitkit\.Limits"):
        lk.Regex("a", AB, limits=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["states", "work"])
@pytest.mark.parametrize("bound", [0, -1, 2.0, "9", True, None])
def test_limits_that_are_not_positive_integers(name: str, bound: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is .*; allowed are integers from 1"):
        lk.Limits(**{name: bound})
