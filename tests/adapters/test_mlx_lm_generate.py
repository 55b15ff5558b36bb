"""Every way in which mlx-lm generates: what comes out is of the language, and what a plain run gives, token by token."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx_lm.generate import batch_generate, stream_generate
from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache
from mlx_lm.sample_utils import make_sampler

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.mlx_lm import logits_processor, vocabulary
from tests.adapters import demo
from tests.adapters.demo_mlx_lm import (
    LIMIT,
    batch,
    cached,
    in_bfloat16,
    loaded,
    model,
    noisy_model,
    plain,
    speculative,
    tokenizer,
)

DATE = r" [0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])"
COLOURS = r"(red|green|blue|grey)(, (red|green|blue|grey)){3,5}!?"
RECORD = r'\{"name": "[A-Z][a-z]{1,7}", "age": [1-9][0-9]?(, "tags": \[("[a-z]{1,5}"(, "[a-z]{1,5}"){0,2})?\])?\}'
PATTERNS = [DATE, RECORD]


@cache
def regex(pattern: str) -> lk.Regex:
    return lk.Regex(pattern, vocabulary(tokenizer()))


@cache
def prompts(pattern: str) -> list[list[int]]:
    """Prompts after which the model's own first token is not of the language, of several lengths."""
    found: list[list[int]] = demo.prompts(pattern, count=3).tolist()
    return [ids * (1 + row) for row, ids in enumerate(found)]


@cache
def expected(pattern: str) -> list[list[int]]:
    return [plain(ids, [logits_processor(regex(pattern))]) for ids in prompts(pattern)]


def check(pattern: str, new: list[int]) -> None:
    assert new[-1] in tokenizer().eos_token_ids, tokenizer().decode(new)
    assert re.fullmatch(pattern, tokenizer().decode(new[:-1]))


def reference(pattern: str, prompt: list[int]) -> list[int]:
    """Greedy decoding without a cache, an automaton or a hook: every token is tried on the text."""
    text = ""
    new: list[int] = []
    legal = demo.reference(pattern).legal
    while len(new) < LIMIT:
        logits = np.array(model()(mx.array([*prompt, *new])[None])[0, -1])
        new.append(max(legal(text), key=lambda i: float(logits[i])))
        if new[-1] in tokenizer().eos_token_ids:
            break
        text = tokenizer().decode(new)
    return new


@pytest.mark.parametrize("pattern", PATTERNS)
class TestOneSequence:
    def test_a_plain_run_is_that_of_the_reference(self, pattern: str) -> None:
        for ids, new in zip(prompts(pattern), expected(pattern), strict=True):
            check(pattern, new)
            assert new == reference(pattern, ids)

    def test_streamed(self, pattern: str) -> None:
        for ids, new in zip(prompts(pattern), expected(pattern), strict=True):
            hook = logits_processor(regex(pattern))
            parts = list(stream_generate(*loaded(), ids, max_tokens=LIMIT, logits_processors=[hook]))
            assert [part.token for part in parts] == new
            text = "".join(part.text for part in parts)
            # mlx-lm takes off a space at the beginning.
            assert re.fullmatch(pattern, text) or re.fullmatch(pattern, " " + text)
            hook = logits_processor(regex(pattern))
            assert mlx_lm.generate(*loaded(), ids, max_tokens=LIMIT, logits_processors=[hook]) == text

    @pytest.mark.parametrize("drafts", [1, 4])
    @pytest.mark.parametrize("draft", [model, noisy_model], ids=["itself", "another"])
    def test_drafts_change_nothing(self, pattern: str, draft: Any, drafts: int) -> None:
        for ids, new, told in zip(prompts(pattern), expected(pattern), (False, True, False), strict=True):
            hook = logits_processor(regex(pattern), prompt=ids if told else None)
            assert speculative(ids, [hook], draft(), num_draft_tokens=drafts) == new

    @pytest.mark.parametrize("told", [False, True])
    def test_a_cached_prompt_changes_nothing(self, pattern: str, told: bool) -> None:
        for ids, new, behind in zip(prompts(pattern), expected(pattern), (1, 2, 5), strict=True):
            hook = logits_processor(regex(pattern), prompt=ids if told else None)
            assert plain(ids[-behind:], [hook], prompt_cache=cached(ids[:-behind])) == new

    def test_a_cache_from_a_file(self, pattern: str, tmp_path: Any) -> None:
        ids, new = prompts(pattern)[1], expected(pattern)[1]
        save_prompt_cache(str(tmp_path / "cache.safetensors"), cached(ids[:-3]))
        layers = load_prompt_cache(str(tmp_path / "cache.safetensors"))
        assert plain(ids[-3:], [logits_processor(regex(pattern), prompt=ids)], prompt_cache=layers) == new

    def test_prefill_in_chunks(self, pattern: str) -> None:
        ids, new = prompts(pattern)[2], expected(pattern)[2]
        assert plain(ids, [logits_processor(regex(pattern))], prefill_step_size=4) == new

    def test_sampled(self, pattern: str) -> None:
        mx.random.seed(0)
        sampler = make_sampler(temp=1.5)
        for ids in prompts(pattern):
            check(pattern, plain(ids, [logits_processor(regex(pattern))], sampler=sampler))
            check(pattern, speculative(ids, [logits_processor(regex(pattern))], noisy_model(), sampler=sampler))

    def test_bfloat16(self, pattern: str) -> None:
        dtypes = set()

        def watch(tokens: Any, logits: Any) -> Any:
            dtypes.add(logits.dtype)
            return logits

        hooks: list[Any] = [watch, logits_processor(regex(pattern)), watch]
        check(pattern, plain(prompts(pattern)[0], hooks, model=in_bfloat16()))
        assert dtypes == {mx.bfloat16}

    def test_one_hook_serves_a_second_generation(self, pattern: str) -> None:
        hook = logits_processor(regex(pattern))
        for ids, new in zip(prompts(pattern) * 2, expected(pattern) * 2, strict=True):
            assert plain(ids, [hook]) == new

    def test_a_text_that_was_cut_goes_on(self, pattern: str) -> None:
        ids, new = prompts(pattern)[0], expected(pattern)[0]
        begun = [*ids, *new[:3]]
        assert plain(begun, [logits_processor(regex(pattern), prompt=ids)]) == new[3:]


@pytest.mark.parametrize("pattern", PATTERNS)
class TestBatches:
    def test_a_hook_for_each_sequence(self, pattern: str) -> None:
        hooks: list[Any] = [[logits_processor(regex(pattern))] for _ in prompts(pattern)]
        assert batch(prompts(pattern), hooks) == expected(pattern)

    @pytest.mark.parametrize(
        "options", [{}, {"completion_batch_size": 2, "prefill_batch_size": 2}], ids=["whole", "small"]
    )
    def test_one_hook_for_all(self, pattern: str, options: dict[str, Any]) -> None:
        eos = tokenizer().eos_token_ids
        for told in (None, prompts(pattern) * 2):
            hook = logits_processor(regex(pattern), prompt=told)
            found = batch_generate(
                *loaded(),
                prompts(pattern) * 2,
                max_tokens=LIMIT,
                logits_processors=[hook],
                return_token_ids=True,
                **options,
            )
            assert found.token_ids == [[i for i in new if i not in eos] for new in expected(pattern)] * 2

    def test_cached_prompts(self, pattern: str) -> None:
        eos = tokenizer().eos_token_ids
        ends = [len(ids) - 1 - row for row, ids in enumerate(prompts(pattern))]
        for told in (None, prompts(pattern)):
            found = batch_generate(
                *loaded(),
                [ids[end:] for ids, end in zip(prompts(pattern), ends, strict=True)],
                prompt_caches=[cached(ids[:end]) for ids, end in zip(prompts(pattern), ends, strict=True)],
                max_tokens=LIMIT,
                logits_processors=[logits_processor(regex(pattern), prompt=told)],
                return_token_ids=True,
            )
            assert found.token_ids == [[i for i in new if i not in eos] for new in expected(pattern)]

    def test_sampled(self, pattern: str) -> None:
        mx.random.seed(0)
        rows = [prompts(pattern)[0]] * 5
        hook = logits_processor(regex(pattern))
        found = batch(rows, [[hook]] * 5, sampler=make_sampler(temp=1.5))
        assert len({tuple(new) for new in found}) > 1
        for new in found:
            check(pattern, new)


def test_sequences_with_processors_of_their_own() -> None:
    patterns = [*PATTERNS, COLOURS]
    rows = [prompts(pattern)[2] for pattern in patterns]
    hooks: list[Any] = [[logits_processor(regex(pattern))] for pattern in patterns]
    free = prompts(DATE)[1]
    found = batch([*rows, free], [*hooks, []])
    for pattern, new in zip(patterns, found, strict=False):
        assert new == expected(pattern)[2]
    assert found[-1] == plain(free, [])


@pytest.mark.parametrize("more", [1, 2, 4])
def test_a_sequence_that_says_the_prompt_of_another(more: int) -> None:
    short, new = prompts(COLOURS)[0], expected(COLOURS)[0]
    long = [*short, *new[:more]]
    both = [new, plain(long, [logits_processor(regex(COLOURS))])]
    check(COLOURS, both[1])
    hook = logits_processor(regex(COLOURS))
    assert batch([short, long], [[hook], [hook]]) == both
    hook = logits_processor(regex(COLOURS))
    assert batch([long, short], [[hook], [hook]], prefill_batch_size=1) == both[::-1]


def test_the_lookahead_sees_the_whole_text() -> None:
    calls = 0

    def count(tokens: Any, logits: Any) -> Any:
        nonlocal calls
        calls += 1
        return logits

    hook = logits_processor(regex(DATE))
    new = plain(prompts(DATE)[0], [hook, count])
    assert calls == len(new) + 1
    assert regex(DATE).is_finished(hook.state).tolist() == [True]


def test_hooks_stand_beside_processors_of_mlx_lm() -> None:
    ids = prompts(DATE)[0]
    biased = mlx_lm.sample_utils.make_logits_processors(logit_bias={5: 100.0})
    check(DATE, plain(ids, [*biased, logits_processor(regex(DATE))]))
    check(DATE, plain(ids, [logits_processor(regex(DATE)), *biased]))
    late = lk.Regex(r" 2[0-9]{3}.*", vocabulary(tokenizer()))
    new = plain(ids, [logits_processor(regex(DATE)), logits_processor(late)])
    check(DATE, new)
    check(r" 2.*", new)


def test_a_hook_may_be_shown_the_prompt_again_in_the_midst_of_a_generation() -> None:
    ids, hook = prompts(DATE)[0], logits_processor(regex(DATE))

    def twice(tokens: Any, logits: Any) -> Any:
        hook(tokens[: len(ids)], logits)
        return hook(tokens, logits)

    assert plain(ids, [twice]) == plain(ids, [logits_processor(regex(DATE))])


def test_output_that_mlx_lm_does_not_show_is_refused() -> None:
    ids, hook = prompts(DATE)[0], logits_processor(regex(DATE))
    embeddings = model().model.embed_tokens(mx.array(ids))
    with pytest.raises(ConfigurationError, match="first token"):
        plain([], [hook], input_embeddings=embeddings)
    with pytest.raises(ConfigurationError, match="last token only"):
        speculative(ids, [hook], noisy_model(), num_draft_tokens=0)
    # With the tokens all is well.
    check(DATE, plain(ids, [hook], input_embeddings=embeddings))
