"""The decode modes of ONNX Runtime GenAI."""

from __future__ import annotations

from typing import Any

import onnxruntime_genai as og
import pytest
import torch

import logitkit as lk
from logitkit_adapters.onnxruntime_genai import continuous, generate, generate_step
from tests.conformance.engines import OnnxRuntimeGenAi, until_eos
from tests.conformance.families import family
from tests.conformance.modes_transformers import STEPS
from tests.conformance.replay import Replay
from tests.sessions.engines import loaded


def model() -> Any:
    return loaded("onnxruntime-genai")[0]


def greedy(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    return OnnxRuntimeGenAi().generate([prompt], processor, STEPS)[0]


def sampled(prompt: list[int], processor: lk.Processor[Any]) -> None:
    """Watch the logits that the engine shows, those that it is given back, and the tokens that it then chooses."""
    replay, tokens = Replay(processor, prompt), list(prompt)
    shown, taken, chosen = (getattr(og.Generator, f) for f in ("get_logits", "set_logits", "get_next_tokens"))

    def get_logits(generator: Any) -> Any:
        logits = shown(generator)
        replay.before(torch.from_numpy(logits[:, 0].copy()))
        return logits

    def set_logits(generator: Any, logits: Any) -> None:
        replay.behind([tokens], torch.from_numpy(logits[:, 0].copy()))
        taken(generator, logits)

    def get_next_tokens(generator: Any) -> Any:
        found = chosen(generator)
        tokens.append(int(found[0]))
        return found

    with pytest.MonkeyPatch.context() as patch:
        for function in (get_logits, set_logits, get_next_tokens):
            patch.setattr(og.Generator, function.__name__, function)
        options: dict[str, Any] = {"do_sample": True, "top_k": 0, "temperature": 1.0, "random_seed": 0}
        found = generate(model(), None, prompt, processor, max_new_tokens=STEPS, **options)
    assert tokens == [*prompt, *found.token_ids[0]]
    assert replay.calls


def batched(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    prompts = [prompt[1:], prompt, [*prompt, *prompt]]
    return OnnxRuntimeGenAi().generate(prompts, processor, STEPS)[1]


def rows(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    """Between a row without a processor and one with another, of other lengths."""
    others = [None, processor, family("languages")]
    prompts = [prompt[1:], prompt, [*prompt, *prompt]]
    return generate(model(), None, prompts, others, max_new_tokens=STEPS, do_sample=False).token_ids[1]


def beams(prompt: list[int], processor: lk.Processor[Any]) -> None:
    """The beams of transformers, in the same order; half as long, since forks are computed again at every step."""
    found, wanted = (
        continuous(*loaded(engine), processor, num_beams=3, max_new_tokens=STEPS // 2)(prompt).rows
        for engine in ("onnxruntime-genai", "transformers")
    )
    assert found == wanted


def streamed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    steps = generate_step(model(), None, prompt, processor, max_new_tokens=STEPS)
    return [token for (token,) in steps if token is not None]


def resumed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    text = continuous(*loaded("onnxruntime-genai"), processor, carry_state=True)
    state = text(prompt, max_new_tokens=9)
    whole = text(state, max_new_tokens=STEPS - 9)
    # Again from the middle, in the same generator.
    again = text(whole.tokens[: len(prompt) + 3], max_new_tokens=STEPS - 3)
    assert again.rows == whole.rows
    (row,) = whole.rows
    new = [*row[len(prompt) :], *([*loaded("onnxruntime-genai")[1].eos_token_ids] if bool(whole.finished) else [])]
    return until_eos(new)
