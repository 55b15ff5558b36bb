"""Several states in one batch continue as each does alone, from their caches."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit import SequenceState
from logitkit.errors import ConfigurationError, SampleMismatch
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.sessions.continuation import PROMPT, PROMPTS, fresh_logits, last_logits
from tests.sessions.engines import ENGINES, loaded, watched
from tests.sessions.spelling import SpaceFirst, state_of
from tests.sessions.test_sequence_state import ROWS, cached, check_cache
from tests.sessions.transformers_generator import choice, generator

COLUMNS = ("prompt_lengths", "seams", "finished")


def check(found: SequenceState, parts: list[SequenceState]) -> None:
    """Compare a batch with its parts."""
    assert found.rows == tuple(row for part in parts for row in part.rows)
    assert found.new_texts == tuple(text for part in parts for text in part.new_texts)
    for name in ("weights", "open_weights", *COLUMNS):
        torch.testing.assert_close(getattr(found, name), torch.cat([getattr(part, name) for part in parts]))
    there = found.attention_masks == 1
    values = torch.cat([part.token_log_probs[part.attention_masks == 1] for part in parts])
    torch.testing.assert_close(found.token_log_probs[there], values, equal_nan=True, rtol=0, atol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("samples", [1, 2])
def test_a_batch_continues_like_its_parts(engine: str, samples: int) -> None:
    text = continuous(*loaded(engine), num_samples=samples, do_sample=False)
    other = continuous(*loaded(engine), num_samples=samples, do_sample=False)
    parts = [text(PROMPTS, max_new_tokens=5), text(PROMPT, max_new_tokens=2), other("Item: pen", max_new_tokens=9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = SequenceState.batch(parts)
    check(both, parts)
    assert (both.batch_size, both.num_samples) == (5, samples)
    with watched(loaded(engine)[0]) as fed:
        found = text(both, max_new_tokens=6)
    # Nothing but the last token of each row and the new ones.
    rows = 1 if engine == "transformers" else len(both)
    assert sum(fed) <= 6 * rows
    check(found, [text(part, max_new_tokens=6) for part in parts])


@pytest.mark.parametrize("seed", range(3))
def test_the_cache_of_ragged_slices_is_right(seed: int) -> None:
    draw = random.Random(seed)
    text, yes = generator(), choice(" yes", " certainly not")
    states = [text(PROMPTS, max_new_tokens=6), yes(PROMPTS[1:]), text(PROMPT, max_new_tokens=3)]
    parts = [one.tokens[(slice(None),) * (one.batch_size > 1) + (slice(draw.randint(4, 20)),)] for one in states]
    both = SequenceState.batch([*parts, *states])
    assert both.cached > 0
    with last_logits(model()) as seen:
        text(both, max_new_tokens=1)
    for row, logits in zip(both.rows, seen[-1], strict=True):
        torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-4)
    check_again = SequenceState.batch([both[[0, 2, 5], ...], both[-1:, ...]])
    with last_logits(model()) as seen:
        text(check_again, max_new_tokens=1)
    for row, logits in zip(check_again.rows, seen[-1], strict=True):
        torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-4)


def test_columns_of_the_cache_stay_with_their_tokens() -> None:
    for counts in ((3, 1), (1, 3), (2, 2)):
        parts = [cached(state_of(rows), count) for rows, count in zip((ROWS, ROWS[1:3]), counts, strict=True)]
        both = SequenceState.batch(parts)
        # The columns that all parts have, with the padding of the second.
        assert both.cached == min(counts[0], counts[1] + 1)
        check_cache(both)
        assert both.rows == tuple(map(tuple, ROWS + ROWS[1:3]))


def test_a_processor_is_carried_on_in_each_row() -> None:
    date = continuous(model(), tokenizer(), lk.Regex(r" \d{4}-\d\d-\d\d", vocabulary()), carry_state=True)
    parts = [date("The meeting is on", max_new_tokens=n) for n in (2, 5)]
    both = SequenceState.batch(parts)
    check(date(both, max_new_tokens=20), [date(part, max_new_tokens=20) for part in parts])
    # Of different processors, none is kept.
    assert SequenceState.batch([parts[0], generator()(PROMPT, max_new_tokens=1)]).processor is None


def test_a_batch_without_all_caches_says_that_it_drops_them(tmp_path: Path) -> None:
    text = generator()
    state = text(PROMPTS, max_new_tokens=3)
    state.save(tmp_path)
    other: Any = continuous(*loaded("llama.cpp"))
    for without in (
        state_of([[5, 6]], tokenizer=tokenizer()),
        SequenceState.load(tmp_path, tokenizer()),
        other(PROMPT, max_new_tokens=2),
    ):
        for parts in ([state, without], [without, state]):
            with pytest.warns(CacheDropped, match="some states of the batch have no cache") as caught:
                both = SequenceState.batch(parts)
            assert (both.kv_cache, both.cached, caught[0].filename) == (None, 0, __file__)
            assert text(both, max_new_tokens=2).rows == tuple(
                row for part in parts for row in text(part, max_new_tokens=2).rows
            )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SequenceState.batch([state_of([[5, 6]]), state_of([[7]])])
        assert SequenceState.batch([state, text.load(tmp_path)]).cached > 0


def test_what_cannot_share_a_batch() -> None:
    with pytest.raises(ConfigurationError, match="states contains nothing"):
        SequenceState.batch([])
    with pytest.raises(ConfigurationError, match="states contains a str; give at least one SequenceState"):
        SequenceState.batch([state_of(ROWS), "text"])  # type: ignore[list-item]
    with pytest.raises(SampleMismatch, match="states of 1 and of 2 samples cannot share a batch"):
        SequenceState.batch([state_of(ROWS), state_of(ROWS, 2)])
    with pytest.raises(ConfigurationError, match="another tokenizer"):
        SequenceState.batch([state_of(ROWS), state_of(ROWS, tokenizer=SpaceFirst())])
