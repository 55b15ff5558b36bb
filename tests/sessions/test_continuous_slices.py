"""States made by slices, sums and selections continue as if they had been generated in one go."""

from __future__ import annotations

import random
import warnings
from functools import cache
from typing import Any

import pytest
import torch

from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.demo import model_dir
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer
from tests.sessions.continuation import PROMPT, PROMPTS, fresh_logits, last_logits, lengths
from tests.sessions.engines import watched
from tests.sessions.transformers_generator import choice, generator


@pytest.mark.parametrize("samples", [1, 3])
def test_logits_after_every_prefix_slice_equal_a_fresh_run(samples: int) -> None:
    draw = generator(num_samples=samples, seed=5)
    greedy = generator(num_samples=samples, do_sample=False)
    s = draw(PROMPTS, max_new_tokens=6)
    keys = (slice(None), slice(None)) if samples > 1 else (slice(None),)
    for view, stops in ((s, (4, 9, 15, -1, -2, None)), (s.tokens, (3, 8, -1, -4, None))):
        for stop in stops:
            part = view[(*keys, slice(stop))]
            assert part.cached > 0
            with last_logits(model()) as seen, watched(model()) as fed:
                greedy(part, max_new_tokens=1)
            # The rows have prefixes of different lengths, so that few columns more than the cut are fed.
            assert sum(fed) <= 4
            for row, logits in zip(part.rows, seen[-1], strict=True):
                torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-4)


@cache
def wide_model() -> Any:
    """Return the model in float64, where nothing but a wrong mask or position is to be seen."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_dir(), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(4))
def test_logits_after_slices_of_ragged_rows_are_exact_but_for_rounding(seed: int) -> None:
    draw = random.Random(seed)
    words = [
        "Name:",
        "Emma",
        "Age",
        "125",
        "Email",
        "The",
        "meeting",
        "is",
        "on",
        "Item",
        "pen",
        "Price",
        "tea",
        "and",
        "12",
        ".\n",
    ]
    prompts = [" ".join(draw.choices(words, k=draw.randint(1, 40))) for _ in range(4)]
    stops = [draw.randint(1, 60) for _ in range(3)]
    apart: dict[str, float] = {}
    for name, one in (("float64", wide_model()), ("float32", model())):
        s = continuous(one, tokenizer(), num_samples=2, seed=seed)(prompts, max_new_tokens=6)
        for stop in stops:
            part = s.tokens[:, :, :stop]
            with last_logits(one) as seen:
                continuous(one, tokenizer(), num_samples=2, do_sample=False)(part, max_new_tokens=1)
            for row, logits in zip(part.rows, seen[-1], strict=True):
                fresh = fresh_logits(one, row)
                apart[name] = max(apart.get(name, 0.0), float((logits - fresh).abs().max() / fresh.abs().max()))
    # Neighbouring float32 numbers near 18 differ by 2e-6. The model alone, fed token by token, differs from itself by a few of
    # these steps, how many depends on the processor. In float64, a wrong mask or position would show far above the rounding.
    assert apart["float64"] < 1e-12
    assert apart["float32"] < 1e-5


def test_logits_after_rows_are_selected_added_and_repeated() -> None:
    s = generator(num_samples=2, seed=1)(PROMPTS, max_new_tokens=5)
    one = generator()(PROMPTS[0], max_new_tokens=3)
    cases = [
        s[1, :, :],
        s[-1, -1, :],
        s[:, 1, :9],
        s[::, :, :] + s[:, :, :5],
        s + " and so",
        one.fan_out(3),
        s[0, :, :] + one.fan_out(2),
    ]
    for state in cases:
        with last_logits(model()) as seen, watched(model()) as fed:
            generator(num_samples=state.num_samples, do_sample=False)(state, max_new_tokens=1)
        assert state.cached > 0
        assert sum(fed) == state.token_ids.shape[1] - min(state.cached, state.token_ids.shape[1] - 1)
        for row, logits in zip(state.rows, seen[-1], strict=True):
            torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-4)


def test_state_plus_state_feeds_only_the_right_tokens() -> None:
    text = generator()
    left, right = text(PROMPT, max_new_tokens=4), text("Item: pen", max_new_tokens=3)
    with watched(model()) as fed:
        text(left + right, max_new_tokens=1)
    # And the last left one, which nothing needed before.
    assert sum(fed) == lengths(right)[0] + 1
    torch.testing.assert_close((left + right).weights, left.weights + right.weights)


def test_ragged_states_are_added_in_the_fewest_columns() -> None:
    text = generator()
    left = text(PROMPTS, max_new_tokens=4)
    right = choice("a", "b, and so on, and on", " or not")(["x", "The price of tea and", "y"])
    counts = lengths(right)
    assert len(set(lengths(left))) == len(set(counts)) == 3
    both = left + right
    with watched(model()) as fed, last_logits(model()) as seen:
        text(both, max_new_tokens=1)
    # A rectangle has as many columns for all rows: no more than the longest right row has, and the last left token.
    assert fed == [max(counts) + 1]
    for row, logits in zip(both.rows, seen[-1], strict=True):
        torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-4)
    # By itself, each row feeds its right tokens and the last left one.
    for row, count in enumerate(counts):
        with watched(model()) as fed:
            text(left[row, :] + right[row, :], max_new_tokens=1)
        assert fed == [count + 1]


def test_a_slice_from_the_middle_warns_once_and_is_recomputed() -> None:
    s = generator()(PROMPTS, max_new_tokens=5)
    with pytest.warns(CacheDropped) as caught:
        part = s[:, 3:]
    assert len(caught) == 1
    with warnings.catch_warnings(), last_logits(model()) as seen:
        warnings.simplefilter("error")
        generator()(part, max_new_tokens=1)
    for row, logits in zip(part.rows, seen[0], strict=True):
        torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-4)


def test_text_slices_equal_python_s() -> None:
    s = generator(num_samples=2, seed=3)(PROMPTS[:2], max_new_tokens=9)
    texts = [tokenizer().decode(row, skip_special_tokens=True) for row in s.rows]
    assert list(s) == texts
    for key in (slice(0, 5), slice(0, -3), slice(None), slice(0, 0), 0):
        assert list(s[:, :, key]) == [text[key] for text in texts]
    with pytest.warns(CacheDropped):
        assert str(s[1, 0, -7:-2]) == texts[2][-7:-2]
