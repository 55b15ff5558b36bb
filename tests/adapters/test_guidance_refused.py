"""Everything without a second pass refuses guidance when it gets it, alone or in a chain, and says where it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest
from logitkit.batching.state_bank import StateBank
from logitkit.errors import ConfigurationError
from logitkit.particles import ParticleFilter
from logitkit_adapters import llama_cpp, mlx_lm, mlx_vlm, onnxruntime_genai, transformers
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.mlx_lm import particles as mlx_particles
from logitkit_adapters.onnxruntime_genai.generation import generate as onnx_generate
from logitkit_adapters.transformers import particles
from tests.adapters import demo, vision_models
from tests.sessions.engines import loaded

PROMPT = [5, 6, 7]


def continuous_batching(given: Any) -> None:
    with transformers.continuous_batching(demo.model(), given):
        pass


def of_a_request(processor: Any) -> None:
    """A function names the processor of a request only when it comes; the request ends, and the block raises the error."""
    config = transformers_config()
    with transformers.continuous_batching(demo.model(), lambda _: processor):
        demo.model().generate_batch([PROMPT], continuous_batching_config=config, max_new_tokens=2)


def transformers_config() -> Any:
    from transformers import ContinuousBatchingConfig

    return ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64)


def bank(processor: Any) -> None:
    made = StateBank(torch.device("cpu"), 72)
    made.grow(2)
    made.put({1: NewRequest(processor, PROMPT)})


def batch(processor: Any) -> None:
    BatchedRequests("cpu", columns=72).arrange([NewRequest(processor, PROMPT)])


def configured(processor: Any) -> None:
    Configurations(demo.vocabulary()).check(Asked(lk.to_config(processor), None, None))


def typed(processor: Any) -> None:
    transformers.generate_typed(demo.model(), demo.tokenizer(), "The", bool, processor=processor)


def replayed(processor: Any) -> None:
    lk.training.replay(processor, [PROMPT], [[5]], torch.zeros(1, 1, 72))


# A function that takes the processor, and the name in the error of that which has no second pass.
DOORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "transformers hook": (transformers.logits_processor, "a hook for transformers"),
    "rows of a hook": (lambda p: transformers.logits_processor([None, p]), "a hook for transformers"),
    "transformers Session": (lambda p: transformers.Session(demo.model(), demo.tokenizer(), processor=p), "a session"),
    "Session.generate": (
        lambda p: transformers.Session(demo.model(), demo.tokenizer()).generate(PROMPT, max_new_tokens=2, processor=p),
        "a session",
    ),
    "transformers continuous": (
        lambda p: transformers.continuous(demo.model(), demo.tokenizer(), processor=p),
        "a session",
    ),
    "generate_typed": (typed, "a session"),
    "a type that is a processor": (
        lambda p: transformers.generate_typed(demo.model(), demo.tokenizer(), "The", p),
        "a session",
    ),
    "trace": (lambda p: transformers.trace(demo.model(), demo.tokenizer(), "The", p), "a session"),
    "continuous batching": (continuous_batching, "continuous batching"),
    "a mapping of requests": (lambda p: continuous_batching({"req_0": p}), "continuous batching"),
    "a function of requests": (of_a_request, "continuous batching"),
    "particles": (lambda p: particles.sample(demo.model(), demo.tokenizer(), PROMPT, p), "particle sampling"),
    "a particle filter of a loop": (lambda p: ParticleFilter(processor=p, eos_ids=[2]), "particle sampling"),
    "mlx-lm hook": (mlx_lm.logits_processor, "a hook for mlx-lm"),
    "mlx-lm Session": (lambda p: mlx_lm.Session(*loaded("mlx-lm"), processor=p), "a session"),
    "mlx-lm continuous": (lambda p: mlx_lm.continuous(*loaded("mlx-lm"), processor=p), "a session"),
    "mlx-lm particles": (lambda p: mlx_particles.sample(*loaded("mlx-lm"), PROMPT, p), "particle sampling"),
    "mlx-vlm hook": (mlx_vlm.logits_processor, "a hook for mlx-vlm"),
    "mlx-vlm Session": (lambda p: mlx_vlm.Session(*vision_models.loaded("shipped"), processor=p), "a session"),
    "llama.cpp hook": (llama_cpp.logits_processor, r"a hook for llama\.cpp"),
    "llama.cpp Session": (lambda p: llama_cpp.Session(loaded("llama.cpp")[0], processor=p), "a session"),
    "ONNX generate": (
        lambda p: onnx_generate(*loaded("onnxruntime-genai"), PROMPT, p, max_new_tokens=2),
        "ONNX Runtime GenAI",
    ),
    "ONNX Session": (
        lambda p: onnxruntime_genai.Session(*loaded("onnxruntime-genai"), processor=p),
        "a session",
    ),
    "a server": (configured, "a server"),
    "a batch of requests": (batch, "an engine whose requests share a batch"),
    "a bank of states": (bank, "an engine whose requests share a batch"),
    "replay": (replayed, "the trainer in replay"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a chain"])
def test_guidance_is_refused(door: str, alone: bool) -> None:
    enter, name = DOORS[door]
    processor = lk.Guidance(1.5) if alone else lk.chain(lk.Guidance(1.5), lk.RepetitionPenalty(1.1))
    message = rf"Guidance reads the logits of a second pass, which {name} does not have\. It works in `generate`"
    with pytest.raises(ConfigurationError, match=message):
        enter(processor)
