"""Every way in which transformers generates: what comes out is of the language, whole and finished."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit_adapters.transformers import logits_processor
from logitkit_adapters.transformers.cache_argument import cache_argument
from tests.adapters.demo import model, prompts, reference, text_of, vocabulary
from tests.adapters.watch import Watch

DATE = r" [0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])"
EMAIL = r"[a-z]{2,8}\.[a-z]{2,8}@(mail\.)?example\.(com|org|net)"
COLOURS = r"(red|green|blue|grey)(, (red|green|blue|grey)){3,5}!?"
RECORD = (
    r'\{"name": "[A-Z][a-z]{1,7}( [A-Z][a-z]{1,7})?", "age": ([1-9][0-9]?)'
    r'(, "tags": \[("[a-z]{1,5}"(, "[a-z]{1,5}"){0,2})?\])?\}'
)
PATTERNS = [DATE, EMAIL, COLOURS, RECORD]
LIMIT = 90  # more tokens than any of their texts has characters, and EOS


@cache
def regex(pattern: str) -> lk.Regex:
    return lk.Regex(pattern, vocabulary())


@cache
def noisy_model() -> Any:
    """An assistant that drafts badly."""
    other = copy.deepcopy(model())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * weight.std() * 0.3)
    return other


def generate(ids: Tensor, *processors: Any, **options: Any) -> Any:
    options = {"max_new_tokens": LIMIT, "do_sample": False, "attention_mask": torch.ones_like(ids), **options}
    torch.manual_seed(0)
    return model().generate(ids, logits_processor=list(processors), **options)


def texts(ids: Tensor, written: Tensor) -> list[str]:
    return [text_of(row[ids.shape[1] :]) for row in written]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_greedy_output_is_that_of_the_reference_decoder(pattern: str) -> None:
    ids = prompts(pattern)
    for row in ids.split(1):
        written = generate(row, logits_processor(regex(pattern)))
        assert written[0, row.shape[1] :].tolist() == reference(pattern).greedy(row, LIMIT)
        assert re.fullmatch(pattern, texts(row, written)[0])


@pytest.mark.parametrize("pattern", [EMAIL, RECORD])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="greedy"),
        pytest.param({"do_sample": True, "temperature": 2.0, "top_k": 0}, id="sampling"),
        pytest.param({"do_sample": True, "top_p": 0.8, "num_return_sequences": 3}, id="samples"),
        pytest.param({"num_beams": 4}, id="beams"),
        pytest.param({"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.5}, id="all beams"),
        pytest.param({"num_beams": 5, "num_return_sequences": 2, "early_stopping": True}, id="early stop"),
        pytest.param({"num_beams": 3, "do_sample": True, "top_k": 0, "num_return_sequences": 3}, id="sampled beams"),
        pytest.param({"cache_implementation": "static"}, id="static cache"),
        pytest.param({"cache_implementation": "static", "num_beams": 3}, id="static cache, beams"),
        pytest.param({"prefill_chunk_size": 4}, id="chunked prefill"),
        pytest.param({"use_cache": False}, id="no cache"),
        pytest.param({"min_new_tokens": 2, "repetition_penalty": 1.2, "no_repeat_ngram_size": 9}, id="built-ins"),
    ],
)
def test_every_returned_row_is_of_the_language(pattern: str, options: dict[str, Any]) -> None:
    ids = prompts(pattern)
    written = generate(ids, logits_processor(regex(pattern)), **options)
    found = texts(ids, written)
    assert len(found) == len(ids) * options.get("num_return_sequences", 1)
    assert [text for text in found if not re.fullmatch(pattern, text)] == []


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("samples", [1, 4])
def test_beams_that_change_places_stay_in_the_language(pattern: str, samples: int) -> None:
    ids, watch = prompts(pattern), Watch()
    options = {"num_beams": 6, "num_return_sequences": samples, "length_penalty": 0.0}
    written = generate(ids, logits_processor(regex(pattern)), watch, **options)
    assert watch.permuted() >= 5
    found = texts(ids, written)
    assert [text for text in found if not re.fullmatch(pattern, text)] == []
    # Each beam had its own mask at each step: what the reference finds legal, and EOS alone where nothing is.
    for step, scores in zip(watch.ids, watch.scores, strict=True):
        for row, allowed in zip(step[:, ids.shape[1] :], scores.isfinite(), strict=True):
            if vocabulary().eos_ids[0] not in row:
                text = vocabulary().decode(row.tolist()).decode("ascii", "replace")
                legal = reference(pattern).legal(text) or {*vocabulary().eos_ids}
                assert set(allowed.nonzero()[:, 0].tolist()) == legal


@pytest.mark.parametrize("pattern", [DATE, COLOURS])
@pytest.mark.parametrize(
    ("assistant", "rejects"),
    [
        pytest.param(lambda: {"assistant_model": noisy_model()}, True, id="another model"),
        pytest.param(lambda: {"assistant_model": model()}, False, id="itself"),
        pytest.param(lambda: {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 2}, True, id="prompt lookup"),
    ],
)
def test_drafts_change_nothing(pattern: str, assistant: Any, rejects: bool) -> None:
    rewinds = 0
    for row in prompts(pattern).split(1):
        hook, watch = logits_processor(regex(pattern)), Watch()
        # A prompt that holds the beginning of a text, so that prompt lookup has something to find.
        ids = torch.cat([row, torch.tensor([reference(pattern).greedy(row, LIMIT)[:-1]]), row], dim=1)
        written = generate(ids, hook, watch, **assistant())
        plain = generate(ids, logits_processor(regex(pattern)))
        assert torch.equal(written, plain)
        assert re.fullmatch(pattern, texts(ids, written)[0])
        assert len(watch.ids) > written.shape[1] - ids.shape[1]
        rewinds += watch.rewound()
    assert rewinds or not rejects


@pytest.mark.parametrize("pattern", [DATE, RECORD])
@pytest.mark.parametrize(
    "assistant", [lambda: {"assistant_model": noisy_model()}, lambda: {"prompt_lookup_num_tokens": 3}]
)
def test_sampled_drafts_stay_in_the_language(pattern: str, assistant: Any) -> None:
    for row in prompts(pattern).split(1):
        written = generate(row, logits_processor(regex(pattern)), do_sample=True, top_k=0, **assistant())
        assert re.fullmatch(pattern, texts(row, written)[0])


def test_left_padded_rows_are_constrained_like_rows_alone() -> None:
    ids = prompts(EMAIL)
    padded = torch.cat([ids[0], torch.zeros(4, dtype=torch.int64)]).roll(4)[None]
    rows = torch.cat([padded, *(torch.cat([row, row[:4]])[None] for row in ids[1:])])
    mask = torch.ones_like(rows)
    mask[0, :4] = 0
    for told in ({}, {"attention_mask": mask}, {"pad_id": 0}):
        for options in ({}, {"num_beams": 4, "num_return_sequences": 2}):
            hook = logits_processor(regex(EMAIL), **told)
            found = texts(rows, generate(rows, hook, attention_mask=mask, **options))
            assert [text for text in found if not re.fullmatch(EMAIL, text)] == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(9, 5, id="shorter"),
        pytest.param(5, 9, id="longer"),
        pytest.param(9, 9, id="the same"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"num_beams": 4}])
def test_one_hook_serves_a_second_generation(first: int, second: int, options: dict[str, Any]) -> None:
    hook = logits_processor(regex(RECORD))
    for length in (first, second):
        ids = prompts(RECORD, length=length)
        written = generate(ids, hook, **options)
        assert torch.equal(written, generate(ids, logits_processor(regex(RECORD)), **options))
        assert [text for text in texts(ids, written) if not re.fullmatch(RECORD, text)] == []


def test_a_prompt_that_is_the_last_text_and_a_token_needs_new_generation() -> None:
    hook = logits_processor(regex(COLOURS))
    ids = prompts(COLOURS, count=1)
    cut = generate(ids, hook, max_new_tokens=4)
    # Ids cannot tell a second turn from the same text going on: the hook goes on.
    assert re.fullmatch(COLOURS, text_of(generate(cut, hook)[0, ids.shape[1] :]))
    hook = logits_processor(regex(COLOURS))
    cut = generate(ids, hook, max_new_tokens=4)
    hook.new_generation()
    assert re.fullmatch(COLOURS, texts(cut, generate(cut, hook))[0])


def test_a_generation_goes_on_from_its_cache() -> None:
    ids = prompts(RECORD, count=2)
    whole = generate(ids, logits_processor(regex(RECORD)))
    begun = generate(ids, logits_processor(regex(RECORD)), max_new_tokens=5, return_dict_in_generate=True)
    name = cache_argument(model())
    for prompt in (ids, ids.tolist()):
        cache = copy.deepcopy(begun[name])
        hook = logits_processor(regex(RECORD), prompt=prompt)
        again = generate(begun.sequences, hook, attention_mask=None, **{name: cache})
        assert torch.equal(again, whole)
    # A next turn, on the cache of the last one: everything before it is prompt.
    turn = torch.cat([begun.sequences, ids], dim=1)
    hook = logits_processor(regex(DATE))
    written = generate(turn, hook, attention_mask=None, **{name: begun[name]})
    assert [text for text in texts(turn, written) if not re.fullmatch(DATE, text)] == []


def test_two_hooks_are_two() -> None:
    ids = prompts(DATE)
    late = lk.Regex(r" 2[0-9]{3}.*", vocabulary())
    assert regex(DATE) != late
    both = generate(ids, logits_processor(regex(DATE)), logits_processor(late), num_beams=3)
    assert [text for text in texts(ids, both) if not re.fullmatch(r" 2[0-9]{3}-.*", text)] == []
    assert [text for text in texts(ids, both) if not re.fullmatch(DATE, text)] == []
    # Not even two hooks of one processor are merged.
    plus = lk.Stateless(lambda logits, context: logits + 1)
    one, two = logits_processor(plus), logits_processor(plus)
    assert one != two
    watch = Watch()
    out = generate(ids, one, two, watch, output_logits=True, return_dict_in_generate=True, max_new_tokens=2)
    assert torch.equal(watch.scores[0], out.logits[0] + 1 + 1)


def test_the_engine_keeps_its_own_logits() -> None:
    ids = prompts(DATE)
    keep = {"return_dict_in_generate": True, "output_logits": True, "output_scores": True}
    for options in ({}, {"num_beams": 3}):
        plain = generate(ids, **keep, **options, max_new_tokens=1)
        out = generate(ids, logits_processor(regex(DATE)), **keep, **options)
        assert torch.equal(out.logits[0], plain.logits[0])
        assert all(logits.isfinite().all() for logits in out.logits)
        # Each step has scores of its own, and of those that are legal none is changed.
        assert len({scores.data_ptr() for scores in out.scores}) == len(out.scores)
        given, first = plain.scores[0], out.scores[0]
        legal = sorted(reference(DATE).legal(""))
        assert first[0].isfinite().nonzero()[:, 0].tolist() == legal
        assert torch.equal(first[:, legal], given[:, legal])
