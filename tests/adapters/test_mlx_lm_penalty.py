"""RepetitionPenalty in mlx-lm: what its own processor gives where that means the same, and the prompt that mlx-lm hides."""

from __future__ import annotations

import warnings
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import torch
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_repetition_penalty

import logitkit as lk
from logitkit_adapters.mlx_lm import logits_processor
from tests.adapters.demo_mlx_lm import batch, cached, in_bfloat16, model, noisy_model, plain, speculative, tokenizer

TOKENS = 24
PENALTY = lk.RepetitionPenalty(1.8)


def prompts(count: int = 3, length: int = 12) -> list[list[int]]:
    generator = torch.Generator().manual_seed(44)
    rows: list[list[int]] = torch.randint(3, len(tokenizer()), (count, length), generator=generator).tolist()
    return [ids[: length - 2 * row] for row, ids in enumerate(rows)]


@pytest.fixture(scope="module")
def expected() -> list[list[int]]:
    found = [plain(ids, [logits_processor(PENALTY)], max_tokens=TOKENS) for ids in prompts()]
    assert min(map(len, found)) > 12
    # The penalty matters, and so do the tokens of the prompt that caches and drafts hide.
    assert found != [plain(ids, [], max_tokens=TOKENS) for ids in prompts()]
    hidden = lk.RepetitionPenalty(1.8, include_prompt=False)
    assert found != [plain(ids, [logits_processor(hidden)], max_tokens=TOKENS) for ids in prompts()]
    return found


@pytest.mark.parametrize("window", [1, 5, 20, 10_000])
@pytest.mark.parametrize("penalty", [0.8, 1.3, 3.0])
def test_equal_to_that_of_mlx_lm(penalty: float, window: int) -> None:
    for ids in prompts():
        hooks = (make_repetition_penalty(penalty, window), logits_processor(lk.RepetitionPenalty(penalty, window)))
        theirs, ours = (
            list(generate_step(mx.array(ids), model(), max_tokens=TOKENS, logits_processors=[hook])) for hook in hooks
        )
        assert [token for token, _ in ours] == [token for token, _ in theirs]
        assert all(np.array_equal(np.array(a), np.array(b)) for (_, a), (_, b) in zip(ours, theirs, strict=True))


def test_equal_to_that_of_mlx_lm_in_bfloat16() -> None:
    # A penalty that bfloat16 can hold: mlx-lm rounds it.
    hooks = (make_repetition_penalty(1.5, 20), logits_processor(lk.RepetitionPenalty(1.5, 20)))
    ids = prompts()[0]
    theirs, ours = (
        list(generate_step(mx.array(ids), in_bfloat16(), max_tokens=8, logits_processors=[hook])) for hook in hooks
    )
    assert [token for token, _ in ours] == [token for token, _ in theirs]
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == mx.bfloat16
        assert mx.array_equal(a, b)


class TestTold:
    @pytest.mark.parametrize("draft", [model, noisy_model], ids=["itself", "another"])
    @pytest.mark.parametrize("drafts", [1, 3])
    def test_with_drafts(self, expected: list[list[int]], draft: Any, drafts: int) -> None:
        for ids, new in zip(prompts(), expected, strict=True):
            hook = logits_processor(PENALTY, prompt=ids)
            assert speculative(ids, [hook], draft(), num_draft_tokens=drafts, max_tokens=TOKENS) == new

    @pytest.mark.parametrize("form", [list, mx.array, np.array, torch.tensor, lambda ids: [ids]])
    def test_with_a_cache(self, expected: list[list[int]], form: Any) -> None:
        for ids, new, behind in zip(prompts(), expected, (1, 2, 4), strict=True):
            hook = logits_processor(PENALTY, prompt=form(ids))
            assert plain(ids[-behind:], [hook], prompt_cache=cached(ids[:-behind]), max_tokens=TOKENS) == new

    def test_with_both(self, expected: list[list[int]]) -> None:
        for ids, new in zip(prompts(), expected, strict=True):
            layers = [*cached(ids[:-3]), *cached(ids[:-3])]
            hook = logits_processor(PENALTY, prompt=ids)
            assert speculative(ids[-3:], [hook], model(), prompt_cache=layers, max_tokens=TOKENS) == new

    def test_in_a_batch_with_one_hook(self, expected: list[list[int]]) -> None:
        for ends in ([0, 0, 0], [5, 3, 6]):
            shared = logits_processor(PENALTY, prompt=prompts())
            found = batch(
                [ids[end:] for ids, end in zip(prompts(), ends, strict=True)],
                [[shared]] * 3,
                caches=[cached(ids[:end]) for ids, end in zip(prompts(), ends, strict=True)],
            )
            assert [new[:TOKENS] for new in found] == expected

    def test_earlier_output_is_not_prompt(self, expected: list[list[int]]) -> None:
        ids, new = prompts()[0], expected[0]
        own = lk.RepetitionPenalty(1.8, include_prompt=False)
        whole = plain(ids, [logits_processor(own)], max_tokens=TOKENS)
        rest = plain([*ids, *whole[:9]], [logits_processor(own, prompt=ids)], max_tokens=TOKENS - 9)
        assert rest == whole[9:]
        assert plain([*ids, *new[:9]], [logits_processor(PENALTY, prompt=ids)], max_tokens=TOKENS - 9) == new[9:]

    def test_pads_do_not_count(self, expected: list[list[int]]) -> None:
        ids, new = prompts()[0], expected[0]
        padded = [0, 0, 0, *ids]
        mask = [0] * 3 + [1] * len(ids)
        for known in ({"pad_id": 0}, {"attention_mask": mask}, {"attention_mask": mx.array([mask])}):
            hook = logits_processor(PENALTY, prompt=mx.array(padded), **known)
            assert speculative(ids, [hook], model(), max_tokens=TOKENS) == new


class TestNotTold:
    def run(self, mode: str, hook: Any) -> list[int]:
        ids = prompts()[0]
        if mode == "drafts":
            return speculative(ids, [hook], model(), max_tokens=TOKENS)
        if mode == "cache":
            return plain(ids[-4:], [hook], prompt_cache=cached(ids[:-4]), max_tokens=TOKENS)
        # Two sequences, of which one has nothing hidden.
        return batch([ids, ids[-4:]], [[hook], [hook]], caches=[cached([]), cached(ids[:-4])], max_tokens=TOKENS)[1]

    @pytest.mark.parametrize(("mode", "shown"), [("drafts", 1), ("cache", 4), ("batch", 4)])
    def test_what_is_seen_counts_and_one_warning_says_so(self, mode: str, shown: int) -> None:
        hook = logits_processor(PENALTY)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            new = self.run(mode, hook)
            hook.new_generation()
            self.run(mode, hook)
        [warning] = caught
        assert f"RepetitionPenalty reads the prompt, of which mlx-lm shows only the last {shown} of 12 tokens" in str(
            warning.message
        )
        assert "unless you pass prompt=..." in str(warning.message)
        assert new == self.run(mode, make_repetition_penalty(1.8, 10_000))

    @pytest.mark.parametrize("mode", ["drafts", "cache", "batch"])
    def test_who_does_not_read_the_prompt_is_not_warned(self, mode: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run(mode, logits_processor(lk.RepetitionPenalty(1.8, include_prompt=False)))
            for ids in prompts():
                plain(ids, [logits_processor(PENALTY)], max_tokens=2)
            batch(prompts(), [[logits_processor(PENALTY)]] * 3)
