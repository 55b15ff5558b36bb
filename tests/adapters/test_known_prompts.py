"""A hook that a second generation shows its own output warns once, and nothing else warns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit_adapters import mlx_lm as for_mlx_lm
from logitkit_adapters import transformers as for_transformers
from logitkit_adapters.hooks.known_prompt import KnownPromptWarning
from tests.adapters import demo, demo_mlx_lm

DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
PROMPT: list[int] = demo.tokenizer()("The meeting is on ")["input_ids"]


def constraint() -> lk.Processor[Any]:
    return lk.Regex(DATE, demo.vocabulary())


def with_penalty() -> lk.Processor[Any]:
    return lk.chain(constraint(), lk.FrequencyPenalty(0.1))


def run_transformers(prompt: list[int], hook: Any, **options: Any) -> list[int]:
    ids = torch.tensor([prompt] * options.pop("rows", 1))
    settings = {"max_new_tokens": 20, "do_sample": False, **options}
    written = demo.model().generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[hook], **settings)
    found: list[int] = written[0].tolist()
    return found


def run_mlx_lm(prompt: list[int], hook: Any) -> list[int]:
    return prompt + demo_mlx_lm.plain(prompt, [hook])


ENGINES: dict[str, tuple[Callable[[list[int], Any], list[int]], Callable[..., Any]]] = {
    "transformers": (run_transformers, for_transformers.logits_processor),
    "mlx-lm": (run_mlx_lm, for_mlx_lm.logits_processor),
}

# Prompts that end within the output of an earlier generation.
INSIDE: dict[str, Callable[[list[int]], list[int]]] = {
    "the output without EOS": lambda written: written[:-1],
    "the beginning of the output": lambda written: written[:-4],
    "the first token of the output": lambda written: written[: len(PROMPT) + 1],
}

# Prompts that a hook takes for new ones, as they are.
NEW: dict[str, Callable[[list[int]], list[int]]] = {
    "the same prompt": lambda _: PROMPT,
    "the beginning of the prompt": lambda _: PROMPT[:-1],
    "the next turn of a chat": lambda written: written + PROMPT[1:],
    "another prompt": lambda _: PROMPT[::-1],
}


@pytest.mark.parametrize("make", [constraint, with_penalty])
@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_prompt_within_the_output_warns_once(engine: str, name: str, make: Callable[[], lk.Processor[Any]]) -> None:
    run, hook_of = ENGINES[engine]
    hook = hook_of(make())
    prompt = INSIDE[name](run(PROMPT, hook))
    with pytest.warns(KnownPromptWarning, match="create a new hook .* or call hook.new_generation") as caught:
        run(prompt, hook)
    assert len(caught) == 1
    # Once for each hook.
    run(prompt, hook)
    other = hook_of(make())
    run(PROMPT, other)
    other.new_generation()
    run(prompt, other)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_text_with_eos_warns(engine: str) -> None:
    run, hook_of = ENGINES[engine]
    hook = hook_of(constraint())
    written = run(PROMPT, hook)
    assert written[-1] in demo.vocabulary().eos_ids
    with pytest.warns(KnownPromptWarning):
        run(written, hook)


@pytest.mark.parametrize("engine", ENGINES)
def test_output_with_an_illegal_token_warns(engine: str) -> None:
    run, hook_of = ENGINES[engine]
    hook = hook_of(constraint())
    written = run(PROMPT, hook)
    with pytest.warns(KnownPromptWarning):
        run([*written[:-1], PROMPT[1]], hook)


def test_the_same_prompt_again_after_one_token_does_not_warn() -> None:
    for make in (constraint, with_penalty):
        hook = for_transformers.logits_processor(make())
        for _ in range(3):
            run_transformers(PROMPT, hook, max_new_tokens=1)


@pytest.mark.parametrize("make", [constraint, with_penalty])
@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_prompt_that_is_taken_for_a_new_one_does_not_warn(
    engine: str, name: str, make: Callable[[], lk.Processor[Any]]
) -> None:
    run, hook_of = ENGINES[engine]
    hook = hook_of(make())
    prompt = NEW[name](run(PROMPT, hook))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(prompt, hook)


@pytest.mark.parametrize("make", [constraint, with_penalty])
def test_drafts_beams_and_batches_do_not_warn(make: Callable[[], lk.Processor[Any]]) -> None:
    hook = for_transformers.logits_processor(make())
    modes: list[dict[str, Any]] = [
        {"assistant_model": demo.model()},
        {"prompt_lookup_num_tokens": 3},
        {"num_beams": 3},
        {"rows": 2},
        {"do_sample": True},
        {},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", KnownPromptWarning)
        for mode in modes * 2:
            run_transformers(PROMPT, hook, **mode)


def test_drafts_of_mlx_lm_do_not_warn() -> None:
    hook = for_mlx_lm.logits_processor(constraint())
    for draft in (demo_mlx_lm.model(), demo_mlx_lm.noisy_model()):
        for count in (1, 3):
            demo_mlx_lm.speculative(PROMPT, [hook], draft, num_draft_tokens=count)
    demo_mlx_lm.batch([PROMPT, PROMPT], [[hook], [hook]])


def test_output_that_is_named_as_such_does_not_warn() -> None:
    written = run_transformers(PROMPT, for_transformers.logits_processor(constraint()))
    hook = for_transformers.logits_processor(constraint(), prompt=[PROMPT])
    for length in (-4, -3, -2):
        assert run_transformers(written[:length], hook) == written


def test_a_text_continues_where_the_engine_does_not_know_its_eos() -> None:
    """`generate` goes on after an EOS that it does not know: its rows have ended, but no generation begins."""
    hook = for_transformers.logits_processor(constraint())
    run_transformers(PROMPT, hook, eos_token_id=7)
