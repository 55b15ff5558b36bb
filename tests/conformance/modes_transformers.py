"""The decode modes of transformers."""

from __future__ import annotations

from functools import cache
from threading import Thread
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import ContinuousBatchingConfig, GenerationConfig, TextIteratorStreamer

import logitkit as lk
from logitkit.composition.chain import members
from logitkit.errors import ConfigurationError
from logitkit_adapters.transformers import continuous_batching, logits_processor
from tests.adapters import engine_ahead
from tests.adapters.demo import model, tokenizer
from tests.conformance.engines import Transformers, until_eos
from tests.conformance.families import family
from tests.conformance.replay import Replay

STEPS = 32

# In continuous batching, which starts a thread and captures graphs.
FIRST_STEPS = 12


def _generate(prompt: list[int], hooks: list[Any], **options: Any) -> Tensor:
    settings = {"max_new_tokens": STEPS, "do_sample": False, **options}
    ids = torch.tensor([prompt])
    written: Tensor = model().generate(ids, attention_mask=torch.ones_like(ids), logits_processor=hooks, **settings)
    return written[:, len(prompt) :]


def _replayed(prompt: list[int], processor: lk.Processor[Any], **options: Any) -> None:
    replay = Replay(processor, prompt)

    def before(_: Tensor, scores: Tensor) -> Tensor:
        replay.before(scores)
        return scores

    def behind(ids: Tensor, scores: Tensor) -> Tensor:
        replay.behind(ids.tolist(), scores)
        return scores

    _generate(prompt, [before, logits_processor(processor), behind], **options)
    assert replay.calls


def greedy(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    return until_eos(_generate(prompt, [logits_processor(processor)])[0].tolist())


@cache
def expected(prompt: tuple[int, ...], kind: str) -> list[int]:
    """Return the greedy tokens for a family of processors, generated once for the modes of all engines."""
    return greedy([*prompt], family(kind))


def sampled(prompt: list[int], processor: lk.Processor[Any]) -> None:
    torch.manual_seed(0)
    _replayed(prompt, processor, do_sample=True, num_return_sequences=3)


def batched(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    # Between a shorter one and a longer one, so that it has pads and another has none.
    return Transformers().generate([prompt[1:], prompt, [*prompt, *prompt]], processor, STEPS)[1]


def beams(prompt: list[int], processor: lk.Processor[Any]) -> None:
    _replayed(prompt, processor, num_beams=4)


def speculative(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    drafted = _generate(prompt, [logits_processor(processor)], assistant_model=model())
    looked_up = _generate(prompt, [logits_processor(processor)], prompt_lookup_num_tokens=3)
    assert drafted.tolist() == looked_up.tolist()
    return until_eos(drafted[0].tolist())


def streamed(prompt: list[int], processor: lk.Processor[Any]) -> str:
    streamer = TextIteratorStreamer(tokenizer(), skip_prompt=True, timeout=60)
    options = {"streamer": streamer}
    thread = Thread(target=_generate, args=(prompt, [logits_processor(processor)]), kwargs=options)
    thread.start()
    text = "".join(streamer)
    thread.join()
    return text


def resumed(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    first = until_eos(_generate(prompt, [logits_processor(processor)], max_new_tokens=9)[0].tolist())
    if len(first) < 9:
        return first
    hook = logits_processor(processor, prompt=[prompt])
    rest = _generate([*prompt, *first], [hook], max_new_tokens=STEPS - 9)
    return [*first, *until_eos(rest[0].tolist())]


def rows(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    """Between a row without a processor and one with another, all with one prompt."""
    others = [None, processor, family("languages")]
    hook = logits_processor(others, max_new_tokens=STEPS)
    ids = torch.tensor([prompt] * 3)
    written = model().generate(
        ids, attention_mask=torch.ones_like(ids), logits_processor=[hook], max_new_tokens=STEPS, do_sample=False
    )
    return until_eos(written[1, len(prompt) :].tolist())


def continuous(prompt: list[int], processor: lk.Processor[Any], **options: Any) -> list[int]:
    """Between a request without a processor and one with another, of other lengths."""
    given = {"req_0": None, "req_1": processor, "req_2": family("languages")}
    # Where padding sizes are given, graphs are padded to them.
    sizes: dict[str, Any] = (
        {"q_padding_interval_size": 32, "kv_padding_interval_size": 64} if options.get("use_cuda_graph") else {}
    )
    config = ContinuousBatchingConfig(
        num_blocks=24, page_size=16, max_batch_tokens=64, max_requests_per_batch=4, **sizes, **options
    )
    special = {"eos_token_id": tokenizer().eos_token_id, "pad_token_id": tokenizer().pad_token_id}
    generation = GenerationConfig(max_new_tokens=FIRST_STEPS, do_sample=False, **special)
    with continuous_batching(model(), given):
        done = model().generate_batch(
            [prompt[1:], prompt, [*prompt, *prompt]],
            generation_config=generation,
            continuous_batching_config=config,
            warmup=False,
        )
    assert not done["req_1"].error
    return until_eos(done["req_1"].generated_tokens)


def continuous_graphs(prompt: list[int], processor: lk.Processor[Any]) -> list[int]:
    """Asynchronous batching with graphs; a constraint that remembers items is refused, and runs without graphs."""
    with pytest.MonkeyPatch.context() as patch:
        engine_ahead.asynchronous(patch)
        if any(getattr(getattr(part, "automaton", None), "remembers", None) is not None for part in members(processor)):
            with pytest.raises(ConfigurationError, match="uniqueItems"):
                _with_graphs(prompt, processor, patch)
            return continuous(prompt, processor, use_async_batching=True)
        return _with_graphs(prompt, processor, patch)


def _with_graphs(prompt: list[int], processor: lk.Processor[Any], patch: pytest.MonkeyPatch) -> list[int]:
    with engine_ahead.graphs(patch) as tape:
        found = continuous(prompt, processor, use_async_batching=True, use_cuda_graph=(True, False))
        assert tape.replays
    return found
